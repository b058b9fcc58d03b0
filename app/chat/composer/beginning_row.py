"""How the next answer is to begin, in a person's words."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QToolButton, QWidget

from app.i18n.translation import tr
from app.ui.theme import Colors, reading_font
from app.ui.widgets import label


class BeginningRow(QWidget):
    """One line that is there only when it is wanted; Return sends, Escape puts it away."""

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

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Escape puts the row away."""
        if event.key() == Qt.Key.Key_Escape:
            self._on_close()
        else:
            super().keyPressEvent(event)

    def _on_close(self) -> None:
        self.close_row()
        self.closed.emit()
