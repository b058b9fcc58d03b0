"""A question as it is shown: a bubble on the right, as wide as its text and no wider than most of the column."""

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.conversation import Message
from app.chat.message_text import MessageText

_SHARE_OF_WIDTH = 0.8
_PADDING = 14


class QuestionView(QWidget):
    """The bubble of one question; the text is shown exactly as it was typed."""

    def __init__(self, message: Message, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Question")
        self._bubble = QFrame(self)
        self._bubble.setObjectName("bubble")
        self.text = MessageText(self._bubble)
        self.text.setAccessibleName("Question text")
        self.text.setPlainText(message.text)
        inside = QVBoxLayout(self._bubble)
        inside.setContentsMargins(_PADDING, 9, _PADDING, 9)
        inside.addWidget(self.text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Give the bubble the width of its longest line, if there is room."""
        super().resizeEvent(event)
        document = self.text.document().clone()
        document.setTextWidth(-1)
        wanted = int(document.idealWidth()) + 2 * _PADDING + 2
        self._bubble.setFixedWidth(min(wanted, int(event.size().width() * _SHARE_OF_WIDTH)))
