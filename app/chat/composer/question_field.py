"""The field that a question is written in: as tall as its text, and open to files."""

import math
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from app.chat.typesetting.layout_cost import is_writable
from app.i18n.translation import tr
from app.ui.theme import reading_font

_MOST_LINES = 8


class QuestionField(QPlainTextEdit):
    """A field as tall as its text, up to some lines. Enter submits, Shift+Enter begins a new line.

    `sends_with_ctrl`: Ctrl+Enter submits, and Enter begins a new line.
    """

    submitted = Signal()
    files_given = Signal(list)  # of Path: dropped, or pasted
    text_given = Signal(str)  # the same of a text that is too long to be written in

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.sends_with_ctrl = False
        self.setFont(reading_font())
        self.setAccessibleName(tr("Message"))
        self.setPlaceholderText(tr("Ask something"))
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Send on Enter, or on Ctrl+Enter; every other key writes."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
            return
        with_shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        with_ctrl = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if not with_shift and with_ctrl == self.sends_with_ctrl:
            self.submitted.emit()
        else:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802
        """Files too."""
        return bool(files_of(source)) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """Files are attached, and so is a text that would make the field slow; nobody wanted to write their names."""
        here = self.textCursor().block().text()
        if files := files_of(source):
            self.files_given.emit(files)
        elif not is_writable(here + source.text(), self.blockCount()):
            self.text_given.emit(source.text())
        else:
            super().insertFromMimeData(source)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Another size of all text."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self.font() != reading_font():
            self.setFont(reading_font())
            self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Another width, another number of lines."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """The height of a plain text document is in lines."""
        lines = max(1, round(self.document().size().height()))
        shown = min(lines, _MOST_LINES)
        scroll = Qt.ScrollBarPolicy.ScrollBarAsNeeded if lines > shown else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(scroll)
        text = math.ceil(shown * QFontMetricsF(self.font()).lineSpacing() + 2 * self.document().documentMargin())
        self.setFixedHeight(text + 2 * self.frameWidth())


def files_of(source: QMimeData) -> list[Path]:
    """The files of this machine among what was dropped or pasted; none if it is text that looks like an address."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]
