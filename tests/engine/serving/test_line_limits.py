"""Where a text ends that is filled into a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.serving.llama_server.line_limits import LineLimits

CODE = "if x:\n        a()\n\n        b()\n    c()\n"


def through(limits: LineLimits, parts: list[str]) -> str:
    return "".join(map(limits.let_through, parts)) + limits.release()


@pytest.mark.parametrize(
    ("indent", "expected"),
    [
        (0, CODE),
        (4, CODE),
        (5, "if x:\n        a()\n\n        b()"),
        (9, "if x:"),
    ],
)
def test_a_line_that_is_indented_less_ends_it(indent: int, expected: str) -> None:
    limits = LineLimits(indent)
    assert through(limits, [CODE]) == expected
    assert limits.is_over == (expected != CODE)
    assert limits.let_through("more") == ("" if limits.is_over else "more")


@given(st.text(" \ta\n", max_size=30), st.integers(0, 4), st.data())
def test_it_does_not_matter_how_the_text_comes(text: str, indent: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert through(LineLimits(indent), parts) == through(LineLimits(indent), [text])


def test_blank_lines_and_the_first_line_may_begin_as_they_like() -> None:
    text = "a\n\n  \n\t\r\n    b"
    assert through(LineLimits(4), [text]) == text


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("indent", [0, 4])
def test_who_is_late_ends_with_the_line(indent: int) -> None:
    clock = Clock()
    limits = LineLimits(indent, 1.0, clock)
    assert limits.let_through("a\n    b") == "a\n    b"
    clock.seconds = 6.5
    assert limits.let_through("bb") == "bb", "in the middle of a line"
    assert limits.let_through("c\n    d\n") == "c"
    assert limits.is_over
    assert limits.release() == ""


def test_the_time_begins_with_the_first_text() -> None:
    clock = Clock()
    limits = LineLimits(0, 1.0, clock)
    clock.seconds = 100.0
    assert limits.let_through("a\nb") == "a\nb"
