"""A question as it is shown: a bubble on the right, as wide as its text and no wider than most of the column."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.chat.attachments.attachment import Attachment
from app.chat.attachments.tray import shortened
from app.chat.context.divider import ContextDivider
from app.chat.conversation import Message, Version
from app.chat.look import Look
from app.chat.message_editor import MessageEditor
from app.chat.message_text import MessageText
from app.chat.tool import quiet_tool
from app.chat.version_switch import VersionSwitch
from app.labels import label
from app.plain_text import tip
from app.theme import icon
from app.translation import tr

_SHARE_OF_WIDTH = 0.8
_PADDING = 14


class QuestionView(QWidget):
    """The bubble of one question; the text is shown exactly as it was typed."""

    edited = Signal(object, str)  # id (a number too long for a C int), the other wording
    version_chosen = Signal(object, int)  # id, index

    def __init__(self, message: Message, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self.setAccessibleName(tr("Question"))
        self._bubble = QFrame(self)
        self._bubble.setObjectName("bubble")
        self.text = MessageText(self._bubble)
        self.text.setAccessibleName(tr("Question text"))
        self.text.setPlainText(message.text)
        self.text.setVisible(bool(message.text))
        self.files = label("quiet-text", "\n".join(_describe(each) for each in message.attachments), self._bubble)
        self.files.setAccessibleName(tr("Attached files"))
        self.files.setToolTip(tip("\n".join(each.note for each in message.attachments if each.note)))
        self.files.setVisible(bool(message.attachments))
        self.divider: ContextDivider | None = None
        self.versions = VersionSwitch(self)
        self.copy_tool = quiet_tool(self, tr("Copy question"), self.copy)
        self.edit_tool = quiet_tool(self, tr("Edit question"), self.edit)
        self.editor: MessageEditor | None = None
        self._lay_out()
        self.versions.chosen.connect(lambda index: self.version_chosen.emit(message.id, index))
        self.set_look(look)

    def _lay_out(self) -> None:
        inside = QVBoxLayout(self._bubble)
        inside.setContentsMargins(_PADDING, 9, _PADDING, 9)
        inside.addWidget(self.files)
        inside.addWidget(self.text)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self._bubble)
        tools = QHBoxLayout()
        tools.setSpacing(2)
        tools.addStretch(1)
        for tool in (self.versions, self.copy_tool, self.edit_tool):
            tools.addWidget(tool)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addLayout(row)
        self._column.addLayout(tools)

    @property
    def texts(self) -> list[MessageText]:
        """The parts of the text that are shown: all in one."""
        return [self.text]

    @property
    def selection(self) -> str:
        """What is selected, as it is copied."""
        return self.text.selection

    def copy(self) -> None:
        """Put the question on the clipboard."""
        QGuiApplication.clipboard().setText(self.message.text)

    def edit(self) -> None:
        """Write another wording in the bubble's place."""
        if self.editor is None:
            self.editor = MessageEditor(self.message.text, tr("Send"), self)
            self.editor.accepted.connect(lambda text: self.edited.emit(self.message.id, text))
            self.editor.accepted.connect(self._end_edit)
            self.editor.cancelled.connect(self._end_edit)
            self._column.insertWidget(0, self.editor)
            self._bubble.hide()
        self.editor.setFocus()

    def show_version(self, version: Version) -> None:
        """Show which wording this is."""
        self.versions.show_version(version)

    def show_divider(self, is_first: bool, summary: str = "") -> None:
        """Say above it that the model reads from this question on, and `summary` before it, or no longer."""
        if self.divider is not None:
            self.divider.hide()
            self.divider.deleteLater()
            self.divider = None
        if is_first:
            self.divider = ContextDivider(summary, self)
            self._column.insertWidget(0, self.divider)

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, nothing before it can be changed."""
        self.edit_tool.setEnabled(not answering)
        self.versions.setEnabled(not answering)

    def set_look(self, look: Look) -> None:
        """Show the text in its size and the tools in their colours."""
        colors = look.colors
        self.text.set_zoom(look.zoom)
        self._fit_bubble(self.width())
        self.copy_tool.setIcon(icon("copy", colors.muted))
        self.edit_tool.setIcon(icon("edit", colors.muted))
        self.versions.set_theme(colors)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Give the bubble the width of its longest line, if there is room."""
        super().resizeEvent(event)
        self._fit_bubble(event.size().width())

    def _fit_bubble(self, width: int) -> None:
        document = self.text.document().clone()
        document.setTextWidth(-1)
        named = max((self.fontMetrics().horizontalAdvance(line) for line in self.files.text().split("\n")), default=0)
        wanted = max(int(document.idealWidth()), named) + 2 * _PADDING + 2
        self._bubble.setFixedWidth(min(wanted, int(width * _SHARE_OF_WIDTH)))

    def _end_edit(self) -> None:
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._bubble.show()


def _describe(attachment: Attachment) -> str:
    note = f" ({attachment.note})" if attachment.note else ""
    return f"📎 {shortened(attachment.name)}{note}"
