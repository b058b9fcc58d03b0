"""An answer keeps how long was thought before it, how likely its tokens were, and how it was told to begin."""

import json
import math
from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.chat.archive.conversion import conversation_of, message_record
from app.chat.history.answering import grown, reading_words
from app.chat.history.conversation import Conversation
from app.chat.history.message import AnswerEnding, Message
from app.chat.history.records import ConversationRecord
from app.chat.history.token_probabilities import (
    UNKNOWN,
    TokenProbabilities,
    level_of,
    probabilities_of_details,
    probability_details,
    probability_of,
    with_round,
)
from app.chat.text.document_style import Look
from app.chat.view.answer_view import AnswerView
from app.i18n.sentences import translated
from app.ui.theme import LIGHT
from engine.protocol.messages import Finished, Prefilled, Queued, Reading, Round, Seconds, Statistics, Tree, Wrote
from engine.protocol.sentences import say, to_json
from engine.protocol.watching import Passing
from tests.app.chat.generation.test_controller import Room, room
from tests.app.fake_engine import finished, round_of

__all__ = ["room"]


def said(index: int, text: str, *tokens: tuple[int, float]) -> Round:
    """A round of this text; of each token how long it is, and its probability."""
    lengths, log_probs = array("I", [each[0] for each in tokens]), array("f", [math.log(each[1]) for each in tokens])
    return replace(round_of(1, index, text), lengths=lengths.tobytes(), log_probs=log_probs.tobytes())


OPEN = Message("assistant", "", AnswerEnding.OPEN)


def test_rounds_are_thinking_until_the_one_that_begins_the_answer() -> None:
    rounds = [round_of(1, n, text) for n, text in enumerate(["<think>a", " b", "c</think>", "\n\nYes", ".", " More."])]
    answer = OPEN
    for each in rounds:
        answer = grown(answer, [each], None)
    seconds = rounds[0].seconds.decode
    assert answer.thought_seconds == pytest.approx(4 * seconds)
    assert grown(OPEN, rounds, None).thought_seconds == pytest.approx(4 * seconds)
    plain = grown(OPEN, [round_of(1, n, f"word {n}") for n in range(9)], None)
    assert plain.thought_seconds == 0


def test_thinking_that_is_continued_goes_on_being_counted() -> None:
    stopped = grown(OPEN, [round_of(1, 0, "<think>a"), finished(1, "cancelled", 1)], None)
    resumed = grown(stopped, [round_of(2, 0, "b</think>Yes")], stopped.statistics)
    assert resumed.thought_seconds == pytest.approx(2 * stopped.thought_seconds)


def test_every_piece_has_its_probability_and_what_a_person_wrote_has_none() -> None:
    begun = replace(OPEN, text="Sure: ")
    answer = grown(begun, [said(0, "a fox", (1, 0.5), (0, 0.1), (4, 1.0)), said(1, " ran", (4, 0.25))], None)
    assert answer.probabilities is not None
    assert (answer.probabilities.begin, answer.probabilities.end) == (6, len(answer.text))
    assert list(answer.probabilities.lengths) == [1, 4, 4]
    assert [probability_of(each) for each in answer.probabilities.levels] == [0.5, 1.0, 0.25]


def test_an_engine_that_says_nothing_leaves_gaps() -> None:
    probabilities = with_round(TokenProbabilities(), round_of(1, 0, "word"))
    assert list(probabilities.levels) == [UNKNOWN]
    assert probabilities.end == 4
    assert probability_of(UNKNOWN) is None


def test_a_continued_answer_keeps_its_places() -> None:
    probabilities = TokenProbabilities(2, bytes([3, 3]), bytes([0, 16]))
    assert probabilities.fit(8) == probabilities
    assert list(probabilities.fit(10).lengths) == [3, 3, 2]
    assert list(probabilities.fit(7).lengths) == [3, 2]
    assert probabilities.fit(4).end == 4
    assert TokenProbabilities().fit(9) == TokenProbabilities(9)


@given(st.floats(0, 1, exclude_min=True))
def test_a_level_is_near_its_probability(probability: float) -> None:
    kept = probability_of(level_of(math.log(probability)))
    assert kept is not None
    assert kept == pytest.approx(probability, rel=0.03) or (probability < 2e-5 and kept < 2e-5)


def test_levels_of_numbers_that_are_none() -> None:
    assert level_of(-math.inf) == UNKNOWN - 1
    assert level_of(math.nan) == UNKNOWN
    assert level_of(1e-9) == 0


def test_long_pieces_are_cut_and_what_is_kept_comes_back() -> None:
    probabilities = TokenProbabilities(1).put(600, 9).put(0, 4).put(2, 200)
    assert list(probabilities.lengths) == [255, 255, 90, 2]
    assert probabilities_of_details(probability_details(probabilities)) == probabilities
    many = TokenProbabilities(0, bytes([4]) * 32_000, bytes(range(250)) * 128)
    assert len(str(probability_details(many))) < 3 * 32_000


@pytest.mark.parametrize(
    "kept", [None, 3, {}, {"begin": 0, "pieces": "?"}, {"begin": -1, "pieces": "eJxjZAAAAAUAAw=="}]
)
def test_what_was_damaged_is_as_good_as_nothing(kept: object) -> None:
    assert probabilities_of_details(kept) is None


def test_it_all_outlives_the_window() -> None:
    question = Message("user", "Why?")
    answer = Message(
        "assistant", "Sure: yes", beginning="Sure:", thought_seconds=12.0, parent=question.id,
        probabilities=TokenProbabilities(5, bytes([4]), bytes([7])),
    )  # fmt: skip
    kept = Conversation([question, answer])
    read = conversation_of(
        ConversationRecord(kept.id, leaf=answer.id), [message_record(kept.id, each) for each in kept.messages]
    )
    again = read.messages[1]
    assert (again.beginning, again.thought_seconds, again.probabilities) == ("Sure:", 12.0, answer.probabilities)


@pytest.mark.usefixtures("german")
def test_what_the_engine_noted_is_kept_in_english_and_can_still_be_translated() -> None:
    note = say("Speculation is switched off.")
    record = message_record(1, Message("assistant", "Yes", statistics=Statistics(note=note)))
    details = json.loads(json.dumps(record.details))
    assert details["statistics"]["note"] == note
    read = conversation_of(ConversationRecord(1), [replace(record, details=details)]).messages[0].statistics
    assert read is not None
    assert translated(read.note) == "Die Spekulation ist ausgeschaltet."
    details["note"] = to_json(say("No draft model is loaded."))  # of another answer
    read = conversation_of(ConversationRecord(1), [replace(record, details=details)]).messages[0].statistics
    assert read is not None
    assert translated(read.note) == note


def test_details_of_another_kind_are_left_out() -> None:
    record = message_record(1, Message("user", "Why?"))
    record.details.update(beginning=4, thought_seconds="long", probabilities=[])
    read = conversation_of(ConversationRecord(1), [record]).messages[0]
    assert (read.beginning, read.thought_seconds, read.probabilities) == ("", 0.0, None)


def test_how_much_of_a_long_question_was_read_is_told_until_it_was() -> None:
    assert reading_words(OPEN) == "Reading the question"
    read = grown(OPEN, [Reading(1, 0.25, 30.0), Passing(1, 3, False, ())], None)
    assert reading_words(read) == "Reading the question: 25%, 1 min 30 s left"
    assert reading_words(grown(read, [Reading(1, 0.0, 1.0)], None)) == "Reading the question: 0%"
    assert reading_words(grown(read, [Reading(1, math.inf, 1.0)], None)) == "Reading the question: 100%, 0 s left"
    assert reading_words(grown(read, [Reading(1, 0.25, 30.0, 1, 2)], None)) == "Looking at picture 1 of 2"
    assert reading_words(grown(read, [Reading(1, 0.25, 30.0, 1, 1)], None)) == "Looking at the picture"
    assert reading_words(grown(read, [Prefilled(1, 40, 0, 120.0)], None)) == "Reading the question"
    assert reading_words(grown(read, [round_of(1, 0, "Yes")], None)) == ""
    assert reading_words(grown(OPEN, [Queued(1, 2)], None)) == "", "it waits for others"
    assert reading_words(grown(read, [Finished(1, "cancelled", "")], None)) == ""


def test_words_of_an_engine_elsewhere_make_an_answer_whatever_it_counts() -> None:
    waiting = grown(OPEN, [Queued(1, 2)], None)
    assert waiting.ahead == 2
    answer = grown(waiting, [Wrote(1, "Good ", 2), Wrote(1, "day", -7)], None)
    assert (answer.text, answer.ahead) == ("Good day", 0)
    assert answer.statistics == Statistics(new_tokens=2)
    assert grown(answer, [Finished(1, "stop", ".")], None).statistics == answer.statistics, "it told none at the end"
    told = Statistics(new_tokens=3, passes=2, seconds=Seconds(decode=math.inf))
    ended = grown(answer, [Finished(1, "stop", ".", told)], None)
    assert (ended.text, ended.ending) == ("Good day.", AnswerEnding.COMPLETE)
    assert ended.statistics is not None
    assert ended.statistics.tokens_per_second < 1, "what cannot be is bounded"


def test_regenerating_repeats_the_beginning(room: Room) -> None:
    room.controller.ask("Tell me", (), "Sure:")
    room.link.say(" a story")
    room.link.finish()
    room.controller.regenerate()
    assert [each.content for each in room.link.last_question.chat] == ["Tell me", "Sure:"]
    assert room.answer.text == "Sure:"
    room.link.say(" another")
    room.link.finish()
    assert room.answer.text == "Sure: another"
    room.controller.ask("And?")
    room.link.finish()
    room.controller.regenerate()
    assert room.link.last_question.chat[-1].role == "user"


def test_the_time_of_thinking_is_there_again_when_a_chat_is_opened(qtbot: QtBot) -> None:
    view = AnswerView(Message("assistant", "<think>hm</think>\n\nYes.", thought_seconds=71.2), Look(LIGHT))
    qtbot.addWidget(view)
    assert view.thought is not None
    assert view.thought.header.text() == "Thought for 1 min 12 s"
    growing = AnswerView(Message("assistant", "<think>hm", AnswerEnding.OPEN, thought_seconds=11.2), Look(LIGHT))
    qtbot.addWidget(growing)
    assert growing.thought is not None
    assert growing.thought.header.text() == "Thinking for 12 s…"
    old = AnswerView(Message("assistant", "<think>hm</think>\n\nYes."), Look(LIGHT))
    qtbot.addWidget(old)
    assert old.thought is not None
    assert old.thought.header.text() == "Thought"


def test_an_answer_that_is_broken_off_keeps_how_it_was_written() -> None:
    rounds = [replace(round_of(1, n, f"word {n}"), method="specexec", budget=8 + n, bytes_streamed=5) for n in range(3)]
    told = grown(OPEN, rounds, None).statistics
    assert told is not None
    assert (told.method, told.budget) == ("specexec", 10)
    assert (told.passes, told.drafted_nodes, told.bytes_streamed) == (3, 6, 15)
    assert told.seconds.target == pytest.approx(3 * rounds[0].seconds.target)
    given = rounds[0].tree
    bare = Tree(given.tokens[:4], given.parents[:4], given.log_probs[:4], ("…",))
    plain = [replace(each, tree=bare, new_tokens=1, method="none", budget=0) for each in rounds]
    told = grown(OPEN, plain, None).statistics
    assert told is not None
    assert (told.method, told.is_plain) == ("none", True)
    told = grown(OPEN, [*rounds, *plain], None).statistics
    assert told is not None
    assert told.method == "specexec", "something was guessed"


def test_more_tokens_than_passes_are_never_told_as_written_without_speculation() -> None:
    assert Statistics(new_tokens=3, passes=3).is_plain
    assert not Statistics(new_tokens=30, passes=4).is_plain, "a count that was broken off, of an older version"
    assert not Statistics("specexec", new_tokens=3, passes=3).is_plain
