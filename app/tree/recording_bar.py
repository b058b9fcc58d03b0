"""The line that says that a recording is looked at and not the conversation, and leads back."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.tool_button import tool_button


class RecordingBar(QWidget):
    """Hidden, unless a recording is open."""

    closed = Signal()
    """The conversation's rounds are wanted again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.words = QLabel(self)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.close_ = tool_button(tr("Back to the conversation"), tr("Close the recording (L)"), self)
        self.close_.setAutoRaise(False)
        self.close_.clicked.connect(self.closed)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 4, 2)
        row.setSpacing(8)
        row.addWidget(self.words, 1)
        row.addWidget(self.close_, 0, Qt.AlignmentFlag.AlignTop)
        self.hide()

    def show_recording(self, name: str, rounds: int, is_whole: bool) -> None:
        """Say which one, and how much of it is there."""
        words = (
            tr("Recording “{name}”: {count} rounds") if is_whole else tr("Recording “{name}”: {count} rounds so far…")
        )
        self.words.setText(words.format(name=name, count=f"{Number(rounds):,}"))
        self.show()
