"""Where two answers part, how they stand in a race, and what is said of that: pure, by tables."""

from dataclasses import replace
from random import Random

import pytest
from pytestqt.qtbot import QtBot

from app.chat.history.message import Message
from app.comparison.figures_table import FiguresTable
from app.comparison.transcript import (
    Standing,
    Transcript,
    aligned,
    common_length,
    of_message,
    of_run,
    parting,
    standing,
)
from app.comparison.words import as_text, difference_words, figure_rows, how, speed_words, token_words
from app.engine.side_run import SideAnswer
from app.engine.token_times import TokenTimes
from engine.protocol.messages import ChatMessage, Seconds, Statistics
from engine.protocol.options import GenerateOptions

FAST = Statistics("specexec", 64, new_tokens=4, passes=2, drafted_nodes=128, seconds=Seconds(decode=1.0))
SLOW = Statistics("none", new_tokens=4, passes=4, seconds=Seconds(decode=2.5))


def written(*words: str, seconds: float = 1.0, statistics: Statistics | None = FAST) -> Transcript:
    """Words as tokens, two a pass."""
    text, ends = "", []
    for word in words:
        text += word
        ends.append(len(text))
    passes = tuple(range(2, len(words) + 1, 2)) or (len(words),)
    times = tuple(seconds * (each + 1) / len(passes) for each in range(len(passes)))
    return Transcript(text, TokenTimes(0, tuple(ends), passes, times), statistics, "target + draft")


A = written("A", " larch", " is", " tall")
B = written("A", " larch", " was", " tall", seconds=2.5, statistics=SLOW)


def test_texts_part_inside_a_token() -> None:
    found = parting(A, B)
    assert found is not None
    assert (found.character, found.tokens) == (8, (2, 2))
    assert parting(A, A) is None
    assert parting(A, replace(A, text=A.text + "\N{REPLACEMENT CHARACTER}")) is None, "cut off inside a character"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (A, "The texts are the same."),
        (B, "The same for 2 tokens; then “ is” in A, “ was” in B."),
        (written("Oaks", " are", " tall", "."), "They part with the first token: “A” in A, “Oaks” in B."),
        (written("A", " larch"), "The same for 2 tokens; there B ends."),
        (written("A", " larch", " is", " tall", ".", "\n"), "The same for 4 tokens; there A ends."),
    ],
)
def test_the_difference_is_told(other: Transcript, words: str) -> None:
    assert difference_words(A, other, None) == words


def test_the_reason_of_a_difference_is_told_with_its_temperature() -> None:
    assert "rounded in another order" in difference_words(A, B, 0.0)
    assert "temperature 0.7" in difference_words(A, B, 0.7)
    assert token_words(written("\n\t"), 0) == "“↵⇥”"
    assert token_words(written("x" * 100), 0) == f"“{'x' * 24}…”"


def test_which_was_faster_is_told() -> None:
    assert speed_words(A, B) == "A was 2.50 times as fast as B: 4.0 against 1.6 tokens/s."
    assert speed_words(B, A) == "B was 2.50 times as fast as A: 4.0 against 1.6 tokens/s."
    assert speed_words(A, A) == "Both were about as fast: 4.0 and 4.0 tokens/s."
    assert speed_words(A, replace(B, statistics=None)) == ""


def test_figures_stand_beside_each_other_with_their_ratio() -> None:
    rows = {each.name: (*each.values, each.ratio) for each in figure_rows(A, B)}
    assert rows["Tokens per second"] == ("4.0", "1.6", "2.50")
    assert rows["Guessed tokens"] == ("128", "–", "")
    assert all(each.values == ("–", "–") and not each.ratio for each in figure_rows(None, replace(A, statistics=None)))


def test_experts_of_a_mixture_are_counted_beside_each_other() -> None:
    used = replace(FAST, passes=4, experts_used=48, experts_in_place=12)
    rows = figure_rows(replace(A, statistics=used), B)
    assert [(each.name, *each.values) for each in rows[-2:]] == [
        ("Experts per pass", "12", "–"),
        ("Of these, computed as stored", "3", "–"),
    ]
    assert len(figure_rows(A, B)) == len(rows) - 2


def test_a_table_shows_the_rows_of_now(qtbot: QtBot) -> None:
    table = FiguresTable()
    qtbot.addWidget(table)
    rows = figure_rows(replace(A, statistics=replace(FAST, experts_used=48)), B)
    for shown in (rows, rows[:-2], rows):
        table.show_rows(shown)
        assert table.text.count("\n") == len(shown), "and a head"


def test_what_an_answer_was_written_with() -> None:
    assert [how(each) for each in (FAST, SLOW, None, Statistics(""))] == [
        "SpecExec tree, 64 nodes",
        "No speculation",
        "",
        "",
    ]
    assert how(Statistics("draft", passes=3)) == "draft"
    assert how(Statistics(new_tokens=30, passes=4)) == "", "broken off in an older version, which kept no method"


def test_figures_that_cannot_be_are_cut_of_what_was_run_too() -> None:
    told = Statistics("specexec", 1 << 40, new_tokens=1, passes=1, seconds=Seconds(decode=1e300))
    found = of_run(SideAnswer(1, (), GenerateOptions(), "larch", TokenTimes(0), told), "")
    assert how(found.statistics).startswith("SpecExec tree, ")
    assert found.seconds == pytest.approx(1e9)


def test_a_race_goes_by_passes() -> None:
    assert standing(A, 0.0) == Standing(0, 0, 0.0, False)
    assert standing(A, 0.75) == Standing(2, 1, 2 / 0.75, False)
    assert standing(A, 1.0) == Standing(4, 2, 4.0, True)
    assert standing(B, 1.0) == Standing(0, 0, 0.0, False)
    nothing = Transcript("", TokenTimes())
    assert standing(nothing, 0.0) == Standing(0, 0, 0.0, True)


def test_the_race_of_any_answer_never_goes_back() -> None:
    random = Random(3)
    for _ in range(30):
        length, tokens = random.randint(0, 80), random.randint(0, 90)
        told = Statistics(new_tokens=tokens, passes=random.randint(0, 90), seconds=Seconds(decode=random.random()))
        shown = of_message(Message("assistant", "x" * length, statistics=told))
        seen = [standing(shown, shown.seconds * (step / 7)).tokens for step in range(8)]
        assert seen == sorted(seen)
        assert seen[-1] == shown.times.count <= length
        assert all(shown.times.span(each)[0] <= shown.times.span(each)[1] for each in range(shown.times.count))


def test_the_common_beginning_of_texts() -> None:
    random = Random(5)
    for _ in range(200):
        one, other = ("".join(random.choices("ab", k=random.randint(0, 9))) for _ in range(2))
        wanted = next(
            (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, (one, other)))
        )
        assert common_length(one, other) == wanted


def test_it_can_be_read_as_text() -> None:
    text = as_text(("SpecExec tree", "No speculation"), (A, B), ("A was faster.", ""))
    assert text.startswith(
        "A: SpecExec tree, target + draft\nB: No speculation, target + draft\n\nA was faster.\n\n| |"
    )
    assert text.endswith("## A\n\nA larch is tall\n\n## B\n\nA larch was tall\n")
    assert "| Passes | 2 | 4 | 0.50 |" in text


WHOLE = written("One", " larch", " and", " two", " oaks", " stand")


def continued(prefix: str, *words: str) -> Transcript:
    """An answer that was begun with these words: only what was written behind them has times."""
    new = written(*words)
    return replace(new, text=prefix + new.text, times=new.times.behind(len(prefix)))


def test_what_a_continued_answer_began_with_counts_as_the_tokens_of_the_other() -> None:
    one, other = aligned(WHOLE, continued("One larch and three", " ashes", " fall"))
    assert one is WHOLE
    spans = [other.times.span(token) for token in range(other.times.count)]
    assert [other.text[begin:end] for begin, end in spans] == ["One", " larch", " and", " three", " ashes", " fall"]
    assert difference_words(one, other, None) == "The same for 3 tokens; then “ two” in A, “ three” in B."
    assert difference_words(other, one, None) == "The same for 3 tokens; then “ three” in A, “ two” in B."
    assert aligned(other, one) == (other, one)


def test_a_beginning_that_the_other_does_not_share_is_one_token() -> None:
    one, other = aligned(written("Oaks", " are", " tall"), continued("One larch", " is", " tall"))
    assert other.times.span(0) == (0, len("One larch"))
    assert difference_words(one, other, None) == "They part with the first token: “Oaks” in A, “One larch” in B."


def test_where_nobody_knows_the_tokens_of_a_beginning_characters_are_counted() -> None:
    one, other = aligned(continued("Sure: ", "a", " larch"), continued("Sure: ", "a", " tall", " oak"))
    assert difference_words(one, other, None) == "The same for 8 characters; then “ larch” in A, “ tall” in B."
    ended = aligned(continued("Sure: ", "a"), continued("Sure: ", "a", " larch"))
    assert difference_words(*ended, None) == "The same for 7 characters; there A ends."


def test_what_was_there_before_is_no_part_of_the_race() -> None:
    _, other = aligned(WHOLE, continued("One larch and three", " ashes", " fall", " down", "."))
    assert standing(other, 0.0) == Standing(0, 0, 0.0, False)
    assert standing(other, 0.5) == Standing(2, 1, 4.0, False)
    assert standing(other, 1.0).tokens == 4
    assert [other.times.seconds_of(token) for token in (0, 3, 4, 7)] == [0.0, 0.0, 0.5, 1.0]
    assert other.times.tokens_by(0.0) == other.times.given == 4


def test_a_run_stands_behind_what_it_was_to_begin_with() -> None:
    new = written(" larch", " is")
    asked = (ChatMessage("user", "Which?"), ChatMessage("assistant", "The"))
    found = of_run(SideAnswer(1, asked, GenerateOptions(), new.text, new.times, FAST), "")
    assert found.text == "The larch is"
    assert found.text[slice(*found.times.span(0))] == " larch"
    assert of_run(SideAnswer(1, asked, GenerateOptions(), "", TokenTimes()), "").text == "", "nothing is there yet"
