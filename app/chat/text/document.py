"""A text document that shows a section of an answer: each block is written once, only the open end again and again."""

from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QColor, QTextCursor, QTextDocument, QTextFrame, QTextFrameFormat, QTextLength

from app.chat.text.blocks import Block
from app.chat.text.document_style import CODE, JOINT, header_html, mark_header, squash, style_sheet
from app.chat.text.manuscript import Manuscript, Section
from app.chat.text.rendering import BlockRenderer, Rendered, code_placeholder, placeholder
from app.chat.typesetting.code_kinds import CodeText
from app.chat.typesetting.code_places import CodePlaces
from app.chat.typesetting.formula_places import FormulaPlaces
from app.chat.typesetting.formulas import Formulas, Latex
from app.chat.typesetting.layout_cost import Budget

_BEGIN = CODE + 10  # property of a frame: where its Markdown begins in the text

_CODE_PADDING = 12
_GAP = 12  # between blocks
_GAP_ABOVE_HEADING = 20

# The first paragraph that is inserted takes on the look of the place it comes to: this one does, and is taken away.
_PLACEHOLDER = "<p>-</p>"


class BlockFrame(NamedTuple):
    """The frame of a block, and where the block's Markdown begins and ends in the text."""

    frame: QTextFrame
    begin: int
    end: int


class MarkdownDocument(QObject):
    """Writes the blocks of a section into a `QTextDocument`, one frame a block.

    `blocks_written` counts the frames that will never be written again in this theme. Without `formulas` they are
    shown as they were written.
    """

    fell_behind = Signal()  # pictures of formulas or colours of code have come: `write` puts them in their places

    def __init__(
        self,
        document: QTextDocument,
        manuscript: Manuscript,
        renderer: BlockRenderer,
        formulas: Formulas | None = None,
        section: int = 0,
    ) -> None:
        super().__init__(document)
        self._document = document
        self._manuscript = manuscript
        self._section = section
        self._formulas = FormulaPlaces(document, formulas, renderer.colors.text)
        self._code = CodePlaces(document, formulas.code if formulas is not None else None, renderer.colors.code_style)
        document.setDocumentMargin(0)
        document.setUndoRedoEnabled(False)
        if formulas is not None:
            formulas.settled.connect(self._on_formulas_settled)
            formulas.code.found.connect(self._on_code_found)
        self.set_renderer(renderer)

    @property
    def text(self) -> str:
        """The Markdown of the whole answer so far; frames know their places in it."""
        return self._manuscript.text

    def block_frames(self, first: int = 0) -> list[BlockFrame]:
        """The frames from number `first` on, each with its place in the text."""
        frames = self._document.rootFrame().childFrames()[first:]
        places = [*map(_place_of, frames), self._manuscript.begin(self._section + 1)]
        return [BlockFrame(frame, *ends) for frame, ends in zip(frames, pairwise(places), strict=True)]

    @property
    def is_current(self) -> bool:
        """Whether everything of the section stands there as it is now."""
        return self._is_written and self._formulas.is_current and self._code.is_current

    @property
    def _is_written(self) -> bool:
        section = self._manuscript.section(self._section)
        return self.blocks_written == len(section.closed) and self._open is section.open

    def set_renderer(self, renderer: BlockRenderer) -> None:
        """Begin anew, in other colours."""
        self._renderer = renderer
        self._document.setDefaultStyleSheet(style_sheet(renderer.colors))
        self.clear()

    def fit(self) -> None:
        """The document has another width."""
        self._formulas.fit()

    def clear(self) -> None:
        """Take everything away."""
        self._document.clear()
        self._tail: list[QTextFrame] = []
        self._open: object = None  # the open end as it was last written
        self._formulas.clear(self._renderer.colors.text)
        self._code.clear(self._renderer.colors.code_style)
        self.blocks_written = 0
        squash(QTextCursor(self._document))

    def write(self, budget: Budget) -> None:
        """Write what the section has gained, then colours and pictures: a block, and more while there is time.

        A block is laid out before the next one is begun, so that this time counts too.
        """
        section = self._manuscript.section(self._section)
        cursor = QTextCursor(self._document)
        is_written = self._is_written
        while not is_written:
            cursor.beginEditBlock()
            self._erase_tail(cursor)
            has_time = True
            if self.blocks_written < len(section.closed):
                self._write_closed(cursor, section)
                self.blocks_written += 1
                has_time = not budget.is_spent
            if has_time and self.blocks_written == len(section.closed):
                self._write_open(cursor, section)
                is_written = True
            cursor.endEditBlock()
            if budget.is_spent:
                return
        self._code.draw(budget)
        self._formulas.draw(budget)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _erase_tail(self, cursor: QTextCursor) -> None:
        self._open = None
        if not self._tail:
            return
        cursor.setPosition(self._tail[0].firstPosition() - 1)
        cursor.setPosition(self._tail[-1].lastPosition() + 1, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._tail = []

    def _write_closed(self, cursor: QTextCursor, section: Section) -> None:
        self._write(cursor, section, section.closed[self.blocks_written])

    def _write_open(self, cursor: QTextCursor, section: Section) -> None:
        for block in section.open:
            self._tail.append(self._write(cursor, section, block))
        self._open = section.open

    def _write(self, cursor: QTextCursor, section: Section, block: Block) -> QTextFrame:
        number = section.first + self.blocks_written + len(self._tail)
        rendered = self._renderer.render(block)
        layout = self._frame_format(rendered, block, gap=number > 0 and not block.continues)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        frame = cursor.insertFrame(layout)
        header = ""
        if rendered.code is not None and not block.continues:
            header = header_html(rendered.code.language, self._renderer.colors)
        cursor.insertHtml(_PLACEHOLDER + header + rendered.html)
        _take_away_placeholder(cursor, frame.firstPosition())
        if header:
            mark_header(self._document.findBlock(frame.firstPosition()), number)
        for each, text in enumerate(rendered.codes):
            found = self._found(frame, code_placeholder(each))
            if not found.isNull():
                self._code.place(found, text)
        for each, latex in enumerate(rendered.formulas):
            self._place_formula(frame, each, latex)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        squash(cursor)
        return frame

    def _frame_format(self, rendered: Rendered, block: Block, gap: bool) -> QTextFrameFormat:
        layout = QTextFrameFormat()
        layout.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        layout.setProperty(_BEGIN, block.begin)
        if gap:
            layout.setTopMargin(_GAP_ABOVE_HEADING if rendered.is_heading else _GAP)
        if block.continues:
            layout.setProperty(JOINT, block.joint)
        if rendered.code is not None:
            layout.setBackground(QColor(self._renderer.colors.code))
            layout.setPadding(_CODE_PADDING)
            layout.setProperty(CODE, True)
            if block.continues:  # over the padding of the piece above; at the top of a document only its own can go
                is_top = self.blocks_written == len(self._tail) == 0
                layout.setTopMargin(-_CODE_PADDING if is_top else -2 * _CODE_PADDING)
        return layout

    def _place_formula(self, frame: QTextFrame, number: int, latex: Latex) -> None:
        found = self._found(frame, placeholder(number))
        if not found.isNull():
            self._formulas.place(found, latex)

    def _found(self, frame: QTextFrame, mark: str) -> QTextCursor:
        """A placeholder, selected; null if it is not there."""
        found = self._document.find(mark, frame.firstPosition())
        assert found.isNull() or found.position() <= frame.lastPosition(), "a placeholder stands in its own block"
        return found

    def _on_formulas_settled(self, settled: AbstractSet[Latex]) -> None:
        """Pictures have come: they take the place of the text, wherever that still stands, when there is time."""
        self._formulas.take(settled)
        if not self._formulas.is_current:
            self.fell_behind.emit()

    def _on_code_found(self, text: CodeText) -> None:
        self._code.take(text)
        if not self._code.is_current:
            self.fell_behind.emit()


def _place_of(frame: QTextFrame) -> int:
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
