"""Cuts growing Markdown into blocks: those that can no longer change, and the open tail.

Only the tail is parsed and drawn again when text arrives, so the cost of a word does not grow with the answer.
"""

import itertools
import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_NESTING = 60  # a list within a list takes two
_FENCE_LINES = 40  # an open code block is committed in pieces of so many lines

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def markdown_parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough. HTML is text; an image is the link it is made from.

    What is nested deeper than `MAX_NESTING` is dropped by the parser: whoever renders has to look for that.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    return parser.enable(["table", "strikethrough"]).disable("image")


@dataclass(frozen=True, slots=True)
class Block:
    """The Markdown of one block. `continues` says that it goes on where the code block before it was cut."""

    source: str
    continues: bool = False


class BlockStream:
    """Takes text in pieces of any size and gives back each block once, as soon as nothing can change it."""

    def __init__(self) -> None:
        self._parser = markdown_parser()
        self._tail = ""
        self._tail_continues = False

    @property
    def tail(self) -> Block:
        """What is still open; its source can be empty."""
        return Block(self._tail, self._tail_continues)

    @property
    def open_blocks(self) -> list[Block]:
        """The tail as it looks now: mostly one block, two while the first line of the next one is being written."""
        lines = _lines(self._tail)
        starts = _block_starts(self._parser.parse(self._tail))
        cuts = [0, *starts[1:], len(lines)]
        sources = ["".join(lines[start:end]) for start, end in itertools.pairwise(cuts)]
        return [
            Block(source, self._tail_continues and not place) for place, source in enumerate(sources) if source.strip()
        ]

    def feed(self, text: str) -> list[Block]:
        """Add text; returns the blocks that it closed.

        A block is closed when another one has begun on a *complete* line after it: half a line can still turn out
        to continue what stands above it.
        """
        text = text.replace("\r", "")
        self._tail = (self._tail + text).lstrip("\n")
        complete = self._tail.rfind("\n") + 1
        if "\n" not in text:
            return []  # no line was completed, so nothing was closed
        closed = self._take_closed(complete)
        while (piece := self._take_piece_of_fence()) is not None:
            closed.append(piece)
        return closed

    def close(self) -> list[Block]:
        """The text has ended: returns what was open."""
        rest, self._tail = self.tail, ""
        return [rest] if rest.source.strip() else []

    def _take_closed(self, complete: int) -> list[Block]:
        lines = _lines(self._tail[:complete])
        starts = _block_starts(self._parser.parse("".join(lines)))
        closed: list[Block] = []
        for start, end in itertools.pairwise(starts):
            closed.append(Block("".join(lines[start:end]), self._tail_continues))
            self._tail_continues = False
        if closed:
            self._tail = "".join(lines[starts[-1] :]) + self._tail[complete:]
        return closed

    def _take_piece_of_fence(self) -> Block | None:
        """The first lines of a code block that has grown long; the rest gets an opening line of its own."""
        opening = _FENCE.match(self._tail)
        if opening is None:
            return None
        lines = _lines(self._tail)
        if len(lines) <= _FENCE_LINES + 1 or any(_closes(line, opening[1]) for line in lines[1:]):
            return None
        piece = Block("".join(lines[: _FENCE_LINES + 1]) + opening[1], self._tail_continues)
        self._tail = lines[0] + "".join(lines[_FENCE_LINES + 1 :])
        self._tail_continues = True
        return piece


def _block_starts(tokens: list[Token]) -> list[int]:
    """The line each top-level block begins on."""
    return [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]


def _closes(line: str, mark: str) -> bool:
    """Whether the line ends a code block that `mark` opened."""
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]}


def _lines(text: str) -> list[str]:
    """The lines as the parser counts them; `str.splitlines` would also cut at form feeds and their kin."""
    return _LINE.findall(text)
