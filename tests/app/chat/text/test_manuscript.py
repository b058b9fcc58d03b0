"""Text is cut a little at a time, into sections that a document can hold, and every piece knows where it stood."""

from functools import cache

import pytest

from app.chat.text.blocks import Block
from app.chat.text.manuscript import Manuscript
from app.chat.typesetting.layout_cost import Budget, layout_cost, prefix_within
from tests.campaigns.extent import choose

SIZE = choose(1, 4)  # long enough for several sections

HOSTILE = {
    "words": "word " * (5_000 * SIZE),
    "line": "a" * (25_000 * SIZE),
    "table": "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * (750 * SIZE),
    "code": "```py\n" + "x = 1\n" * (2_500 * SIZE),
    "list": "- item\n" * (1_250 * SIZE),
    "nested": "- a\n" + "  - deep\n" * (1_250 * SIZE),
    "quotes": "> q\n>\n" * (1_250 * SIZE),
    "definitions": "[a]: b\n" * (1_250 * SIZE),
    "blank": " \n" * (5_000 * SIZE),
    "ticks": "".join("`" * (number % 90) + " " for number in range(500 * SIZE)),
    "opening": "```" + "x" * (20_000 * SIZE),
    "odd": "a\u0627" * (5_000 * SIZE),
}


class Steps:
    """A clock that goes on by one second whenever somebody looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def cut(text: str) -> Manuscript:
    """All of it, at once."""
    manuscript = Manuscript()
    manuscript.add(text)
    manuscript.cut(Budget())
    return manuscript


@cache
def hostile(name: str) -> Manuscript:
    """One of them, cut once for all tests; nothing more is added to it."""
    return cut(HOSTILE[name])


def blocks(manuscript: Manuscript) -> list[Block]:
    """Every block, in order."""
    sections = [manuscript.section(index) for index in range(manuscript.count)]
    return [block for each in sections for block in (*each.closed, *each.open)]


def test_the_clock_is_looked_at_after_every_slice() -> None:
    manuscript = Manuscript()
    manuscript.add("A paragraph.\n\n" * 1_000)
    turns = 0
    while manuscript.is_behind:
        before = manuscript._taken
        manuscript.cut(Budget(0, Steps()))
        assert 0 < manuscript._taken - before <= 1_024
        turns += 1
    assert turns > 10


def test_a_slice_holds_few_lines_however_short_they_are() -> None:
    manuscript = Manuscript()
    manuscript.add("x\n" * 1_000)
    manuscript.cut(Budget(0, Steps()))
    assert manuscript._taken == 64


@pytest.mark.parametrize("name", HOSTILE)
def test_no_block_and_no_section_is_heavy(name: str) -> None:
    manuscript = hostile(name)
    assert max(len(each.source) for each in blocks(manuscript)) <= 16_000
    for index in range(manuscript.count):
        section = manuscript.section(index)
        assert sum(len(each.source) for each in section.closed) <= 20_000
    assert manuscript.count > 1


@pytest.mark.parametrize("name", HOSTILE)
def test_sections_are_all_of_the_text(name: str) -> None:
    manuscript = hostile(name)
    assert "".join(manuscript.source(index) for index in range(manuscript.count)) == HOSTILE[name]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("name", ["words", "table", "code", "list", "quotes"])
def test_every_piece_knows_where_it_stood(name: str, line_end: str) -> None:
    text = HOSTILE[name].replace("\n", line_end)
    for block in blocks(hostile(name) if line_end == "\n" else cut(text)):
        own = block.source[block.repeated :].split("\n")[0]
        assert text.startswith(own, block.begin)


def test_code_is_found_whole_wherever_it_was_cut() -> None:
    code = "".join(f"    line {number}\n" for number in range(3_000))
    manuscript = cut(f"before\n\n```py\n{code}```\n\nafter\n\nend")
    assert manuscript.count > 3
    assert manuscript.code(1) == code.removesuffix("\n")
    assert manuscript.code(0) == ""
    assert cut("    indented\n    code\n\nend\n\n").code(0) == "indented\ncode"


def test_code_in_a_list_goes_on_as_code_where_the_item_is_cut() -> None:
    item = "1. first\n   ```py\n" + "   x = 1\n" * 2_000 + "   ```\n\nafter\n\nend"
    found = blocks(cut(item))
    pieces = [each.source for each in found if "x = 1" in each.source]
    assert len(pieces) > 3
    assert all("```py" in each for each in pieces)
    assert [each.source for each in found][-2:] == ["after\n\n", "end"]


def test_weight_is_not_length() -> None:
    assert layout_cost("word " * 100) == 500
    assert layout_cost("*a* " * 100) > 5 * layout_cost("aaaa" * 100)
    assert prefix_within("*a* " * 1_000, 500) < prefix_within("aaaa" * 1_000, 500) == 500
    assert prefix_within("[" * 10, 1) == 1
