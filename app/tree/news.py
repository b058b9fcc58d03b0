"""Words that are to be read once: what came of a file, or why something could not be done."""

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.i18n.translation import tr
from app.tree.tool_button import tool_button

_LEAST_MS, _LETTER_MS = 6000, 90  # that they stay: time to notice them, and to read them slowly


class News(QWidget):
    """As many lines as they need; they go by themselves, or when they are closed. Hidden without any."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = QLabel(self)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.close_ = tool_button("✕", tr("Close"), self)
        self.close_.setAccessibleName(tr("Close"))
        self.close_.clicked.connect(self.hide)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.close_, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def tell(self, text: str) -> None:
        """Show these words in place of others."""
        self.words.setText(text)
        self.show()
        self._timer.start(_LEAST_MS + _LETTER_MS * len(text))
