"""A long text exactly as it was typed: cut, laid out and shown a little at a time, as a long answer is.

No Markdown is read in it. A text that is short enough is better off in one `MessageText`.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QTimer
from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.text.blocks import Block
from app.chat.text.document import MarkdownDocument
from app.chat.text.document_style import Look
from app.chat.text.manuscript import Section
from app.chat.text.markdown_view import CATCH_UP_MS, WRITING_SECONDS, MarkdownView, Writing
from app.chat.typesetting.layout_cost import layout_cost, prefix_within

_LINES, _HEAVY = 40, 3_500  # of a piece: lines, and how much work it is; a line that is more is cut where a word ends


class PlainStream:
    """Cuts plain text into blocks, each of which goes on where the one before it ends."""

    def __init__(self) -> None:
        self._tail = Block("")

    @property
    def tail(self) -> Block:
        """What is still open; its source can be empty."""
        return self._tail

    @property
    def open_blocks(self) -> Sequence[Block]:
        """The tail, unless there is nothing in it."""
        return [self._tail] if self._tail.source else []

    def feed(self, text: str) -> Sequence[Block]:
        """Add text; returns the blocks that are full."""
        self._tail = replace(self._tail, source=self._tail.source + text)
        closed = []
        while taken := _length_of_piece(self._tail.source):
            tail = self._tail
            source, rest = tail.source[:taken], tail.source[taken:]
            ends_line = source.endswith("\n")
            closed.append(replace(tail, source=source.removesuffix("\n")))
            self._tail = Block(rest, continues=True, joint="\n" if ends_line else "", begin=tail.begin + taken)
        return closed


class PlainDocument(MarkdownDocument):
    """Holds the text of a section, character for character; a line that was cut goes on in a new one."""

    def clear(self) -> None:
        """Take everything away."""
        super().clear()
        self._open_begin = 0  # where the open end begins in the document
        self._breaks: list[int] = []  # places where a line goes on in a new one
        cursor = QTextCursor(self._document)
        cursor.setBlockFormat(QTextBlockFormat())
        cursor.setBlockCharFormat(QTextCharFormat())

    def letters_before(self, position: int) -> int:
        """How many letters of the section stand before a position, which counts some of them as two."""
        before = self._document.toPlainText().encode("utf-16-le", "surrogatepass")[: 2 * position]
        return len(before.decode("utf-16-le", "surrogatepass")) - sum(each < position for each in self._breaks)

    def _erase_tail(self, cursor: QTextCursor) -> None:
        self._open = None
        self._breaks = [each for each in self._breaks if each < self._open_begin]
        cursor.setPosition(self._open_begin)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()

    def _write_closed(self, cursor: QTextCursor, section: Section) -> None:
        self._add(cursor, section.closed[self.blocks_written], self.blocks_written > 0)
        self._open_begin = cursor.position()

    def _write_open(self, cursor: QTextCursor, section: Section) -> None:
        for block in section.open:
            self._add(cursor, block, bool(section.closed))
        self._open = section.open

    def _add(self, cursor: QTextCursor, block: Block, goes_on: bool) -> None:
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if goes_on and not block.joint:
            self._breaks.append(cursor.position())
        cursor.insertText(("\n" if goes_on else "") + block.source)


# What a document would take for something else than itself; each gives way to one character, so that places stay.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ENDS = {0x2028: "\n", 0x2029: "\n", 0xFDD0: " ", 0xFDD1: " "}

PLAIN = Writing(PlainStream, PlainDocument)


def as_shown(text: str) -> str:
    """A long text as the view shows it, letter for letter."""
    return _UNPRINTABLE.sub(" ", text).translate(_ENDS)


class PlainTextView(MarkdownView):
    """Shows a long text, and writes by itself what comes near."""

    def __init__(self, text: str, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(look, parent=parent, writing=PLAIN)
        self._text = text
        self._again = QTimer(self, singleShot=True, interval=CATCH_UP_MS)
        self._again.timeout.connect(self._write)
        self.show_text(as_shown(text))
        self._write()

    @property
    def selection(self) -> str:
        """What is selected, exactly as it was typed."""
        if self.selected.is_whole:
            return self._text
        indices = self.selected.indices
        if not indices:
            return ""
        cursors = [self._shown[each].text.textCursor() for each in (indices[0], indices[-1])]
        begin = self._place_in_text(indices[0], cursors[0].selectionStart())
        return self._text[begin : self._place_in_text(indices[-1], cursors[1].selectionEnd())]

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        super().show_part(top, bottom)
        self._write_on()

    def set_look(self, look: Look) -> None:
        """Show it in another way."""
        super().set_look(look)
        self._write_on()

    def _place_in_text(self, index: int, position: int) -> int:
        """The place in the text of a position in the document of a section."""
        document = self._shown[index].document
        assert isinstance(document, PlainDocument), "no other kind is written here"
        return self.manuscript.begin(index) + document.letters_before(position)

    def _write(self) -> None:
        self.work(WRITING_SECONDS)
        self._write_on()

    def _write_on(self) -> None:
        if self.is_behind and not self._again.isActive():
            self._again.start()


def _length_of_piece(text: str) -> int:
    """How much of the text is a piece of its own, its last line's end included; 0 while there is room for more."""
    lines = text.split("\n", _LINES)
    most = len(text) - len(lines[-1]) if len(lines) > _LINES else 0
    if layout_cost(text[: most or None]) <= _HEAVY:
        return most
    most = prefix_within(text, _HEAVY)
    ends = (text.rfind(mark, most // 2, most) + 1 for mark in ("\n", " "))
    return next((each for each in ends if each), most)
