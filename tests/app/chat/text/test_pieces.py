"""Blocks without end are cut: what is drawn again stays short, and hostile text does not change that."""

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.chat.text.blocks import Block, BlockStream
from app.ui.theme import LIGHT
from tests.app.chat.text.growing import Growing
from tests.campaigns.extent import choose

LONGEST_TAIL = 8_500
SIZE = choose(1, 4)  # several pieces each


def fed(text: str, step: int = 2_048) -> tuple[list[Block], BlockStream, int]:
    """The closed blocks, the stream, and the longest tail on the way."""
    stream, blocks, longest = BlockStream(), [], 0
    for start in range(0, len(text), step):
        blocks += stream.feed(text[start : start + step])
        longest = max(longest, len(stream.tail.source))
    return blocks, stream, longest


@pytest.mark.parametrize(
    "text",
    [
        "a" * (25_000 * SIZE),
        "word " * (5_000 * SIZE),
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * (750 * SIZE),
        "```py\n" + "x = 1\n" * (2_500 * SIZE),
        "```\n" + "x" * (25_000 * SIZE),
        "- item\n" * (1_250 * SIZE),
        "> quoted\n" * (1_250 * SIZE),
        "- a\n" + "  - deep\n" * (1_250 * SIZE),
    ],
)
def test_the_tail_stays_short(text: str) -> None:
    _, _, longest = fed(text)
    assert longest < 20_000
    if not text.startswith((">", "- a\n  ")):
        assert longest < LONGEST_TAIL


@pytest.mark.parametrize("first", [0, 1, 7])
def test_a_long_list_keeps_its_numbers(first: int) -> None:
    blocks, stream, _ = fed("".join(f"{first}. item\n" for _ in range(100)))
    numbers = [block.number for block in (*blocks, stream.tail)]
    counts = [block.source.count("item") for block in (*blocks, stream.tail)]
    assert numbers == [first + sum(counts[:place]) for place in range(len(counts))]
    assert sum(counts) == 100


def test_a_long_table_keeps_its_columns_and_rows(qapp: QApplication) -> None:
    document = QTextDocument()
    Growing(document, LIGHT).append("| a | b |\n|---|---|\n" + "".join(f"| r{n} | x |\n" for n in range(100)))
    text = document.toPlainText()
    assert [f"r{n}" for n in range(100)] == [word for word in text.split() if word.startswith("r")]
    assert text.split().count("a") == 1


def test_code_that_was_cut_is_copied_whole(qapp: QApplication) -> None:
    code = "".join(f"line {n}\n" for n in range(150)) + "x" * 9_000
    markdown = Growing(QTextDocument(), LIGHT)
    markdown.append(f"```\nfirst\n```\n\nbetween\n\n```py\n{code}\n```\n\nafter")
    assert markdown.manuscript.code(0) == "first"
    assert markdown.manuscript.code(1) == ""
    assert markdown.manuscript.code(2) == code


def test_writing_stops_when_its_time_is_up_and_goes_on_later(qapp: QApplication) -> None:
    markdown = Growing(QTextDocument(), LIGHT)
    markdown.append("A paragraph.\n\n" * 200, seconds=0)
    assert markdown.is_behind
    written = markdown.blocks_written
    markdown.append("", seconds=0)
    assert markdown.blocks_written > written
    markdown.append("")
    assert not markdown.is_behind
