"""Turns that have no room any more are summarised for the model, in plain sight."""

import pytest
from pytestqt.qtbot import QtBot

from app.chat.archive.conversion import conversation_of, message_record, settings_of
from app.chat.generation.context_fit import SUMMARY_NOTICE, summary_chat
from app.chat.history.conversation import Conversation, with_summary
from app.chat.history.message import AnswerEnding
from app.chat.history.records import ConversationRecord
from app.chat.view.conversation_view import ConversationView
from app.chat.view.question_view import SUMMARY_READ
from app.engine.state import EngineState, Phase
from app.settings.generation import SUMMARISE, GenerationSettings
from app.ui.theme import LIGHT
from engine.protocol.messages import ChatMessage, Failed
from tests.app.chat.generation.test_controller import Room, room

__all__ = ["room"]


@pytest.fixture
def full(room: Room) -> Room:
    """A room in which the third question finds the context full: a summary has been asked for."""
    room.controller.change_settings(
        GenerationSettings(when_full=SUMMARISE, max_new_tokens=100, system_prompt="Be kind.", temperature=0.9)
    )
    for question in ("one", "two"):
        room.controller.ask(question)
        room.link.tell_count(10, 1000, (5,) * len(room.controller.conversation.messages))
        room.link.say("<think>hm</think>", f"yes {question}")
        room.link.finish()
    room.controller.ask("three")
    room.link.tell_count(950, 1000, (400, 400, 50))
    return room


def contents(room: Room) -> list[str]:
    return [each.content for each in room.link.last_question.chat]


def test_a_summary_is_asked_for_and_read_instead(full: Room) -> None:
    (wish,) = contents(full)
    assert "Summarise" in wish
    assert "User: one" in wish
    assert "Assistant: yes one" in wish
    assert "hm" not in wish.replace("them", ""), "what was thought is not part of what was said"
    assert "three" not in wish
    options = full.link.last_question.options
    assert (options.sampling.temperature, options.max_new_tokens) == (0.0, 125)
    assert SUMMARY_NOTICE in full.notices
    assert not full.answer.ending.is_final
    assert full.answer.text == ""
    full.link.say("<think>what was it</think>", "They spoke", " of one.")
    full.link.finish()
    assert SUMMARY_NOTICE not in full.notices
    first, *rest = contents(full)
    assert first == with_summary("Be kind.", "They spoke of one.")
    assert rest[-1] == "three"
    assert "one" not in rest
    full.link.say("the answer")
    full.link.finish()
    assert full.answer.text == "the answer"
    assert full.controller.conversation.summary == "They spoke of one."


def test_a_later_summary_knows_the_one_before(full: Room) -> None:
    full.link.say("First summary.")
    full.link.finish()
    full.link.say("answer three")
    full.link.finish()
    full.controller.ask("four")
    full.link.tell_count(1900, 1000, (400, 400, 800, 50))
    assert "First summary." in contents(full)[0]
    assert "answer three" in contents(full)[0]
    full.link.say("Second summary.")
    full.link.finish()
    assert contents(full) == [with_summary("Be kind.", "Second summary."), "four"]


def test_a_stop_while_it_is_summarised_is_a_stop(full: Room) -> None:
    full.controller.stop()
    full.link.finish("cancelled")
    assert full.answer.ending is AnswerEnding.STOPPED
    assert SUMMARY_NOTICE not in full.notices
    assert full.controller.conversation.summary == ""


def test_a_summary_that_fails_is_told_and_the_turns_are_left_out(full: Room) -> None:
    full.link.answer(Failed(full.link.last_question.id, "No room.", ""))
    assert SUMMARY_NOTICE in full.notices
    assert contents(full)[-1] == "three"
    assert "one" not in contents(full)
    assert full.controller.conversation.summary == ""


def test_the_engine_s_end_interrupts_it(full: Room) -> None:
    full.controller.on_engine_state(EngineState(Phase.STOPPED))
    full.link.die()
    assert full.answer.ending is AnswerEnding.INTERRUPTED


def test_another_chat_leaves_it_behind(full: Room) -> None:
    asked = full.link.last_question.id
    full.controller.start_new_chat()
    full.link.answer(Failed(asked, "Cancelled.", ""))
    assert full.controller.conversation.is_empty
    assert SUMMARY_NOTICE not in full.notices


def test_long_turns_give_of_their_middle() -> None:
    long = ChatMessage("user", "a" * 4000 + "b" * 4000)
    (wish,) = summary_chat([(long, long)], "before", 1000)
    assert "[…]" in wish.content
    assert len(wish.content) < 3000
    assert "before" in wish.content


def test_it_outlives_the_window_and_stands_in_the_conversation(full: Room, qtbot: QtBot) -> None:
    full.link.say("They spoke of <b>one</b>.")
    full.link.finish()
    full.link.finish()
    conversation = full.controller.conversation
    kept = ConversationRecord(conversation.id, leaf=conversation.leaf, settings=settings_of(conversation))
    read: Conversation = conversation_of(kept, [message_record(kept.id, each) for each in conversation.messages])
    assert (read.summary, read.first_read) == (conversation.summary, conversation.first_read)
    view = ConversationView(LIGHT)
    qtbot.addWidget(view)
    view.show_conversation(read)
    view.show_divider(read.first_read, read.summary)
    (divider,) = [each.divider for each in view.questions if each.divider]
    assert divider.accessibleName() == SUMMARY_READ
    assert "<b>one" in divider.toolTip()
