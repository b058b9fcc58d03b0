"""An answer as it is shown: quiet text, its figures, and what can be done with it."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from app.chat.conversation import Message
from app.chat.document import MarkdownDocument
from app.chat.figures import FiguresRow
from app.chat.message_text import MessageText
from app.theme import Colors, icon
from app.throttle import Throttle

_TOOL_SIZE = 26


class AnswerView(QWidget):
    """Shows one answer, and follows it while it grows: at most once a frame, whatever comes in."""

    regenerate_requested = Signal()

    def __init__(self, message: Message, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Answer")
        self.text = MessageText(self)
        self.text.setAccessibleName("Answer text")
        self.markdown = MarkdownDocument(self.text.document(), colors)
        self.figures = FiguresRow(self)
        self._copy = self._tool("Copy answer", self.copy)
        self._regenerate = self._tool("Regenerate answer", self.regenerate_requested.emit)
        self._lay_out()
        self._throttle = Throttle(self._flush, parent=self)
        self._message = message
        self._waiting = message.text
        self.set_theme(colors)
        self._flush()

    def _lay_out(self) -> None:
        self._actions = QWidget(self)
        row = QHBoxLayout(self._actions)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(2)
        row.addWidget(self._copy)
        row.addWidget(self._regenerate)
        foot = QHBoxLayout()
        foot.setContentsMargins(0, 0, 0, 0)
        foot.setSpacing(12)
        foot.addWidget(self._actions, 0, Qt.AlignmentFlag.AlignTop)
        foot.addWidget(self.figures, 1, Qt.AlignmentFlag.AlignVCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.text)
        column.addLayout(foot)

    def _tool(self, name: str, action: object) -> QToolButton:
        tool = QToolButton(self)
        tool.setObjectName("quiet")
        tool.setFixedSize(_TOOL_SIZE, _TOOL_SIZE)
        tool.setToolTip(name)
        tool.setAccessibleName(name)
        tool.clicked.connect(action)
        return tool

    def change(self, message: Message, added: str) -> None:
        """Take the answer's new state and the text that came with it."""
        self._message = message
        self._waiting += added
        self._throttle.request()
        if message.ending.is_final:
            self._throttle.flush()

    def restart(self, message: Message) -> None:
        """Forget what is shown: the question is being answered again."""
        self._throttle.cancel()
        self._message, self._waiting = message, message.text
        self.markdown.clear()
        self._flush()

    def set_last(self, is_last: bool) -> None:
        """Only the last answer can be generated again."""
        self._regenerate.setVisible(is_last)

    def set_theme(self, colors: Colors) -> None:
        """Draw everything in other colours."""
        self._copy.setIcon(icon("copy", colors.muted))
        self._regenerate.setIcon(icon("regenerate", colors.muted))
        self.markdown.set_theme(colors)

    def copy(self) -> None:
        """Put the answer on the clipboard, as the Markdown it was written in."""
        QGuiApplication.clipboard().setText(self._message.text)

    def _flush(self) -> None:
        text, self._waiting = self._waiting, ""
        if text:
            self.markdown.append(text)
        self.text.setVisible(bool(self.markdown.text))
        self._actions.setVisible(self._message.ending.is_final)
        self.figures.show_message(self._message)
