"""Another wording of a message, written in its place."""

from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QToolButton, QToolTip, QVBoxLayout, QWidget

from app.chat.typesetting.layout_cost import is_writable
from app.i18n.translation import tr
from app.system.plain_text import tip

_LEAST_LINES, _MOST_LINES = 2, 16


class EditorField(QPlainTextEdit):
    """A field that takes no text that would make it slow."""

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """What is too long is refused, and it is said."""
        if is_writable(self.textCursor().block().text() + source.text(), self.blockCount()):
            super().insertFromMimeData(source)
        else:
            words = tr("This text is too long to be pasted here. It can be attached as a file.")
            QToolTip.showText(self.mapToGlobal(self.cursorRect().bottomLeft()), tip(words), self)


class MessageEditor(QWidget):
    """A text field with two buttons; Ctrl+Return accepts, Escape gives up."""

    accepted = Signal(str)
    cancelled = Signal()

    def __init__(self, text: str, accept_words: str, parent: QWidget | None = None) -> None:
        """`accept_words`: what accepting does, such as "Send"."""
        super().__init__(parent)
        self.setObjectName("message-editor")
        self.field = EditorField(text, self)
        self.field.setAccessibleName(tr("Edit message"))
        self.field.setTabChangesFocus(True)
        self.accept = QPushButton(accept_words, self)
        self.accept.setToolTip(tip(tr("{accept_words} (Ctrl+Return)").format(accept_words=accept_words)))
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setToolTip(tr("Leave the message as it is (Esc)"))
        buttons = QHBoxLayout()
        buttons.addStretch(1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.field)
        column.addLayout(buttons)
        self.accept.clicked.connect(self._on_accept)
        self.cancel.clicked.connect(self.cancelled)
        self.field.textChanged.connect(self._fit)
        self._fit()
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.setFocusProxy(self.field)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The two keys; the field leaves them to its parent."""
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and event.modifiers() & (
            Qt.KeyboardModifier.ControlModifier
        ):
            self._on_accept()
        else:
            super().keyPressEvent(event)

    def _on_accept(self) -> None:
        if self.field.toPlainText().strip():
            self.accepted.emit(self.field.toPlainText())

    def _fit(self) -> None:
        """As high as its text, within reason."""
        lines = min(max(self.field.document().blockCount(), _LEAST_LINES), _MOST_LINES)
        self.field.setFixedHeight(lines * self.field.fontMetrics().lineSpacing() + 32)
        self.accept.setEnabled(bool(self.field.toPlainText().strip()))


def can_be_edited(text: str, tool: QToolButton) -> bool:
    """Whether somebody could write on in a message; if not, the tool that was to begin it says so."""
    writable = is_writable(text)
    if not writable:
        words = tr("This message is too long to be edited here. It can be copied.")
        QToolTip.showText(tool.mapToGlobal(tool.rect().bottomLeft()), tip(words), tool)
    return writable
