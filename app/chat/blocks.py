"""Cuts growing Markdown into blocks: those that can no longer change, and the open tail.

Only the tail is parsed and drawn again when text arrives, so the cost of a word does not grow with the answer.
"""

import itertools
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.chat.math_syntax import math_syntax
from app.chat.pieces import Block, lines_of, take_piece

MAX_NESTING = 60  # a list within a list takes two


def markdown_parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough and maths. HTML is text; an image is the link it is made from.

    What is nested deeper than `MAX_NESTING` is dropped by the parser: whoever renders has to look for that.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    return parser.enable(["table", "strikethrough"]).disable("image").use(math_syntax)


class BlockStream:
    """Takes text in pieces of any size and gives back each block once, as soon as nothing can change it."""

    def __init__(self) -> None:
        self._parser = markdown_parser()
        self._tail = Block("")

    @property
    def tail(self) -> Block:
        """What is still open; its source can be empty."""
        return self._tail

    @property
    def open_blocks(self) -> list[Block]:
        """The tail as it looks now: mostly one block, two while the first line of the next one is being written."""
        lines = lines_of(self._tail.source)
        starts = _block_starts(self._parser.parse(self._tail.source))
        cuts = [0, *starts[1:], len(lines)]
        sources = ["".join(lines[start:end]) for start, end in itertools.pairwise(cuts)]
        return [
            replace(self._tail, source=source) if place == 0 else Block(source)
            for place, source in enumerate(sources)
            if source.strip()
        ]

    def feed(self, text: str) -> list[Block]:
        """Add text; returns the blocks that it closed.

        A block is closed when another one has begun on a *complete* line after it: half a line can still turn out
        to continue what stands above it.
        """
        text = text.replace("\r", "")
        self._tail = replace(self._tail, source=(self._tail.source + text).lstrip("\n"))
        closed = self._take_closed() if "\n" in text else []
        while (taken := take_piece(self._tail, self._parser)) is not None:
            closed.append(taken[0])
            self._tail = taken[1]
        return closed

    def close(self) -> list[Block]:
        """The text has ended: returns what was open."""
        rest, self._tail = self.tail, Block("")
        return [rest] if rest.source.strip() else []

    def _take_closed(self) -> list[Block]:
        source = self._tail.source
        complete = source.rfind("\n") + 1
        lines = lines_of(source[:complete])
        starts = _block_starts(self._parser.parse(source[:complete]))
        closed: list[Block] = []
        for start, end in itertools.pairwise(starts):
            closed.append(replace(self._tail, source="".join(lines[start:end])))
            self._tail = Block("")
        if closed:
            self._tail = Block("".join(lines[starts[-1] :]) + source[complete:])
        return closed


def _block_starts(tokens: list[Token]) -> list[int]:
    """The line each top-level block begins on."""
    return [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
