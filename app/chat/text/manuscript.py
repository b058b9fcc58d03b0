"""The whole text of an answer, cut into blocks, and the blocks grouped into sections of one document each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.chat.text.blocks import Block, BlockStream, code_of
from app.chat.typesetting.layout_cost import Budget, layout_cost

_SLICE, _SLICE_LINES = 1_024, 32  # characters and lines that are cut between two looks at the clock
_SECTION = 16_000  # letters and lines after which a section is full
_LINE, _MARK = 60, 100  # letters that a line, or the mark of a formula, is counted for
_NOTHING: Sequence[Block] = ()

_LETTER_PIXELS, _LINE_PIXELS, _GAP_PIXELS = 8, 24, 12


@dataclass(frozen=True, slots=True)
class Section:
    """Some blocks that stand together. `first` is the number of the first of them in the text, from 0.

    Those behind `closed` are the open end of the text, which may still change.
    """

    first: int
    closed: Sequence[Block]
    open: Sequence[Block]


class BlockSource(Protocol):
    """Cuts a text that comes in pieces of any size into blocks."""

    @property
    def tail(self) -> Block:
        """What is still open; its source can be empty."""

    @property
    def open_blocks(self) -> Sequence[Block]:
        """The tail as it looks now."""

    def feed(self, text: str) -> Sequence[Block]:
        """Add text; returns the blocks that nothing can change any more."""


class Manuscript:
    """Takes text as it comes, and cuts it into blocks and sections within a time budget."""

    def __init__(self, section_size: int = _SECTION, stream: Callable[[], BlockSource] = BlockStream) -> None:
        self._section_size = section_size
        self._new_stream = stream
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.text = ""
        self._stream = self._new_stream()
        self._taken = 0
        self._blocks: list[Block] = []
        self._starts = [0]  # of the sections, in blocks
        self._size = 0  # of the last section
        self._open: Sequence[Block] | None = []

    @property
    def is_behind(self) -> bool:
        """Whether some of the text is still to be cut."""
        return self._taken < len(self.text)

    @property
    def count(self) -> int:
        """The number of sections; there is always one."""
        return len(self._starts)

    def add(self, text: str) -> None:
        """More text has come."""
        self.text += text

    def cut(self, budget: Budget) -> None:
        """Go on cutting until nothing is left or the time is up."""
        while self.is_behind:
            piece = _beginning(self.text[self._taken : self._taken + _SLICE])
            self._taken += len(piece)
            self._open = None
            for block in self._stream.feed(piece):
                self._keep(block)
            if budget.is_spent:
                return

    def section(self, index: int) -> Section:
        """The blocks of a section as they are now; only the last one can have an open end."""
        first = self._starts[index]
        if index + 1 < self.count:
            return Section(first, self._blocks[first : self._starts[index + 1]], _NOTHING)
        return Section(first, self._blocks[first:], self._open_end())

    def begin(self, index: int) -> int:
        """Where a section begins in the text; the one behind the last begins at its end."""
        if index == 0:
            return 0
        if index >= self.count:
            return len(self.text)
        first = self._starts[index]
        return self._blocks[first].begin if first < len(self._blocks) else self._stream.tail.begin

    def source(self, index: int) -> str:
        """The Markdown of a section."""
        begins = [self.begin(each) for each in (index, index + 1)]
        return self.text[begins[0] : begins[1]]

    def joint(self, index: int) -> str:
        """What stands between a section and the one before it, where both are copied."""
        section = self.section(index)
        first = next(iter((*section.closed, *section.open)), None)
        return first.joint if first is not None else "\n\n"

    def code(self, number: int) -> str:
        """The text of the code block that begins with this block, all its pieces together; empty if there is none."""
        blocks = [*self._blocks[number:], *self._open_end()]
        parts: list[str] = []
        for block in blocks:
            code = code_of(block) if not parts or block.continues else None
            if code is None:
                break
            parts.append(code)
        return "".join(parts).removesuffix("\n")

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _keep(self, block: Block) -> None:
        source = block.source
        size = max(len(source) + _LINE * (1 + source.count("\n")) + _MARK * source.count("$"), layout_cost(source) // 2)
        if self._size and self._size + size > self._section_size:
            self._starts.append(len(self._blocks))
            self._size = 0
        self._size += size
        self._blocks.append(block)

    def _open_end(self) -> Sequence[Block]:
        if self._open is None:
            self._open = self._stream.open_blocks
        return self._open


def _beginning(text: str) -> str:
    """The first lines: a short one can be as much work as a long one."""
    lines = text.split("\n", _SLICE_LINES)
    return text[: len(text) - len(lines[-1])] if len(lines) > _SLICE_LINES else text


def estimated_height(section: Section, width: int, zoom: int) -> int:
    """The height of a section in pixels, in this width and with letters of so many percent of their size."""
    letters = max(10, width * 100 // (_LETTER_PIXELS * zoom))
    pixels = 0
    for block in (*section.closed, *section.open):
        lines = block.source.count("\n") + len(block.source) // letters + 1
        pixels += lines * _LINE_PIXELS * zoom // 100 + (0 if block.continues else _GAP_PIXELS)
    return pixels
