"""What a person copies out of a message: its text, with formulas as they were written and without our own links."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from PySide6.QtGui import QTextBlock, QTextCursor, QTextFrame

from app.chat.text.document_style import JOINT, copied_block, is_squashed
from app.chat.typesetting.formula_places import OBJECT, SOURCE

if TYPE_CHECKING:  # Markdown takes its time to read, and is not needed for the first picture
    from app.chat.text.manuscript import Manuscript
    from app.chat.text.message_text import MessageText

_LINE_SEPARATOR, _NO_BREAK_SPACE = "\u2028", "\u00a0"


def selected_text(selection: QTextCursor) -> str:
    """The selected text: cells of a table with tabs between, blocks with an empty line between."""
    begin, end = selection.selectionStart(), selection.selectionEnd()
    block = selection.document().findBlock(begin)
    parts: list[str] = []
    previous: QTextBlock | None = None
    blank = 0  # lines since then
    while block.isValid() and block.position() < max(end, begin + 1):
        text = _text_of(block, begin, end)
        if text or (previous is not None and _shared_table(block, previous)):
            parts += ["" if previous is None else _between(previous, block, blank), text]
            previous, blank = QTextBlock(block), 0
        else:
            blank += not is_squashed(block)
        block = block.next()
    return "".join(parts).replace(_LINE_SEPARATOR, "\n").replace(_NO_BREAK_SPACE, " ")


def _text_of(block: QTextBlock, begin: int, end: int) -> str:
    """The part of a paragraph that lies between two positions."""
    parts: list[str] = []
    pieces = block.begin()
    while not pieces.atEnd():
        fragment = pieces.fragment()
        layout = fragment.charFormat()
        if copied_block(layout) is not None:
            return ""
        start = fragment.position()
        units = fragment.text().encode("utf-16-le", "surrogatepass")  # a position counts units, not letters
        text = units[2 * max(0, begin - start) : 2 * max(0, end - start)].decode("utf-16-le", "surrogatepass")
        parts.append(text.replace(OBJECT, str(layout.property(SOURCE) or "")))
        pieces += 1
    return "".join(parts)


def _between(previous: QTextBlock, block: QTextBlock, blank: int) -> str:
    """What stands between two paragraphs; `blank` lines that have nothing in them do."""
    before, here = QTextCursor(previous), QTextCursor(block)
    table = _shared_table(block, previous)
    if table:
        same_row = here.currentTable().cellAt(here).row() == before.currentTable().cellAt(before).row()
        return "\t" if same_row else "\n"
    frame = _top_frame(here)
    if frame == _top_frame(before):
        return "\n" + "\n" * blank if here.currentFrame() == before.currentFrame() else "\n\n"
    layout = frame.frameFormat()
    if not layout.hasProperty(JOINT):
        return "\n\n"
    joint = layout.property(JOINT)
    return joint if isinstance(joint, str) else ""  # an empty text comes back as something else


def _top_frame(cursor: QTextCursor) -> QTextFrame:
    """The frame of the block of Markdown that a place belongs to."""
    frame, root = cursor.currentFrame(), cursor.document().rootFrame()
    while frame != root and frame.parentFrame() != root:
        frame = frame.parentFrame()
    return frame


def _shared_table(block: QTextBlock, other: QTextBlock) -> bool:
    table = QTextCursor(block).currentTable()
    return table is not None and table == QTextCursor(other).currentTable()


class ShownSection(Protocol):
    """A section that exists."""

    @property
    def text(self) -> "MessageText":
        """What it is shown in."""


class SectionSelection:
    """The selection in a text of which only some sections exist, and how it is copied."""

    def __init__(self, manuscript: "Manuscript", sections: Mapping[int, ShownSection]) -> None:
        """`sections`: those that exist by now, by their numbers."""
        self._manuscript = manuscript
        self._sections = sections
        self.is_whole = False

    @property
    def indices(self) -> list[int]:
        """The sections that exist and in which something is selected, from top to bottom."""
        return sorted(index for index, each in self._sections.items() if each.text.textCursor().hasSelection())

    @property
    def text(self) -> str:
        """What is selected, as it is copied; of a section between that did not exist when it was, its Markdown.

        A whole text of which some does not exist is copied as it was written.
        """
        if self.is_whole and len(self._sections) < self._manuscript.count:
            return self._manuscript.text.strip("\n")
        selected = self.indices
        parts: list[str] = []
        for index in range(min(selected, default=0), max(selected, default=-1) + 1):
            own = self._sections[index].text.selection if index in self._sections else ""
            if parts:
                parts.append(self._manuscript.joint(index))
            parts.append(own or self._manuscript.source(index).strip("\n"))
        return "".join(parts)

    def select_all(self) -> None:
        """Select everything that is there, and what comes to be there."""
        self.is_whole = True
        self.follow()

    def follow(self) -> None:
        """Something was written: where everything is selected, it is too."""
        if self.is_whole:
            for each in self._sections.values():
                each.text.selectAll()

    def clear(self) -> None:
        """Select nothing."""
        self.is_whole = False
        for each in self._sections.values():
            each.text.clear_selection()
