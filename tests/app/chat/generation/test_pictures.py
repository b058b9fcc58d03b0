"""Pictures are shown to what reads them; what does not is told of none, and the person is."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.generation.context_use import ContextUse
from app.chat.generation.controller import FAILED_NOTICE
from app.chat.generation.foresight import Draft, next_prompt
from app.chat.generation.shown_pictures import shown_pictures
from app.chat.history.message import AnswerEnding, Attachment
from app.engine.state import EngineState, Phase
from app.settings.store import SettingsFile
from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import MOST_PICTURES, Picture
from tests.app.chat.generation.test_controller import Room
from tests.app.fake_engine import loaded
from tests.app.fake_link import FakeLink

BLIND = EngineState(Phase.READY, pair=loaded(1))
SEEING = replace(BLIND, pair=replace(loaded(1), reads_pictures=True))
OAK = Attachment("oak.png", "", picture=b"oak")
NOTES = Attachment("notes.txt", "Words.")


@pytest.fixture
def room(qapp: QApplication, link: FakeLink, settings: SettingsFile) -> Room:
    """A controller in front of a model that reads pictures."""
    made = Room(link, settings)
    made.controller.on_engine_state(SEEING)
    return made


def answered(room: Room, question: str, *attachments: Attachment) -> None:
    room.controller.ask(question, attachments)
    room.link.say("Yes.")
    room.link.finish()


def test_why_pictures_are_not_read() -> None:
    assert EngineState().no_pictures == ""
    assert SEEING.no_pictures == ""
    assert BLIND.no_pictures == "demo-target reads no pictures."
    told = replace(BLIND, pair=replace(loaded(1), no_pictures="Its part for pictures is not there."))
    assert told.no_pictures == "Its part for pictures is not there."


def test_a_question_shows_its_pictures_before_its_text(room: Room) -> None:
    room.controller.ask("What is it?", (OAK, NOTES))
    (asked,) = room.link.last_question.chat
    assert asked.pictures == (Picture(b"oak", 0),)
    assert asked.content.startswith("File notes.txt:")


def test_a_picture_alone_is_a_question(room: Room) -> None:
    answered(room, "", OAK)
    assert room.link.last_question.chat == (ChatMessage("user", "", pictures=(Picture(b"oak"),)),)


def test_earlier_pictures_are_left_out_for_a_model_that_reads_none(room: Room) -> None:
    answered(room, "", OAK)
    answered(room, "And it?", OAK)
    room.controller.on_engine_state(BLIND)
    room.controller.ask("And now?")
    chat = room.link.last_question.chat
    assert [each.pictures for each in chat] == [()] * 5
    assert [each.content for each in chat[::2]] == ["(a picture)", "And it?", "And now?"]


def test_a_picture_that_meets_a_model_without_eyes_is_told_and_nothing_is_asked(room: Room) -> None:
    room.controller.on_engine_state(EngineState(Phase.LOADING))
    room.controller.ask("What is it?", (OAK,))
    room.controller.on_engine_state(BLIND)
    assert room.answer.ending is AnswerEnding.FAILED
    told = room.notices[FAILED_NOTICE].text
    assert told.startswith("demo-target reads no pictures. Choose a model that reads pictures")
    room.controller.on_engine_state(SEEING)
    room.controller.regenerate()
    assert room.link.last_question.chat[0].pictures


def test_no_answer_to_a_picture_is_given_again_without_eyes(room: Room) -> None:
    answered(room, "What is it?", OAK)
    room.controller.on_engine_state(BLIND)
    asked = len(room.link.sent)
    room.controller.regenerate()
    room.controller.branch(room.answer.id, "It")
    assert len(room.link.sent) == asked
    assert room.controller.conversation.version(room.answer.id).count == 1
    assert room.answer.ending is AnswerEnding.COMPLETE


def test_the_oldest_of_too_many_are_left_out() -> None:
    chat = [ChatMessage("user", str(number), pictures=(Picture(b"%d" % number),) * 3) for number in range(25)]
    shown = shown_pictures(chat, reads_pictures=True)
    assert sum(len(each.pictures) for each in shown) == MOST_PICTURES
    assert [len(each.pictures) for each in shown[:5]] == [0, 0, 0, 1, 3]
    assert shown[-1] is chat[-1]


def test_what_is_left_out_is_foreseen(room: Room) -> None:
    answered(room, "What is it?", OAK, OAK)
    draft, conversation = Draft("And it?", (OAK,)), room.controller.conversation
    seen = next_prompt(conversation, "", draft, reads_pictures=True)
    assert (seen.unread_pictures, sum(len(each.pictures) for each in seen.read_from(0))) == (0, 3)
    blind = next_prompt(conversation, "", draft, reads_pictures=False)
    assert (blind.unread_pictures, sum(len(each.pictures) for each in blind.read_from(0))) == (2, 0)
    crowded = next_prompt(conversation, "", Draft("", (OAK,) * (MOST_PICTURES - 1)), reads_pictures=True)
    assert crowded.unread_pictures == 1


def test_the_meter_tells_what_is_not_read(qtbot: QtBot) -> None:
    use = ContextUse(10, 100, unread_pictures=2)
    assert use.words == "10 of 100 tokens · 2 pictures above are not read"
    assert "shown none" in use.explanation
    assert "picture" not in ContextUse(10, 100).explanation
