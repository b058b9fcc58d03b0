"""A text document made of blocks: each is written once, only the open tail is written again."""

from PySide6.QtGui import (
    QColor,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrame,
    QTextFrameFormat,
    QTextLength,
)

from app.chat.blocks import Block, BlockStream
from app.chat.rendering import BlockRenderer, Rendered
from app.theme import Colors, monospace_family

_CODE_PADDING = 12
_GAP = 12  # between blocks
_GAP_ABOVE_HEADING = 20
_LINE_HEIGHT_PERCENT = 125

# The first paragraph that is inserted takes on the look of the place it comes to: this one does, and is taken away.
_PLACEHOLDER = "<p>-</p>"


class MarkdownDocument:
    """Writes growing Markdown into a `QTextDocument`, one frame a block.

    `blocks_written` counts the frames that will never be written again in this theme.
    """

    def __init__(self, document: QTextDocument, colors: Colors) -> None:
        self._document = document
        self._text = ""
        self._tail: list[QTextFrame] = []
        self.blocks_written = 0
        document.setDocumentMargin(0)
        document.setUndoRedoEnabled(False)
        self.set_theme(colors)

    @property
    def text(self) -> str:
        """The Markdown so far."""
        return self._text

    def set_theme(self, colors: Colors) -> None:
        """Write everything anew in other colours."""
        text = self._text
        self._renderer = BlockRenderer(colors)
        self._document.setDefaultStyleSheet(_style_sheet(colors))
        self.clear()
        self.append(text)

    def clear(self) -> None:
        """Take everything away."""
        self._document.clear()
        self._stream = BlockStream()
        self._text = ""
        self._tail = []
        self.blocks_written = 0
        _squash(QTextCursor(self._document))

    def append(self, text: str) -> None:
        """Add Markdown: what it closes is written for good, what is open is written for now."""
        self._text += text
        closed = self._stream.feed(text)
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()
        self._erase_tail(cursor)
        for block in closed:
            self._write(cursor, block, self.blocks_written == 0)
            self.blocks_written += 1
        for block in self._stream.open_blocks:
            self._tail.append(self._write(cursor, block, self.blocks_written == len(self._tail) == 0))
        cursor.endEditBlock()

    def _erase_tail(self, cursor: QTextCursor) -> None:
        if not self._tail:
            return
        cursor.setPosition(self._tail[0].firstPosition() - 1)
        cursor.setPosition(self._tail[-1].lastPosition() + 1, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._tail = []

    def _write(self, cursor: QTextCursor, block: Block, is_first: bool) -> QTextFrame:
        rendered = self._renderer.render(block)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        frame = cursor.insertFrame(self._frame_format(rendered, gap=not is_first and not block.continues))
        cursor.insertHtml(_PLACEHOLDER + rendered.html)
        _take_away_placeholder(cursor, frame.firstPosition())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        _squash(cursor)
        return frame

    def _frame_format(self, rendered: Rendered, gap: bool) -> QTextFrameFormat:
        layout = QTextFrameFormat()
        layout.setWidth(QTextLength(QTextLength.Type.PercentageLength, 100))
        if gap:
            layout.setTopMargin(_GAP_ABOVE_HEADING if rendered.is_heading else _GAP)
        if rendered.is_code:
            layout.setBackground(QColor(self._renderer.colors.code))
            layout.setPadding(_CODE_PADDING)
        return layout


def _take_away_placeholder(cursor: QTextCursor, start: int) -> None:
    cursor.setPosition(start)
    cursor.deleteChar()
    cursor.movePosition(QTextCursor.MoveOperation.NextBlock)
    needed = cursor.currentTable() is not None  # a table cannot be the first thing in a frame
    cursor.setPosition(start)
    if needed:
        _squash(cursor)
    else:
        cursor.deleteChar()


def _squash(cursor: QTextCursor) -> None:
    """A document keeps an empty paragraph around every frame: make it so low that nobody sees it."""
    low, tiny = QTextBlockFormat(), QTextCharFormat()
    low.setLineHeight(0, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
    tiny.setFontPointSize(1)
    cursor.setBlockFormat(low)
    cursor.setBlockCharFormat(tiny)


def _style_sheet(colors: Colors) -> str:
    mono = monospace_family()
    return f"""
        p, li {{ line-height: {_LINE_HEIGHT_PERCENT}%; }}
        p, ul, ol, pre, blockquote, table {{ margin-top: 0; margin-bottom: 0; }}
        h1, h2, h3, h4, h5, h6 {{ margin-top: 0; margin-bottom: 0; font-weight: 600; }}
        h1 {{ font-size: x-large; }}
        h2 {{ font-size: large; }}
        h3, h4, h5, h6 {{ font-size: medium; }}
        code, pre {{ font-family: '{mono}', monospace; }}
        pre {{ white-space: pre-wrap; }}
        code {{ background-color: {colors.code}; }}
        blockquote {{ color: {colors.muted}; margin-left: 16px; }}
        a {{ color: {colors.link}; }}
    """
