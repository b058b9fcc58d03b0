"""Marks the text that one round gave to an answer: with a ground and a line below, so not by colour alone."""

from collections.abc import Iterator
from itertools import pairwise

from PySide6.QtCore import QRect
from PySide6.QtGui import QColor, QTextBlock, QTextCharFormat, QTextCursor, QTextFrame
from PySide6.QtWidgets import QTextEdit

from app.chat.origins.source_places import source_places
from app.chat.text.document import MarkdownDocument, place_of
from app.chat.text.message_text import MessageText
from app.ui.theme import Colors

_STRENGTH = 80  # of 255, of the ground


class RoundMark:
    """Lies over the text of one answer and is no part of it. Places count characters of its Markdown."""

    def __init__(self, text: MessageText, markdown: MarkdownDocument, colors: Colors) -> None:
        self._text = text
        self._markdown = markdown
        self._colors = colors
        self._stretch: tuple[int, int] | None = None

    def set_colors(self, colors: Colors) -> None:
        """Mark in other colours."""
        self._colors = colors
        self.refresh()

    def show(self, stretch: tuple[int, int] | None) -> None:
        """Mark what is from the first of these places to before the second; None for nothing."""
        if stretch != self._stretch:
            self._stretch = stretch
            self.refresh()

    def refresh(self) -> None:
        """The text was written anew where it is not settled yet."""
        made = []
        for cursor in self._cursors(*self._stretch) if self._stretch else ():
            selection = QTextEdit.ExtraSelection()
            selection.cursor, selection.format = cursor, self._format()
            made.append(selection)
        if made or self._text.extraSelections():
            self._text.setExtraSelections(made)

    @property
    def place(self) -> QRect | None:
        """Where the mark begins in the text's widget; None if there is nothing to be seen of it."""
        marked = self._text.extraSelections()
        if not marked:
            return None
        cursor = QTextCursor(marked[0].cursor)
        cursor.setPosition(cursor.selectionStart())
        return self._text.cursorRect(cursor)

    def _format(self) -> QTextCharFormat:
        ground = QColor(self._colors.accent)
        ground.setAlpha(_STRENGTH)
        made = QTextCharFormat()
        made.setBackground(ground)
        made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        made.setUnderlineColor(QColor(self._colors.accent))
        return made

    def _cursors(self, begin: int, end: int) -> Iterator[QTextCursor]:
        frames = self._text.document().rootFrame().childFrames()
        places = [*(place_of(frame) for frame in frames), len(self._markdown.text) + 1]
        for frame, (here, following) in zip(frames, pairwise(places), strict=True):
            if here < end and following > begin:
                yield from self._in_frame(frame, here, begin, end)

    def _in_frame(self, frame: QTextFrame, here: int, begin: int, end: int) -> Iterator[QTextCursor]:
        block = self._text.document().findBlock(frame.firstPosition())
        while block.isValid() and block.position() <= frame.lastPosition() and here < end:
            text = block.text()
            found = source_places(text, self._markdown.text, here)
            here = max(found.values(), default=here)
            parts = []
            for start, source in found.items():
                length = next((place for place in range(start, len(text)) if text[place].isspace()), len(text)) - start
                first, last = max(source, begin), min(source + length, end)
                if first < last:
                    parts.append((start + first - source, start + last - source))
            if parts:
                yield _cursor(block, text, min(part[0] for part in parts), max(part[1] for part in parts))
            block = block.next()


def _cursor(block: QTextBlock, text: str, begin: int, end: int) -> QTextCursor:
    """Qt counts half characters where Python counts whole ones."""
    cursor = QTextCursor(block)
    cursor.setPosition(block.position() + _units(text[:begin]))
    cursor.setPosition(block.position() + _units(text[:end]), QTextCursor.MoveMode.KeepAnchor)
    return cursor


def _units(text: str) -> int:
    return len(text) + sum(letter > "\uffff" for letter in text)
