"""Cuts growing Markdown into blocks: those that can no longer change, and the open tail.

Only the tail is parsed and drawn again when text arrives, so the cost of a word does not grow with the answer.
"""

import itertools
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.blockquote import blockquote
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from app.chat.text.pieces import Block, lines_of, take_piece
from app.chat.typesetting.math_syntax import math_syntax

MAX_NESTING = 60  # a list within a list takes two
_MOST_QUOTES = 10  # within each other; for every line the parser needs the square of it
_MOST_BRACKETS = 150  # in one paragraph; each is a search for its partner through all others


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser's own name
        """Only addresses of the web are links; one of any other kind is text, as it was written."""
        return url.lower().startswith(("http://", "https://"))


def markdown_parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough and maths. HTML is text; an image is the link it is made from.

    What is nested deeper than `MAX_NESTING` is dropped by the parser: whoever renders has to look for that.
    """
    parser = _Parser("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.block.ruler.at("blockquote", _quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.ruler.before("link", "too_many_brackets", _too_many_brackets)
    return parser.enable(["table", "strikethrough"]).disable("image").use(math_syntax)


def _quote(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A quotation, unless it stands within too many others: then its mark is text."""
    return state.level < _MOST_QUOTES and blockquote(state, line, last, silent)


def _too_many_brackets(state: StateInline, silent: bool) -> bool:
    """Where there are more opening brackets than anybody writes, they are text."""
    if state.src[state.pos] != "[" or state.src.count("[") <= _MOST_BRACKETS:
        return False
    if not silent:
        state.pending += "["
    state.pos += 1
    return True


def structure_parser() -> MarkdownIt:
    """The same, for whoever only asks what blocks there are: the text inside them is not looked into."""
    parser = markdown_parser()
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


class BlockStream:
    """Takes text in pieces of any size and gives back each block once, as soon as nothing can change it."""

    def __init__(self) -> None:
        self._parser = structure_parser()
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
        blocks: list[Block] = []
        tail = self._tail
        for start, end in itertools.pairwise(cuts):
            source = "".join(lines[start:end])
            blocks.append(replace(tail, source=source))
            tail = Block("", begin=_behind(blocks[-1]))
        return [block for block in blocks if block.source.strip()]

    def feed(self, text: str) -> list[Block]:
        """Add text; returns the blocks that it closed.

        A block is closed when another one has begun on a *complete* line after it: half a line can still turn out
        to continue what stands above it.
        """
        source = self._tail.source + text.replace("\r", "")
        begun = source.lstrip("\n")
        self._tail = replace(self._tail, source=begun, begin=self._tail.begin + len(source) - len(begun))
        closed = self._take_closed() if "\n" in text else []
        while (taken := take_piece(self._tail, self._parser)) is not None:
            closed.append(taken[0])
            self._tail = taken[1]
        return closed

    def close(self) -> list[Block]:
        """The text has ended: returns what was open."""
        rest, self._tail = self.tail, Block("", begin=_behind(self._tail))
        return [rest] if rest.source.strip() else []

    def _take_closed(self) -> list[Block]:
        source = self._tail.source
        complete = source.rfind("\n") + 1
        lines = lines_of(source[:complete])
        starts = _block_starts(self._parser.parse(source[:complete]))
        closed: list[Block] = []
        for start, end in itertools.pairwise([0, *starts[1:]]):
            closed.append(replace(self._tail, source="".join(lines[start:end])))
            self._tail = Block("", begin=_behind(closed[-1]))
        if closed:
            self._tail = replace(self._tail, source="".join(lines[starts[-1] :]) + source[complete:])
        return closed


def _behind(block: Block) -> int:
    """Where the text goes on behind a block that was not cut."""
    return block.begin + len(block.source) - block.repeated


def _block_starts(tokens: list[Token]) -> list[int]:
    """The line each top-level block begins on."""
    return [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
