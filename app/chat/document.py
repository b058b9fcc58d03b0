"""A text document made of blocks: each is written once, only the open tail is written again."""

import math
import time

from PySide6.QtGui import QColor, QTextCursor, QTextDocument, QTextFormat, QTextFrame, QTextFrameFormat, QTextLength

from app.chat.blocks import BlockStream
from app.chat.code_header import CODE, GOES_ON, NUMBER, header_html
from app.chat.document_style import squash, style_sheet
from app.chat.formula_object import KIND, OBJECT, FormulaObject, formula_format
from app.chat.formulas import Formulas, Latex
from app.chat.pieces import Block
from app.chat.rendering import BlockRenderer, Rendered, placeholder
from app.theme import Colors

_BEGIN = CODE + 10  # property of a frame: where its Markdown begins in the text

_CODE_PADDING = 12
_GAP = 12  # between blocks
_GAP_ABOVE_HEADING = 20
_SLICE = 2_048  # characters that are taken at once
_HEAD = 60  # characters by which a block is found in the text

# The first paragraph that is inserted takes on the look of the place it comes to: this one does, and is taken away.
_PLACEHOLDER = "<p>-</p>"


class MarkdownDocument:
    """Writes growing Markdown into a `QTextDocument`, one frame a block.

    `blocks_written` counts the frames that will never be written again in this theme. Without `formulas` they are
    shown as they were written.
    """

    def __init__(self, document: QTextDocument, colors: Colors, formulas: Formulas | None = None) -> None:
        self._document = document
        self._formulas = formulas
        self._text = ""
        self._codes = 0
        self.blocks_written = 0
        document.setDocumentMargin(0)
        document.setUndoRedoEnabled(False)
        if formulas is not None:
            self._painter = FormulaObject(formulas, colors.text, document)
            document.documentLayout().registerHandler(KIND, self._painter)
            formulas.drawn.connect(self._on_drawn)
        self.set_theme(colors)

    @property
    def text(self) -> str:
        """The Markdown so far."""
        return self._text

    @property
    def is_behind(self) -> bool:
        """Whether some of the text is still to be written."""
        return self._taken < len(self._text)

    def set_theme(self, colors: Colors) -> None:
        """Write everything anew in other colours."""
        text = self._text
        self._renderer = BlockRenderer(colors)
        self._document.setDefaultStyleSheet(style_sheet(colors))
        if self._formulas is not None:
            self._painter.set_color(colors.text)
        self.clear()
        self.append(text)

    def clear(self) -> None:
        """Take everything away."""
        self._document.clear()
        self._stream = BlockStream()
        self._text = ""
        self._taken = 0
        self._closed_through = 0
        self._tail: list[QTextFrame] = []
        self._undrawn: list[tuple[QTextCursor, Latex]] = []
        self.blocks_written = 0
        squash(QTextCursor(self._document))

    def append(self, text: str, seconds: float = math.inf) -> None:
        """Add Markdown: what it closes is written for good, what is open is written for now.

        What takes longer than `seconds` is left for the next call; see `is_behind`.
        """
        self._text += text
        start = time.perf_counter()
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        self._erase_tail(cursor)
        while self.is_behind:
            piece = self._text[self._taken : self._taken + _SLICE]
            self._taken += len(piece)
            for block in self._stream.feed(piece):
                frame = self._write(cursor, block, self.blocks_written == 0)
                self.blocks_written += 1
                self._closed_through = place_of(frame) + (0 if block.continues else len(block.source))
            if time.perf_counter() - start > seconds:
                break
        for block in self._stream.open_blocks:
            self._tail.append(self._write(cursor, block, self.blocks_written == len(self._tail) == 0))
        cursor.endEditBlock()

    def code(self, number: int) -> str:
        """The text of the code block with this number, all its pieces together; empty if there is none."""
        parts: list[str] = []
        for frame in self._document.rootFrame().childFrames():
            layout = frame.frameFormat()
            is_next = bool(parts) and bool(layout.property(GOES_ON))
            if is_next or (layout.hasProperty(NUMBER) and layout.property(NUMBER) == number):
                parts.append(str(layout.property(CODE)))
            elif parts:
                break
        return "".join(parts).removesuffix("\n")

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _erase_tail(self, cursor: QTextCursor) -> None:
        if not self._tail:
            return
        cursor.setPosition(self._tail[0].firstPosition() - 1)
        cursor.setPosition(self._tail[-1].lastPosition() + 1, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._tail = []

    def _write(self, cursor: QTextCursor, block: Block, is_first: bool) -> QTextFrame:
        rendered = self._renderer.render(block)
        layout = self._frame_format(rendered, block, gap=not is_first and not block.continues)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        frame = cursor.insertFrame(layout)
        cursor.insertHtml(_PLACEHOLDER + self._header(rendered, block) + rendered.html)
        _take_away_placeholder(cursor, frame.firstPosition())
        for number, latex in enumerate(rendered.formulas):
            self._place_formula(frame, number, latex)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        squash(cursor)
        return frame

    def _header(self, rendered: Rendered, block: Block) -> str:
        if rendered.code is None or block.continues:
            return ""
        return header_html(rendered.code.language, self._codes, self._renderer.colors)

    def _frame_format(self, rendered: Rendered, block: Block, gap: bool) -> QTextFrameFormat:
        layout = QTextFrameFormat()
        layout.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        begin = self._text.find(block.source[:_HEAD], self._closed_through)
        layout.setProperty(_BEGIN, begin if begin >= 0 else self._closed_through)
        if gap:
            layout.setTopMargin(_GAP_ABOVE_HEADING if rendered.is_heading else _GAP)
        if rendered.code is not None:
            layout.setBackground(QColor(self._renderer.colors.code))
            layout.setPadding(_CODE_PADDING)
            layout.setProperty(CODE, rendered.code.text)
            if block.continues:
                layout.setProperty(GOES_ON, True)
                layout.setTopMargin(-2 * _CODE_PADDING)
            else:
                self._codes += 1
                layout.setProperty(NUMBER, self._codes)
        return layout

    def _place_formula(self, frame: QTextFrame, number: int, latex: Latex) -> None:
        found = self._document.find(placeholder(number), frame.firstPosition())
        if found.isNull():
            return
        assert found.position() <= frame.lastPosition(), "a placeholder stands in its own block"
        if self._formulas is not None and self._formulas.is_known(latex):
            self._draw(found, latex)
        else:
            found.insertText(latex.source)
            found.setPosition(found.position() - len(latex.source), QTextCursor.MoveMode.KeepAnchor)
            self._undrawn.append((found, latex))

    def _draw(self, place: QTextCursor, latex: Latex) -> None:
        picture = self._formulas.picture(latex) if self._formulas else None
        if picture is None:
            place.insertText(latex.source)
        else:
            plain = QTextFormat(place.charFormat()).toCharFormat()
            place.insertText(OBJECT, formula_format(latex, picture, self._document.defaultFont()))
            place.setCharFormat(plain)

    def _on_drawn(self, latex: Latex) -> None:
        """A picture has come: it takes the place of the text, wherever that still stands."""
        ready = [place for place, each in self._undrawn if each == latex and place.selectedText() == latex.source]
        self._undrawn = [(place, each) for place, each in self._undrawn if each != latex and place.hasSelection()]
        for place in ready:
            self._draw(place, latex)


def place_of(frame: QTextFrame) -> int:
    """Where the Markdown of a block's frame begins in the text; near enough for a piece of a long block."""
    return int(frame.frameFormat().property(_BEGIN) or 0)


def _take_away_placeholder(cursor: QTextCursor, start: int) -> None:
    cursor.setPosition(start)
    cursor.deleteChar()
    cursor.movePosition(QTextCursor.MoveOperation.NextBlock)
    needed = cursor.currentTable() is not None  # a table cannot be the first thing in a frame
    cursor.setPosition(start)
    if needed:
        squash(cursor)
    else:
        cursor.deleteChar()
