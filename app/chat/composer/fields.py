"""The fields of the composer: the question, as tall as its text and open to files, and how the answer begins."""

import math
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QPlainTextEdit, QSizePolicy, QToolButton, QWidget

from app.chat.composer.pictures import has_picture, picture_in
from app.chat.typesetting.layout_cost import is_writable
from app.i18n.translation import tr
from app.ui.theme import Colors, reading_font
from app.ui.widgets import claims_escape, label, submits

_MOST_LINES = 8


class QuestionField(QPlainTextEdit):
    """A field as tall as its text, up to some lines. Enter submits, Shift+Enter begins a new line.

    `sends_with_ctrl`: Ctrl+Enter submits, and Enter begins a new line.
    """

    submitted = Signal()
    files_given = Signal(list)  # of Path: dropped, or pasted
    text_given = Signal(str)  # the same of a text that is too long to be written in
    picture_given = Signal(object)  # and of a picture without words: bytes or a QImage

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
        self.textChanged.connect(self._align)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Send on Enter, or on Ctrl+Enter; every other key writes."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
            return
        if submits(event, self.sends_with_ctrl):
            self.submitted.emit()
        else:
            self.textCursor().insertBlock()
            self.ensureCursorVisible()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802
        """Files too, and pictures."""
        return bool(files_of(source)) or has_picture(source) or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """Attach pasted files instead of writing their names, pictures, and a text that is too long for the field."""
        here = self.textCursor().block().text()
        if files := files_of(source):
            self.files_given.emit(files)
        elif (picture := picture_in(source)) is not None:
            self.picture_given.emit(picture)
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

    def _align(self) -> None:
        """All of it at the side where its first words begin: a plain text document knows one side for all its lines."""
        block = self.document().begin()
        while not block.text().strip() and block.next().isValid():
            block = block.next()
        leftwards = block.textDirection() == Qt.LayoutDirection.RightToLeft
        side = Qt.AlignmentFlag.AlignRight if leftwards else Qt.AlignmentFlag.AlignLeft
        option = self.document().defaultTextOption()
        if option.alignment() != side:
            option.setAlignment(side)
            self.document().setDefaultTextOption(option)

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


class BeginningRow(QWidget):
    """A line for the first words of the answer, hidden until it is asked for; Return sends, Escape closes it."""

    submitted = Signal()
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        words = label("quiet-text", tr("Start the answer with"), self)
        words.setWordWrap(False)
        self.field = QLineEdit(self)
        self.field.setFont(reading_font())
        self.field.setPlaceholderText(tr("Sure, here is"))
        self.field.setAccessibleName(tr("Start the answer with"))
        self.field.setToolTip(tr("The model goes on from these words as if they were its own."))
        self.close_tool = QToolButton(self)
        self.close_tool.setText("×")
        self.close_tool.setObjectName("dismiss")
        self.close_tool.setToolTip(tr("Let the answer begin as it likes"))
        self.close_tool.setAccessibleName(tr("Do not start the answer"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(words)
        row.addWidget(self.field, 1)
        row.addWidget(self.close_tool)
        self.field.returnPressed.connect(self.submitted)
        self.close_tool.clicked.connect(self._on_close)
        self.hide()

    @property
    def text(self) -> str:
        """What was written, without spaces at its end: a model writes those with the next word."""
        return self.field.text().strip() if not self.isHidden() else ""

    @property
    def words(self) -> str:
        """What was written, as it stands."""
        return self.field.text() if not self.isHidden() else ""

    def show_words(self, words: str) -> None:
        """Go on with these words; without any there is no row."""
        self.field.setText(words)
        self.setVisible(bool(words))

    def toggle(self) -> None:
        """Ask for a beginning, or no longer."""
        if not self.isHidden():
            self._on_close()
        else:
            self.show()
            self.field.setFocus()

    def close_row(self) -> None:
        """Forget it and go, without a word."""
        self.field.clear()
        self.hide()

    def set_theme(self, colors: Colors) -> None:
        """The line has no frame of its own, but for one colour."""
        self.field.setStyleSheet(f"border: none; border-bottom: 1px solid {colors.border}; background: transparent;")

    def event(self, event: QEvent) -> bool:
        """Escape puts the row away, and stops no answer."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape puts the row away."""
        if event.key() == Qt.Key.Key_Escape:
            self._on_close()
        else:
            super().keyPressEvent(event)

    def _on_close(self) -> None:
        self.close_row()
        self.closed.emit()
