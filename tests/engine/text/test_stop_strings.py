"""Stop strings are found wherever they lie, and nothing else is lost."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.text_stream import StopStrings


def cut_at_first(text: str, stop: Sequence[str]) -> str:
    """The text before the stop string that is complete first; of several complete at once, the longest."""
    for end in range(len(text) + 1):
        found = [string for string in stop if text[:end].endswith(string)]
        if found:
            return text[: end - max(map(len, found))]
    return text


def run(pieces: Sequence[str], stop: Sequence[str]) -> tuple[list[str], str]:
    """Everything let through, piece by piece and at the end, and what stopped the text."""
    stops = StopStrings(stop)
    return [*map(stops.let_through, pieces), stops.release()], stops.completed


few_letters = st.text("ab", max_size=12)


@given(pieces=st.lists(few_letters, max_size=8), stop=st.lists(st.text("ab", min_size=1, max_size=5), max_size=4))
@example(pieces=["ab", "cd"], stop=["abcd", "bc"])
@example(pieces=["aab"], stop=["b", "ab", "aab"])
def test_the_text_before_the_first_stop_string_comes_through(pieces: list[str], stop: list[str]) -> None:
    shown, stopped = run(pieces, stop)
    text = "".join(pieces)
    assert "".join(shown) == cut_at_first(text, stop)
    assert bool(stopped) == any(string in text for string in stop)
    assert text.startswith("".join(shown) + stopped), "it is told which string it was"


@given(pieces=st.lists(few_letters, max_size=8), stop=st.lists(st.text("ab", min_size=1, max_size=5), max_size=4))
def test_no_more_is_held_back_than_may_be_needed(pieces: list[str], stop: list[str]) -> None:
    shown, stopped = run(pieces, stop)
    held = shown[-1]
    assert stopped or not held or any(string.startswith(held) and string != held for string in stop)


@pytest.mark.parametrize("pieces", [["one two"], ["one", " ", "two"], list("one two")])
def test_without_stop_strings_everything_comes_through_at_once(pieces: list[str]) -> None:
    shown, stopped = run(pieces, ())
    assert shown == [*pieces, ""]
    assert not stopped


def test_a_beginning_that_comes_to_nothing_is_released() -> None:
    shown, stopped = run(["Hi\n", "Us", "ual", "\nUser"], ("\nUser:",))
    assert shown == ["Hi", "", "\nUsual", "", "\nUser"]
    assert not stopped
