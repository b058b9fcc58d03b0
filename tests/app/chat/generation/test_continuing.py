"""Answers that were cut off go on, answers that were given a beginning keep it, and turns give way when they must."""

import pytest

from app.chat.generation.controller import FAILED_NOTICE
from app.chat.history.answering import combined_statistics
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Attachment
from app.chat.view.answer_figures import figures_of
from app.engine.state import EngineState, Phase
from app.settings.generation import DROP, STOP, GenerationSettings
from app.settings.store import SettingsFile
from engine.errors import InputError
from engine.protocol.messages import Failed, Generate, Prefilled, Seconds, Statistics
from tests.app.chat.generation.test_controller import READY, Room, room
from tests.app.fake_link import FakeLink

__all__ = ["room"]


def cut_off(room: Room, reason: str = "length") -> None:
    """A question whose answer is cut off after two rounds."""
    room.controller.ask("Tell me")
    room.link.say("Once", " upon")
    room.link.finish(reason, passes=2)


@pytest.mark.parametrize(("reason", "ending"), [("length", AnswerEnding.LENGTH), ("cancelled", AnswerEnding.STOPPED)])
def test_an_answer_goes_on_in_its_place(room: Room, reason: str, ending: AnswerEnding) -> None:
    cut_off(room, reason)
    assert room.answer.ending is ending
    message = room.answer.id
    room.controller.continue_answer()
    assert [each.content for each in room.link.last_question.chat] == ["Tell me", "Once upon"]
    assert room.controller.is_answering
    room.link.say(" a time")
    room.link.finish(passes=1)
    assert (room.answer.text, room.answer.ending, room.answer.id) == (
        "Once upon a time",
        AnswerEnding.COMPLETE,
        message,
    )
    assert room.controller.conversation.version(message).count == 1
    assert not room.controller.can_continue


def test_the_figures_of_both_goes_add_up(room: Room) -> None:
    cut_off(room)
    before = room.answer.statistics
    assert before is not None
    room.controller.continue_answer()
    room.link.answer(Prefilled(room.link.last_question.id, 40, 30, 0.1))
    room.link.say("a")
    running = room.answer.statistics
    assert running is not None
    assert (running.new_tokens, running.passes, running.prompt_tokens) == (before.new_tokens + 2, 3, 12)
    room.link.finish(passes=5)
    total = room.answer.statistics
    assert total is not None
    assert (total.passes, total.new_tokens, total.prompt_tokens) == (7, 14, 12)
    assert total.seconds.decode == pytest.approx(0.2)
    assert total.first_token_seconds == before.first_token_seconds


def test_sums_keep_what_was_read_first_and_the_method_of_the_longer_go() -> None:
    first = Statistics("specexec", 64, 10, 4, 30, 3, 90, 0.5, 7, Seconds(draft=1.0), "first", 20, 8)
    second = Statistics("none", 0, 40, 39, 5, 5, 0, 0.1, 8, Seconds(draft=0.5, decode=2.0), "second", 2, 1)
    total = combined_statistics(first, second)
    assert total == Statistics("none", 0, 10, 4, 35, 8, 90, 0.5, 15, Seconds(draft=1.5, decode=2.0), "second", 22, 9)
    assert combined_statistics(None, second) is second
    assert combined_statistics(first, None) is first


def test_an_answer_that_the_engine_s_end_interrupted_goes_on(room: Room) -> None:
    room.controller.ask("Tell me")
    room.link.say("half a char\N{REPLACEMENT CHARACTER}")
    room.controller.on_engine_state(EngineState(Phase.STOPPED))
    room.link.die()
    assert room.answer.ending is AnswerEnding.INTERRUPTED
    room.controller.on_engine_state(READY)
    room.controller.continue_answer()
    assert room.link.last_question.chat[-1].content == "half a char"
    assert room.answer.text == "half a char"


def test_an_answer_without_a_word_yet_is_simply_answered(room: Room) -> None:
    room.controller.on_engine_state(EngineState(Phase.LOADING))
    room.controller.ask("Tell me")
    room.controller.stop()
    room.controller.on_engine_state(READY)
    room.controller.continue_answer()
    assert [each.content for each in room.link.last_question.chat] == ["Tell me"]


def test_what_cannot_go_on_stays_as_it_was(room: Room) -> None:
    cut_off(room)
    room.controller.continue_answer()
    room.link.answer(Failed(room.link.last_question.id, "The conversation has 9000 tokens.", "Start a new chat."))
    assert (room.answer.text, room.answer.ending) == ("Once upon", AnswerEnding.LENGTH)
    assert FAILED_NOTICE in room.notices
    assert room.controller.can_continue


def test_a_complete_answer_does_not_go_on(room: Room) -> None:
    room.controller.continue_answer()
    cut_off(room, "stop")
    sent = len(room.link.sent)
    room.controller.continue_answer()
    assert len(room.link.sent) == sent


def test_an_answer_begins_with_the_words_it_was_given(room: Room) -> None:
    room.controller.ask("Tell me", (), "Sure: ")
    assert [(each.role, each.content) for each in room.link.last_question.chat] == [
        ("user", "Tell me"), ("assistant", "Sure: ")
    ]  # fmt: skip
    room.link.say("a story")
    room.link.finish()
    assert room.answer.text == "Sure: a story"


def test_an_answer_in_a_person_s_words_keeps_how_the_next_one_begins(room: Room) -> None:
    room.controller.ask("Tell me", (), "Sure:")
    room.link.say(" a story")
    room.link.finish()
    room.controller.edit(room.answer.id, "Sure: no story")
    room.controller.regenerate()
    assert [each.content for each in room.link.last_question.chat] == ["Tell me", "Sure:"]
    assert room.answer.text == "Sure:"


def test_a_branch_keeps_how_the_next_answer_begins(room: Room) -> None:
    room.controller.ask("Tell me", (), "Sure:")
    room.link.say(" a story")
    room.link.finish()
    room.controller.branch(room.answer.id, "Sure: a")
    room.link.say(" tale")
    room.link.finish()
    assert room.answer.text == "Sure: a tale"
    room.controller.regenerate()
    assert room.link.last_question.chat[-1].content == "Sure:"


def test_a_cut_off_answer_goes_on_from_a_person_s_words(room: Room) -> None:
    cut_off(room)
    room.controller.edit(room.answer.id, "Once over")
    assert room.controller.can_continue
    assert [each.text for each in figures_of(room.answer)] == ["Stopped"], "of these words no token was cut off"
    room.controller.continue_answer()
    assert [each.content for each in room.link.last_question.chat] == ["Tell me", "Once over"]
    room.link.say(" a time")
    room.link.finish()
    assert (room.answer.text, room.answer.ending) == ("Once over a time", AnswerEnding.COMPLETE)


# ---- settings of the conversation -----------------------------------------------------------------------------------


def test_a_chat_keeps_the_settings_it_began_with(room: Room, settings: SettingsFile) -> None:
    settings.change(generation=GenerationSettings(max_new_tokens=7))
    room.controller.ask("one")
    settings.change(generation=GenerationSettings(max_new_tokens=9))
    room.link.finish()
    room.controller.ask("two")
    assert room.link.last_question.options.max_new_tokens == 7
    room.controller.start_new_chat()
    room.controller.ask("three")
    assert room.link.last_question.options.max_new_tokens == 9


def test_new_chats_begin_with_the_default_preset(room: Room, settings: SettingsFile) -> None:
    settings.change(presets={"Short": GenerationSettings(max_new_tokens=3)}, default_preset="Short")
    assert room.controller.generation.max_new_tokens == 3


def test_settings_that_are_not_legal_are_refused(room: Room) -> None:
    with pytest.raises(InputError):
        room.controller.change_settings(GenerationSettings(top_p=7.0))
    assert room.controller.conversation.settings is None


def test_speculation_is_switched_for_one_chat(room: Room) -> None:
    room.controller.set_speculation(False)
    room.controller.ask("one")
    assert room.link.last_question.options.speculation.method == "none"
    room.link.finish()
    room.controller.set_speculation(True)
    room.controller.ask("two")
    assert room.link.last_question.options.speculation.method == "auto"
    room.controller.change_settings(GenerationSettings(method="none"))
    room.controller.set_speculation(True)
    assert room.controller.generation.method == "auto"


# ---- room -----------------------------------------------------------------------------------------------------------


def talk(room: Room, *questions: str) -> None:
    for question in questions:
        room.controller.ask(question)
        if room.controller.generation.when_full == DROP:
            room.link.tell_count(10, 1000, (5,) * len(room.controller.conversation.messages))
        room.link.say("yes")
        room.link.finish()


def test_the_oldest_turns_give_way_and_it_is_told(room: Room) -> None:
    told: list[int] = []
    room.controller.change_settings(GenerationSettings(when_full=DROP, max_new_tokens=100, system_prompt="Be kind."))
    room.controller.first_read_changed.connect(told.append)
    talk(room, "one", "two", "three")
    room.controller.ask("four")
    assert not room.answer.ending.is_final
    assert [each.content for each in room.link.counts[-1].chat] == [
        "Be kind.", "one", "yes", "two", "yes", "three", "yes", "four"
    ]  # fmt: skip
    assert room.link.counts[-1].texts == ("one\nyes", "two\nyes", "three\nyes", "four")
    room.link.tell_count(950, 1000, (200, 200, 200, 200))
    assert [each.content for each in room.link.last_question.chat] == ["Be kind.", "three", "yes", "four"]
    assert told == [2]
    assert room.controller.conversation.first_read == 2
    room.link.finish()
    talk(room, "five")
    assert told == [2, 0], "there is room again"


def test_with_room_nothing_is_counted_for_nothing(room: Room) -> None:
    talk(room, "one")
    assert room.link.counts == []


def test_whoever_would_rather_stop_reads_everything_again(room: Room) -> None:
    room.controller.change_settings(GenerationSettings(when_full=DROP))
    talk(room, "one", "two")
    room.controller.ask("three")
    room.link.tell_count(990, 1000, (300, 300, 300))
    assert room.controller.conversation.first_read > 0
    room.link.finish()
    room.controller.change_settings(GenerationSettings(when_full=STOP))
    room.controller.ask("four")
    assert len(room.link.last_question.chat) == 5, "two answered questions, and the last one"


def test_a_stop_while_it_is_counted_is_a_stop(room: Room) -> None:
    room.controller.change_settings(GenerationSettings(when_full=DROP))
    room.controller.ask("one")
    room.controller.stop()
    assert room.answer.ending is AnswerEnding.STOPPED
    room.link.tell_count(10, 1000, (5,))
    assert not [each for each in room.link.sent if isinstance(each, Generate)]


# ---- attachments ----------------------------------------------------------------------------------------------------


def test_attachments_go_into_the_question_and_stay_with_it(room: Room) -> None:
    file = Attachment("a.py", "print(1)\n```\nx")
    room.controller.ask("What is this?", (file,))
    asked = room.link.last_question.chat[-1].content
    assert asked == "File a.py:\n````\nprint(1)\n```\nx\n````\n\nWhat is this?"
    room.link.finish()
    room.controller.regenerate()
    assert room.link.last_question.chat[-1].content == asked
    room.link.finish()
    question = room.controller.conversation.messages[0]
    room.controller.edit(question.id, "And now?", (file,))
    assert room.link.last_question.chat[-1].content.endswith("````\n\nAnd now?")
    assert room.controller.conversation.messages[0].attachments == (file,)


def test_a_file_alone_is_a_question(room: Room) -> None:
    room.controller.ask(" ", (Attachment("a.txt", "words"),))
    assert "words" in room.link.last_question.chat[-1].content


def test_another_conversation_begins_at_its_own_turn(room: Room, link: FakeLink) -> None:
    told: list[int] = []
    room.controller.first_read_changed.connect(told.append)
    conversation = Conversation()
    for _ in range(3):
        conversation.ask("a")
    conversation.read_from(1)
    room.controller.show_conversation(conversation)
    assert told == [1]
