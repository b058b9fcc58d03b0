"""Calls in answers: what the model reads of them, what is shown, and what is kept."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.archive.conversion import conversation_of, records_of
from app.chat.history.answer_parts import Part, answer_text, parts_of
from app.chat.history.answering import grown, reading_words, waiting_words
from app.chat.history.calls import (
    LONGEST_RESULT,
    Call,
    CallState,
    call_details,
    calls_of,
    cut_result,
    turns_of,
)
from app.chat.history.conversation import Conversation, counted_text
from app.chat.history.message import AnswerEnding, Message
from app.chat.history.reasoning import NOWHERE
from engine.protocol.messages import Calling, ChatMessage, Finished, Reading
from engine.protocol.tools import ToolCall, WrittenCall
from tests.campaigns.extent import choose

FIRST = '<tool_call>\n{"name": "look", "arguments": {"at": "sea"}}\n</tool_call>'
SECOND = '<tool_call>{"name": "count"}</tool_call>'
THOUGHT = "<think>\nI look.\n</think>\n\n"
TEXT = f"{THOUGHT}Let me see.\n{FIRST}\n{SECOND}<think>\nAha.\n</think>\n\nThere are 3."
STEP = TEXT.index("<think>\nAha")
LOOK = Call(TEXT.index(FIRST), TEXT.index(FIRST) + len(FIRST), STEP, "a", "look", '{"at": "sea"}', "eyes", "look")
COUNT = Call(TEXT.index(SECOND), STEP, STEP, "b", "count", "{}")
DONE = (
    replace(LOOK, state=CallState.DONE, result="waves", seconds=1.5),
    replace(COUNT, state=CallState.DENIED),
)


def shown(text: str = TEXT, opening: tuple[int, str] | None = None) -> list[str]:
    parts = parts_of(text, DONE, opening)
    return [f"{each.function} {each.state.value}" if isinstance(each, Call) else each.text.strip() for each in parts]


def test_an_answer_is_shown_in_its_parts_and_each_knows_its_place() -> None:
    assert shown() == ["I look.", "Let me see.", "look done", "count denied", "Aha.", "There are 3."]
    for each in parts_of(TEXT, DONE):
        if isinstance(each, Part):
            assert TEXT[each.begin :].startswith(each.text)


def test_no_mark_of_a_call_is_seen_while_the_text_appears() -> None:
    for length in range(len(TEXT)):
        assert not any("tool_call" in each or "name" in each for each in shown(TEXT[:length]))


def test_a_call_that_is_being_written_is_seen_once_its_tool_is_known() -> None:
    text = f"{TEXT}\n<tool_call>\n{{"
    assert shown(text, (len(TEXT), ""))[-1] == "There are 3."
    assert shown(text, (len(TEXT), "look"))[-2:] == ["There are 3.", "look writing"]


def test_the_model_reads_calls_and_results_as_turns() -> None:
    asked, first, second, last = turns_of(TEXT, DONE)
    assert asked.content == f"{THOUGHT}Let me see."
    assert asked.tool_calls == (ToolCall("a", "look", '{"at": "sea"}'), ToolCall("b", "count", "{}"))
    assert first == ChatMessage("tool", "waves", tool_call_id="a", name="look")
    assert "declined" in second.content
    assert last == ChatMessage("assistant", TEXT[STEP:])
    assert turns_of(TEXT[:STEP], DONE)[-1].role == "tool", "the model goes on behind the results"
    assert "sea" in counted_text((asked,))


def test_an_answer_that_calls_has_not_ended() -> None:
    begun = Message("assistant", TEXT, AnswerEnding.OPEN, calls=DONE)
    written = WrittenCall(2, 9, ToolCall("c", "look", "{}"))
    calling = grown(begun, [Calling(1, 2, "look")], None)
    assert calling.opening == (STEP + 2, "look")
    ended = grown(calling, [Finished(1, "stop", "\n(call)", calls=(written,))], None)
    assert (ended.ending, ended.opening) == (AnswerEnding.OPEN, None)
    assert ended.calls[-1] == Call(STEP + 2, STEP + 9, len(TEXT) + 7, "c", "look", "{}")
    assert grown(ended, [Finished(2, "stop")], None).ending is AnswerEnding.COMPLETE


def test_what_is_copied_is_what_was_said() -> None:
    assert answer_text(TEXT, DONE) == "Let me see.\n\nThere are 3."


def test_other_words_keep_the_calls_before_them() -> None:
    conversation = Conversation()
    _, answer = conversation.ask("How many?")
    conversation.change(replace(answer, text=TEXT, calls=DONE, ending=AnswerEnding.COMPLETE))
    assert conversation.answer_differently(answer.id, f"{TEXT[:STEP]}There are 4.").calls == DONE
    conversation.show_version(conversation.leaf, 0)
    assert conversation.answer_differently(answer.id, "There are 4.").calls == ()


def kept_again(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    conversation = Conversation()
    _, answer = conversation.ask("How many?")
    conversation.change(replace(answer, text=TEXT, calls=calls, ending=AnswerEnding.OPEN))
    record, messages = records_of(conversation, "")
    assert json.dumps([each.details for each in messages])
    read = conversation_of(record, messages)
    assert read.last_answer is not None
    assert read.last_answer.ending is AnswerEnding.CLOSED
    return read.last_answer.calls


def test_calls_are_kept_and_one_that_was_running_is_over() -> None:
    assert kept_again(DONE) == DONE
    assert kept_again((replace(LOOK, state=CallState.RUNNING),))[0].state is CallState.STOPPED
    assert kept_again((LOOK,))[0].state is CallState.WAITING


@pytest.mark.parametrize(
    "damage",
    [
        {"begin": -1}, {"begin": 10**9}, {"end": "5"}, {"step": 3}, {"state": "writing"}, {"seconds": float("nan")},
        {"seconds": None}, {"result": 7}, {"id": None}, {"begin": True},
    ],
)  # fmt: skip
def test_damaged_calls_are_left_out(damage: dict[str, Any]) -> None:
    details = call_details(DONE)
    assert calls_of(details, TEXT) == DONE
    assert calls_of([{**details[0], **damage}, details[1]], TEXT) == ()
    assert calls_of([details[1], details[0]], TEXT) == (), "they stand in order"
    assert calls_of({"calls": details}, TEXT) == ()


def test_a_long_result_is_cut_once_and_says_so() -> None:
    cut = cut_result("x" * (LONGEST_RESULT + 5))
    assert cut.startswith("x" * LONGEST_RESULT)
    assert "5 more characters" in cut
    assert calls_of(call_details([replace(LOOK, result=cut)]), TEXT)[0].result == cut
    assert cut_result("short") == "short"


def test_what_an_answer_waits_for_is_told() -> None:
    answer = Message("assistant", TEXT, AnswerEnding.OPEN, calls=(DONE[0], replace(COUNT, tool="count")))
    assert waiting_words(answer) == "Waiting for your decision on the tool count"
    running = replace(answer, calls=(DONE[0], replace(COUNT, tool="count", state=CallState.RUNNING)))
    assert waiting_words(running) == "Waiting for the tool count"
    assert waiting_words(replace(answer, ending=AnswerEnding.STOPPED)) == ""
    reads = replace(answer, calls=DONE, text=TEXT[:STEP])
    assert (waiting_words(reads), reading_words(reads)) == ("", "Reading the results")
    assert reading_words(replace(reads, reading=Reading(1, 0.25, 3.0))).startswith("Reading the results: 25")
    assert reading_words(replace(answer, calls=DONE)) == ""


PIECES = st.sampled_from(["<think>", "</think>", "\n", "word ", "<tool_call>", "🦊", "[THINK]", "[/THINK]", " "])


@settings(deadline=None, max_examples=choose(100, 5000))
@given(
    text=st.lists(PIECES, max_size=12).map("".join),
    places=st.lists(st.integers(0, 60), max_size=9).map(sorted),
    length=st.integers(0, 60),
    opening=st.none() | st.tuples(st.integers(0, 60), st.sampled_from(["", "look"])),
)
def test_any_text_with_any_calls_is_shown_in_order(
    text: str, places: list[int], length: int, opening: tuple[int, str] | None
) -> None:
    threes = zip(places[::3], places[1::3], places[2::3], strict=False)
    made = [Call(begin, end, step, "", "look", "{}") for begin, end, step in threes]
    calls = calls_of(call_details(made), text)
    here = 0
    for each in parts_of(text[:length], calls, opening):
        assert each.begin >= here or each.begin == NOWHERE
        if isinstance(each, Part) and each.begin != NOWHERE:
            assert text[each.begin :].startswith(each.text)
        here = max(here, each.begin)
    roles = [turn.role for turn in turns_of(text, calls)]
    assert roles.count("tool") == len(calls)
