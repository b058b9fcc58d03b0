"""A question as it is shown: a bubble on the right, and above it the line from which the model reads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent, QTextDocument
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from app.chat.composer.attachment_tray import AttachmentTray
from app.chat.history.message import TEXT, Message, Version
from app.chat.text.document_style import Look
from app.chat.text.message_text import MessageText
from app.chat.typesetting.layout_cost import is_long
from app.chat.view.message_tools import WAITS, MessageEditor, VersionSwitch, can_be_edited
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.theme import icon
from app.ui.widgets import copy_text, offer, quiet_tool

if TYPE_CHECKING:
    from app.chat.text.plain_text_view import PlainTextView

NOT_READ = mark("Earlier turns are no longer read")
SUMMARY_READ = mark("Of earlier turns a summary is read")
WILL_NOT_BE_READ = mark("With the next question, reading begins here")
WILL_BE_SUMMARISED = mark("With the next question, a summary is read of what stands above")

_SHARE_OF_WIDTH = 0.8
_PADDING = 14
_LEAST_PICTURE = 48  # pixels
_EDGE = 2  # pixels of the bubble's edge, with high contrast


class ContextDivider(QWidget):
    """Stands above the first turn that is read, or that will be: then its line is dashed."""

    def __init__(self, said: str, explanation: str, is_preview: bool, parent: QWidget) -> None:
        super().__init__(parent)
        self._is_preview = is_preview
        self.setAccessibleName(said)
        self.setAccessibleDescription(explanation)
        self.setToolTip(tip(explanation))
        words = QLabel(said, self)
        words.setWordWrap(True)
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        words.setObjectName("figure")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 14)
        row.setSpacing(12)
        row.addWidget(self._line(), 1)
        row.addWidget(words, 4, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._line(), 1)

    def _line(self) -> QFrame:
        line = QFrame(self)
        line.setObjectName("preview-divider" if self._is_preview else "divider")
        line.setFixedHeight(1)
        return line


class QuestionView(QWidget):
    """The bubble of one question; the text is shown exactly as it was typed."""

    edited = Signal(object, str, tuple)  # id (a number too long for a C int), the other wording, what stays attached
    edit_begun = Signal(object)  # MessageEditor
    version_chosen = Signal(object, int)  # id, index
    delete_requested = Signal(object)  # id
    text_added = Signal(object)  # MessageText: one more part of a long question is shown
    editor_opened = Signal()  # to be written in now
    refused = Signal(str)  # which file is not attached, and why

    def __init__(self, message: Message, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = message
        self.setAccessibleName(tr("Question"))
        self._bubble = QFrame(self)
        self._bubble.setObjectName("bubble")
        self._short: MessageText | None = None
        self._long: PlainTextView | None = None
        self._measured: tuple[QFont, float] | None = None  # the width of its longest line, and the font of that
        self._zoom, self._colors = look.zoom, look.colors
        self._sends_with_ctrl = False
        self._no_pictures = ""
        self._words = self._build_long(look) if is_long(message.text) else self._build_short()
        self._words.setVisible(bool(message.text))
        self.files = AttachmentTray(self._bubble, can_change=False)
        self.files.setAccessibleName(tr("Attached files"))
        self.files.show_attachments(message.attachments)
        self.divider: ContextDivider | None = None
        self.preview: ContextDivider | None = None
        self.versions = VersionSwitch(self)
        self.copy_tool = quiet_tool(self, tr("Copy question"), self.copy)
        if not message.text:  # a file alone is a question, too
            offer(self.copy_tool, tr("Copy question"), tr("This question has no text."))
        self.edit_tool = quiet_tool(self, tr("Edit question"), self.edit)
        self.delete_tool = quiet_tool(self, tr("Delete question and answer"), self._on_delete)
        self.editor: MessageEditor | None = None
        self._lay_out(self._words)
        self.versions.chosen.connect(lambda index: self.version_chosen.emit(message.id, index))
        self.set_look(look)

    def _build_short(self) -> QWidget:
        self._short = MessageText(self._bubble)
        self._short.setAccessibleName(tr("Question text"))
        self._short.setPlainText(self.message.text)
        return self._short

    def _build_long(self, look: Look) -> QWidget:
        from app.chat.text.plain_text_view import PlainTextView  # noqa: PLC0415 - all of Markdown comes with it

        self._long = PlainTextView(self.message.text, look, self._bubble)
        self._long.name(tr("Question text"))
        self._long.section_added.connect(lambda shown: self.text_added.emit(shown.text))
        return self._long

    def _lay_out(self, words: QWidget) -> None:
        inside = QVBoxLayout(self._bubble)
        inside.setContentsMargins(_PADDING, 9, _PADDING, 9)
        inside.addWidget(self.files)
        inside.addWidget(words)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self._bubble)
        tools = QHBoxLayout()
        tools.setSpacing(2)
        tools.addStretch(1)
        for tool in (self.versions, *self.tools):
            tools.addWidget(tool)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        self._column.addLayout(row)
        self._column.addLayout(tools)

    @property
    def text(self) -> MessageText:
        """The first part of the text that is shown; mostly all of it."""
        return self.texts[0]

    @property
    def tools(self) -> Sequence[QToolButton]:
        """Its buttons."""
        return self.copy_tool, self.edit_tool, self.delete_tool

    @property
    def texts(self) -> list[MessageText]:
        """The parts of the text that are shown, from top to bottom."""
        if self._long is not None:
            return self._long.texts
        assert self._short is not None, "a text is short or long"
        return [self._short]

    @property
    def parts(self) -> list[tuple[int, int, MessageText]]:
        """Every text that is shown, with the part of the message and the section that it is."""
        sections = self._long.sections if self._long is not None else [(0, self.text)]
        return [(TEXT, number, text) for number, text in sections]

    def guess_of(self, part: int, section: int) -> QRect:
        """About where a section begins that is not laid out, one pixel high."""
        del part  # there is one
        above = self._long.mapTo(self, QPoint(0, self._long.top_of(section))) if self._long is not None else QPoint()
        return QRect(above, QSize(1, 1))

    @property
    def selection(self) -> str:
        """What is selected, as it is copied."""
        return self._long.selection if self._long is not None else self.text.selection

    @property
    def is_selected(self) -> bool:
        """Whether all of the question is selected."""
        if self._long is not None:
            return self._long.selected.is_whole
        cursor = self.text.textCursor()
        return cursor.selectionEnd() - cursor.selectionStart() >= self.text.document().characterCount() - 1

    def select_all(self) -> None:
        """Select all of the question, the parts too that do not exist yet."""
        if self._long is not None:
            self._long.selected.select_all()
        else:
            self.text.selectAll()

    def clear_selection(self) -> None:
        """Select nothing of it."""
        if self._long is not None:
            self._long.selected.clear()
        else:
            self.text.clear_selection()

    def show_part(self, top: int, bottom: int) -> None:
        """Know what can be seen of this widget, in pixels; the heights can lie outside of it."""
        if self._long is not None:
            above = self._long.mapTo(self, QPoint(0, 0)).y()
            self._long.show_part(top - above, bottom - above)

    def take_shift(self) -> int:
        """By how many pixels what the reader sees of this question has moved since the last time."""
        return self._long.take_shift() if self._long is not None else 0

    def copy(self) -> None:
        """Put the question on the clipboard."""
        copy_text(self.message.text, self.copy_tool)

    def edit(self) -> None:
        """Write another wording in the bubble's place."""
        self.open_editor()
        if self.editor is not None:
            self.editor.setFocus()
            self.editor_opened.emit()

    def open_editor(self) -> None:
        """Show the field for another wording, which can be written in later."""
        if self.editor is None:
            if not can_be_edited(self.message.text, self.edit_tool):
                return
            self.editor = MessageEditor(self.message.text, tr("Send"), self._zoom, self, self.message.attachments)
            self.editor.accept_with_enter(not self._sends_with_ctrl)
            self.editor.take_files(self._colors)
            kept = self.editor.tray
            kept.refused.connect(self.refused)
            kept.set_no_pictures(self._no_pictures)
            self.editor.accepted.connect(lambda text: self.edited.emit(self.message.id, text.strip(), kept.attachments))
            self.editor.accepted.connect(self._end_edit)
            self.editor.cancelled.connect(self._end_edit)
            self.editor.cancelled.connect(self.edit_tool.setFocus)
            self._column.insertWidget(0, self.editor)
            self._bubble.hide()
            self.edit_begun.emit(self.editor)

    def set_send_key(self, with_ctrl: bool) -> None:
        """Send another wording with Ctrl+Enter, or with Enter."""
        self._sends_with_ctrl = with_ctrl
        if self.editor is not None:
            self.editor.accept_with_enter(not with_ctrl)

    def set_no_pictures(self, why: str) -> None:
        """Know why what is loaded cannot be shown pictures; empty where it can."""
        self._no_pictures = why
        if self.editor is not None:
            self.editor.tray.set_no_pictures(why)

    def show_version(self, version: Version) -> None:
        """Show which wording this is."""
        self.versions.show_version(version)

    def show_divider(self, is_first: bool, summary: str = "") -> None:
        """Say above it that the model reads from this question on, and `summary` before it, or no longer."""
        _take_away(self.divider)
        self.divider = None
        if is_first:
            words = summary or tr("The context is full: to make room for an answer, the model begins to read here.")
            self.divider = ContextDivider(tr(SUMMARY_READ if summary else NOT_READ), words, False, self)
            self._column.insertWidget(0, self.divider)

    def show_preview(self, is_first: bool, summarises: bool = False) -> None:
        """Say above it that with the next question the model will read from this one on."""
        _take_away(self.preview)
        self.preview = None
        if is_first:
            said = tr(WILL_BE_SUMMARISED if summarises else WILL_NOT_BE_READ)
            words = tr("The context is nearly full: what stands above makes room for the next answer.")
            self.preview = ContextDivider(said, words, True, self)
            self._column.insertWidget(0, self.preview)

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, nothing before it can be changed."""
        hindrance = tr(WAITS) if answering else ""
        offer(self.edit_tool, tr("Edit question"), hindrance)
        offer(self.delete_tool, tr("Delete question and answer"), hindrance)
        self.versions.set_answering(answering)
        if self.editor is not None:
            self.editor.set_answering(answering)

    def set_look(self, look: Look) -> None:
        """Show the text in its size and the tools in their colours."""
        colors = self._colors = look.colors
        self._zoom = look.zoom
        if self.editor is not None:
            self.editor.take_files(colors)
        if self._long is not None:
            self._long.set_look(look)
        else:
            self.text.set_zoom(look.zoom)
        self._fit_bubble(self.width())
        self.copy_tool.setIcon(icon("copy", colors.muted))
        self.edit_tool.setIcon(icon("edit", colors.muted))
        self.delete_tool.setIcon(icon("delete", colors.muted))
        self.versions.set_theme(colors)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Give the bubble the width of its longest line, if there is room."""
        super().resizeEvent(event)
        self._fit_bubble(event.size().width())

    def _fit_bubble(self, width: int) -> None:
        around, most = 2 * (_PADDING + _EDGE) + 2, int(width * _SHARE_OF_WIDTH)
        self.files.fit_pictures(max(_LEAST_PICTURE, most - around))
        if self._long is not None:
            self._bubble.setFixedWidth(most)
            return
        wanted = max(int(self._line_width()), self.files.sizeHint().width()) + around
        self._bubble.setFixedWidth(min(wanted, most))

    def _line_width(self) -> float:
        """How wide the longest line of the text is where none is broken, in pixels."""
        font = self.text.document().defaultFont()
        if self._measured is None or self._measured[0] != font:
            document = QTextDocument()  # not a clone, which belongs to nobody and would stay
            document.setDocumentMargin(self.text.document().documentMargin())
            document.setDefaultFont(font)
            document.setPlainText(self.message.text)
            self._measured = font, document.idealWidth()
        return self._measured[1]

    def _on_delete(self) -> None:
        self.delete_requested.emit(self.message.id)

    def _end_edit(self) -> None:
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._bubble.show()


def _take_away(divider: ContextDivider | None) -> None:
    if divider is not None:
        divider.hide()
        divider.deleteLater()
