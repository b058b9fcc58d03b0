"""From a question to its one ending, whatever the engine does."""

from collections.abc import Callable
from functools import partial

import pytest
from PySide6.QtWidgets import QApplication

from app.chat.generation.controller import FAILED_NOTICE, ChatController
from app.chat.history.message import AnswerEnding, Attachment, Message
from app.engine.state import EngineState, Phase
from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.ui.notices import Notice
from engine.protocol.messages import Cancel, Failed, Generate, Prefilled, Round
from tests.app.fake_engine import finished, loaded, round_of
from tests.app.fake_link import FakeLink

READY = EngineState(Phase.READY, pair=loaded(1))


class Room:
    """A controller, and what it says."""

    def __init__(self, link: FakeLink, settings: SettingsFile) -> None:
        self.link = link
        self.controller = ChatController(link, settings)
        self.notices: dict[str, Notice] = {}
        self.answering: list[bool] = []
        self.changes: list[tuple[Message, str]] = []
        self.rounds: list[Round] = []
        link.events_arrived.connect(self.controller.on_events)
        self.controller.notice_raised.connect(lambda notice: self.notices.update({notice.key: notice}))
        self.controller.notice_withdrawn.connect(lambda key: self.notices.pop(key, None))
        self.controller.answering_changed.connect(self.answering.append)
        self.controller.answer_changed.connect(lambda message, text: self.changes.append((message, text)))
        self.controller.round_arrived.connect(self.rounds.append)

    @property
    def answer(self) -> Message:
        """The last answer."""
        answer = self.controller.conversation.last_answer
        assert answer is not None
        return answer


@pytest.fixture
def room(qapp: QApplication, link: FakeLink, settings: SettingsFile) -> Room:
    """A controller in front of an engine that is ready."""
    made = Room(link, settings)
    made.controller.on_engine_state(READY)
    return made


def test_an_answer_grows_and_ends_once(room: Room) -> None:
    room.controller.ask("Hello")
    assert room.link.last_question.chat[-1].content == "Hello"
    room.link.say("Good", " day")
    room.link.say("!")
    room.link.finish()
    assert (room.answer.text, room.answer.ending) == ("Good day!", AnswerEnding.COMPLETE)
    assert room.answering == [True, False]
    assert "".join(text for _, text in room.changes) == "Good day!"


def test_a_list_of_events_is_one_change_and_one_tree(room: Room) -> None:
    room.controller.ask("Hello")
    before = len(room.changes)
    room.link.say(*"abcdef")
    assert len(room.changes) == before + 1
    assert [each.index for each in room.rounds] == [5]


def test_held_back_text_comes_with_the_ending(room: Room) -> None:
    room.controller.ask("Hello")
    request = room.link.last_question.id
    ending = finished(request, "stop", 1)
    room.link.answer(round_of(request, 0, "a"), type(ending)(request, "stop", "bc", ending.statistics))
    assert room.answer.text == "abc"
    assert room.answer.statistics == ending.statistics


def test_figures_run_along_and_are_replaced_by_the_engine_s(room: Room) -> None:
    room.controller.ask("Hello")
    room.link.answer(Prefilled(room.link.last_question.id, 12, 0, 0.1))
    room.link.say("a", "b")
    running = room.answer.statistics
    assert running is not None
    assert (running.new_tokens, running.passes, running.prompt_tokens) == (4, 2, 12)
    assert running.tokens_per_second == pytest.approx(4 / 0.008)
    room.link.finish(passes=9)
    assert room.answer.statistics is not None
    assert room.answer.statistics.passes == 9


@pytest.mark.parametrize(
    ("reason", "ending"),
    [("stop", AnswerEnding.COMPLETE), ("length", AnswerEnding.LENGTH), ("cancelled", AnswerEnding.STOPPED)],
)
def test_every_reason_has_an_ending(room: Room, reason: str, ending: AnswerEnding) -> None:
    room.controller.ask("Hello")
    room.link.finish(reason)
    assert room.answer.ending is ending


def test_stop_cancels_the_request_and_waits_for_its_ending(room: Room) -> None:
    room.controller.ask("Hello")
    room.link.say("a")
    room.controller.stop()
    assert room.link.sent[-1] == Cancel(room.link.last_question.id)
    assert room.controller.is_answering
    room.link.finish("cancelled")
    assert (room.answer.text, room.answer.ending) == ("a", AnswerEnding.STOPPED)


def test_an_answer_that_ended_takes_nothing_more(room: Room) -> None:
    room.controller.ask("Hello")
    room.link.say("a")
    room.link.finish()
    room.link.say("late")
    room.link.finish("length")
    assert (room.answer.text, room.answer.ending) == ("a", AnswerEnding.COMPLETE)
    assert room.answering == [True, False]


def test_events_of_others_are_left_alone(room: Room) -> None:
    room.controller.ask("Hello")
    room.link.answer(round_of(room.link.last_question.id + 1, 0, "not mine"), Failed(0, "The process as a whole"))
    assert room.answer.text == ""
    assert room.controller.is_answering


def test_one_question_at_a_time_and_none_that_is_blank(room: Room) -> None:
    room.controller.ask("  \n ")
    assert room.controller.conversation.is_empty
    room.controller.ask("one")
    room.controller.ask("two")
    assert len([each for each in room.link.sent if isinstance(each, Generate)]) == 1


def test_a_question_waits_for_the_engine(room: Room) -> None:
    room.controller.on_engine_state(EngineState(Phase.LOADING))
    room.controller.ask("Hello")
    assert room.answer == Message("assistant", "", AnswerEnding.WAITING)
    assert not room.link.sent
    room.controller.on_engine_state(READY)
    assert room.link.last_question.chat[-1].content == "Hello"
    assert room.answer.ending is AnswerEnding.OPEN


def test_a_waiting_question_can_be_stopped(room: Room) -> None:
    room.controller.on_engine_state(EngineState(Phase.STARTING))
    room.controller.ask("Hello")
    room.controller.stop()
    assert room.answer.ending is AnswerEnding.STOPPED
    room.controller.on_engine_state(READY)
    assert not room.link.sent


@pytest.mark.parametrize(
    ("phase", "ending"), [(Phase.EMPTY, AnswerEnding.FAILED), (Phase.STOPPED, AnswerEnding.INTERRUPTED)]
)
def test_a_waiting_question_is_given_up_when_nothing_comes(room: Room, phase: Phase, ending: AnswerEnding) -> None:
    room.controller.on_engine_state(EngineState(Phase.LOADING))
    room.controller.ask("Hello")
    room.controller.on_engine_state(EngineState(phase))
    assert room.answer.ending is ending
    assert room.answering == [True, False]
    assert (FAILED_NOTICE in room.notices) == (phase is Phase.EMPTY)


def test_a_failure_is_told_and_the_chat_stays_usable(room: Room) -> None:
    room.controller.ask("far too long")
    room.link.answer(Failed(room.link.last_question.id, "The conversation has 9000 tokens.", "Start a new chat."))
    assert room.answer.ending is AnswerEnding.FAILED
    assert room.notices[FAILED_NOTICE].text == "The conversation has 9000 tokens. Start a new chat."
    room.controller.ask("short")
    assert FAILED_NOTICE not in room.notices
    assert [each.content for each in room.link.last_question.chat] == ["short"]


def test_a_dead_engine_leaves_the_text_and_says_nothing_twice(room: Room) -> None:
    room.controller.ask("Hello")
    room.link.say("half an ans")
    room.controller.on_engine_state(EngineState(Phase.STOPPED))
    room.link.die()
    assert (room.answer.text, room.answer.ending) == ("half an ans", AnswerEnding.INTERRUPTED)
    assert not room.notices
    assert room.answering == [True, False]


def test_regenerate_asks_the_last_question_again(room: Room) -> None:
    room.controller.ask("one")
    room.link.say("eins")
    room.link.finish()
    first = room.link.last_question
    room.controller.regenerate()
    assert room.link.last_question.id > first.id
    assert room.link.last_question.chat == first.chat
    assert room.answer.text == ""
    assert len(room.controller.conversation.messages) == 2
    room.link.say("un")
    room.link.finish()
    room.controller.show_version(room.answer.id, 0)
    assert room.answer.text == "eins"


def test_without_a_model_no_empty_version_is_put_beside_an_answer(room: Room) -> None:
    room.controller.ask("one")
    room.link.say("eins")
    room.link.finish()
    room.controller.on_engine_state(EngineState(Phase.EMPTY))
    acts: tuple[Callable[[], None], ...] = (
        room.controller.regenerate,
        partial(room.controller.branch, room.answer.id, "ei"),
    )
    for act in acts:
        act()
        assert (room.answer.text, room.controller.conversation.version(room.answer.id).count) == ("eins", 1)
        assert "No model is loaded" in room.notices.pop(FAILED_NOTICE).text


def test_an_edited_question_is_asked_and_the_old_one_can_be_shown_again(room: Room) -> None:
    room.controller.ask("one")
    room.link.say("eins")
    room.link.finish()
    question = room.controller.conversation.messages[0]
    room.controller.edit(question.id, "uno")
    assert [each.content for each in room.link.last_question.chat] == ["uno"]
    room.controller.show_version(question.id, 0)  # not while an answer is under way
    assert room.controller.conversation.messages[0].text == "uno"
    room.link.finish()
    room.controller.show_version(room.controller.conversation.messages[0].id, 0)
    assert room.answer.text == "eins"


def test_a_question_is_asked_anew_without_a_file(room: Room) -> None:
    room.controller.ask("one", (Attachment("a.txt", "words"),))
    room.link.finish()
    question = room.controller.conversation.messages[0]
    room.controller.edit(question.id, "one", question.attachments)
    assert room.controller.conversation.version(question.id).count == 1, "nothing is changed"
    room.controller.edit(question.id, "one", ())
    assert [each.content for each in room.link.last_question.chat] == ["one"]


def test_an_edited_answer_is_not_sent_by_itself(room: Room) -> None:
    room.controller.ask("one")
    room.link.say("eins")
    room.link.finish()
    sent = len(room.link.sent)
    room.controller.edit(room.answer.id, "un")
    assert (room.answer.text, len(room.link.sent)) == ("un", sent)
    room.controller.edit(room.answer.id, "  ")
    room.controller.edit(12345, "nobody")
    assert room.controller.conversation.version(room.answer.id).count == 2


def test_an_earlier_answer_is_given_again_and_what_followed_stays_with_the_old_one(room: Room) -> None:
    for question, said in (("one", "eins"), ("two", "zwei")):
        room.controller.ask(question)
        room.link.say(said)
        room.link.finish()
    first = room.controller.conversation.messages[1]
    changed: list[int] = []
    room.controller.path_changed.connect(changed.append)
    room.controller.regenerate(first.id)
    assert changed == [1]
    assert [each.content for each in room.link.last_question.chat] == ["one"]
    room.link.say("un")
    room.link.finish()
    assert [each.text for each in room.controller.conversation.messages] == ["one", "un"]
    room.controller.show_version(room.answer.id, 0)
    assert [each.text for each in room.controller.conversation.messages] == ["one", "eins", "two", "zwei"]
    sent = len(room.link.sent)
    room.controller.regenerate(room.controller.conversation.messages[0].id)
    room.controller.regenerate(12345)
    assert len(room.link.sent) == sent, "a question is no answer, and neither is nobody's"


def test_regenerate_without_anything_does_nothing(room: Room) -> None:
    room.controller.regenerate()
    room.controller.ask("one")
    room.controller.regenerate()
    assert len(room.link.sent) == 1


def test_a_new_chat_in_mid_answer_stops_it_and_hears_no_more_of_it(room: Room) -> None:
    room.controller.ask("one")
    room.link.say("eins")
    before = room.controller.conversation
    request = room.link.last_question.id
    room.controller.start_new_chat()
    assert room.link.sent[-1] == Cancel(request)
    room.link.say("zwei")
    room.link.finish("cancelled")
    assert room.controller.conversation.is_empty
    room.controller.show_conversation(before)
    assert (room.answer.text, room.answer.ending) == ("eins", AnswerEnding.STOPPED)


def test_a_new_chat_from_an_empty_one_is_the_same_one(room: Room) -> None:
    before = room.controller.conversation
    room.controller.start_new_chat()
    assert room.controller.conversation is before


def test_the_settings_of_the_moment_are_used(room: Room, settings: SettingsFile) -> None:
    settings.change(generation=GenerationSettings(temperature=0.0, seed=5, max_new_tokens=7, system_prompt="Be kind."))
    room.controller.ask("one")
    asked = room.link.last_question
    assert (asked.options.sampling.temperature, asked.options.sampling.seed, asked.options.max_new_tokens) == (0, 5, 7)
    assert asked.chat[0].role == "system"
