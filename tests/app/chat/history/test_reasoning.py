"""Thinking is told from the answer by the marks of templates."""

import pytest

from app.chat.history.reasoning import MARKS, Split, split


@pytest.mark.parametrize(("first", "last"), MARKS)
def test_every_kind_of_mark_divides(first: str, last: str) -> None:
    parts = split(f"{first}\nhm\n{last}\n\nYes.")
    assert (parts.thought, parts.answer.strip(), parts.is_thinking) == ("hm", "Yes.", False)


def test_text_without_marks_is_the_answer() -> None:
    assert split("Use `<think>` here.\n<think>") == Split("", "Use `<think>` here.\n<think>", 0, False)


def test_unclosed_thinking_goes_on_and_half_a_mark_is_held_back() -> None:
    parts = split("<think>one two</thi")
    assert (parts.thought, parts.answer, parts.is_thinking) == ("one two", "", True)
    assert split("<thi") == Split("", "", 4, False)


def test_a_last_mark_alone_on_its_line_divides_too() -> None:
    parts = split("first this\n</think>\n\nYes.")
    assert (parts.thought, parts.answer) == ("first this", "Yes.")
    assert split("a </think>\nb").thought == ""


def test_marks_that_an_answer_shows_as_an_example_divide_nothing() -> None:
    text = "R1 writes:\n\n```\n<think>\nThe user asks…\n</think>\n\nParis.\n```\n\nThat is all."
    assert split(text) == Split("", text, 0, False)


def test_several_thoughts_become_one() -> None:
    parts = split("<think>a</think>\n<think>b</think>\nYes.")
    assert (parts.thought, parts.answer) == ("a\n\nb", "Yes.")


def test_the_answer_only_grows_whatever_the_pieces() -> None:
    text = "<think>one</think>\n\nThe answer <b> is.\n"
    shown = ""
    for end in range(len(text) + 1):
        answer = split(text[:end]).answer
        assert answer.startswith(shown)
        shown = answer
    assert shown == "The answer <b> is.\n"


@pytest.mark.parametrize(
    "text",
    ["<think>\n\n one, two\n</think>\nYes.", "\n\n<think>one</th", " one, two\n</think>\n\nYes.", "<think></thi"],
)
def test_it_is_known_where_thinking_in_one_piece_stands(text: str) -> None:
    parts = split(text)
    assert text[parts.thought_begin :].startswith(parts.thought)


def test_thinking_in_several_pieces_stands_nowhere() -> None:
    assert split("<think>a</think>\n<think>b</think>\nYes.").thought_begin < -1_000_000
