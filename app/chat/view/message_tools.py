"""What can be done with a message in its place: another wording, and its other versions."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from app.chat.composer.attachment_tray import AttachmentTray, Hindrance
from app.chat.composer.fields import files_of
from app.chat.composer.pictures import file_kinds, has_picture, picture_in
from app.chat.history.message import Attachment, Version
from app.chat.typesetting.layout_cost import is_writable
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.file_dialogs import ask_for_files
from app.ui.theme import Colors, icon, reading_font
from app.ui.widgets import claims_escape, label, offer, quiet_tool, say_beside, submits

WAITS = mark("An answer is under way: wait for its end, or stop it.")

_LEAST_LINES, _MOST_LINES = 2, 16
_ARROW_SIZE = 22


class EditorField(QPlainTextEdit):
    """A field that takes no text that would make it slow. With `leaves_enter` Enter alone is its parent's."""

    leaves_enter = False
    takes_files = False
    files_given = Signal(list)  # of Path: dropped, or pasted
    picture_given = Signal(object)  # the same of a picture: bytes or a QImage

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802
        """Files and pictures where they are taken; the names of files are no text."""
        is_attached = files_of(source) or has_picture(source)
        return self.takes_files if is_attached else super().canInsertFromMimeData(source)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Every key writes, but for one that accepts."""
        if self.leaves_enter and submits(event, with_ctrl=False):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:  # noqa: N802
        """What is too long is refused, and it is said."""
        if files := files_of(source):
            self.files_given.emit(files)
        elif (picture := picture_in(source)) is not None:
            self.picture_given.emit(picture)
        elif is_writable(self.textCursor().block().text() + source.text(), self.blockCount()):
            super().insertFromMimeData(source)
        else:
            words = tr("This text is too long to be pasted here. It can be attached as a file.")
            QToolTip.showText(self.mapToGlobal(self.cursorRect().bottomLeft()), tip(words), self)


class MessageEditor(QWidget):
    """A text field with two buttons; Ctrl+Enter accepts, and so does Enter if it is to; Escape gives up."""

    accepted = Signal(str)
    cancelled = Signal()

    def __init__(
        self,
        text: str,
        accept_words: str,
        zoom: int = 100,
        parent: QWidget | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> None:
        """`accept_words`: what accepting does, such as "Send"; `zoom`: of the chat, in percent."""
        super().__init__(parent)
        self.setObjectName("message-editor")
        self.field = EditorField(text, self)
        font = reading_font()
        font.setPointSizeF(font.pointSizeF() * zoom / 100)
        self.field.setFont(font)
        self.field.setAccessibleName(tr("Edit message"))
        self.field.setTabChangesFocus(True)
        self.tray = AttachmentTray(self)
        self.tray.show_attachments(attachments)
        self.tray.changed.connect(self._show_whether_it_can_be_accepted)
        self.field.files_given.connect(self.tray.add_files)
        self.field.picture_given.connect(self.tray.add_picture)
        self._is_answering = False
        self._accept_words = accept_words
        self.keys = label("quiet-text", "", self)
        self.accept = QPushButton(accept_words, self)
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setToolTip(tr("Leave the message as it is (Esc)"))
        self.attach_tool = quiet_tool(self, tr("Attach files or pictures"), self._choose_files)
        self.attach_tool.hide()
        buttons = QHBoxLayout()
        buttons.addWidget(self.attach_tool)
        buttons.addWidget(self.keys, 1)
        buttons.addWidget(self.cancel)
        buttons.addWidget(self.accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.tray)
        column.addWidget(Hindrance(self.tray, self))
        column.addWidget(self.field)
        column.addLayout(buttons)
        self.accept.clicked.connect(self._on_accept)
        self.cancel.clicked.connect(self.cancelled)
        self.field.textChanged.connect(self._fit)
        self.accept_with_enter(False)
        self._fit()
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.setFocusProxy(self.field)

    def take_files(self, colors: Colors) -> None:
        """Let files be attached, by a button in these colours, too."""
        self.field.takes_files = True
        self.attach_tool.setIcon(icon("attach", colors.muted))
        self.attach_tool.show()

    def accept_with_enter(self, accepts: bool) -> None:
        """Have Enter accept, and say so; else it begins a new line."""
        self.field.leaves_enter = accepts
        accepting, new_line = (tr("Enter"), tr("Shift+Enter")) if accepts else (tr("Ctrl+Enter"), tr("Enter"))
        writing = tr("{key}: new line").format(key=new_line)
        self.keys.setText(f"{accepting}: {self._accept_words}  ·  {writing}")
        self._accept_tip = f"{self._accept_words} ({accepting})"
        self._show_whether_it_can_be_accepted()

    def replace_text(self, text: str) -> None:
        """Go on with these words; undoing brings back those of before."""
        cursor = self.field.textCursor()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self.field.moveCursor(QTextCursor.MoveOperation.End)

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, what is written here stays, and waits."""
        self._is_answering = answering
        self._show_whether_it_can_be_accepted()

    def event(self, event: QEvent) -> bool:
        """Escape leaves the field, and stops no answer."""
        return claims_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """The keys that the field leaves to its parent: those that do not write."""
        if event.key() == Qt.Key.Key_Escape:
            self.cancelled.emit()
        elif submits(event, with_ctrl=True) or (self.field.hasFocus() and submits(event, with_ctrl=False)):
            self._on_accept()
        else:
            super().keyPressEvent(event)

    def _choose_files(self) -> None:
        self.tray.add_files(ask_for_files(self.window(), tr("Attach files or pictures"), file_kinds()))

    def _on_accept(self) -> None:
        if self.accept.isEnabled():
            self.accepted.emit(self.field.toPlainText())

    def _fit(self) -> None:
        """As high as its text, within reason."""
        lines = min(max(self.field.document().blockCount(), _LEAST_LINES), _MOST_LINES)
        self.field.setFixedHeight(lines * self.field.fontMetrics().lineSpacing() + 32)
        self._show_whether_it_can_be_accepted()

    def _show_whether_it_can_be_accepted(self) -> None:
        has_words = bool(self.field.toPlainText().strip() or self.tray.attachments)
        is_whole = has_words and not self.tray.is_reading and not self.tray.hindrance
        self.accept.setEnabled(is_whole and not self._is_answering)
        self.accept.setToolTip(tip(tr(WAITS) if self._is_answering else self.tray.hindrance or self._accept_tip))


def can_be_edited(text: str, tool: QToolButton) -> bool:
    """Whether a message is short enough to be edited; if not, its tool says so."""
    writable = is_writable(text)
    if not writable:
        words = tr("This message is too long to be edited here. It can be copied.")
        say_beside(tool, words)
    return writable


@dataclass(frozen=True, slots=True)
class _VersionParts:
    earlier: QToolButton
    text: QLabel
    later: QToolButton


class VersionSwitch(QWidget):
    """Two arrows around "2/3"; hidden while there is one version, and empty until there was a second one.

    Few messages have another version, and every widget costs time when the theme changes.
    """

    chosen = Signal(int)  # index of the version to show

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._version = Version(0, 1)
        self._is_answering = False
        self._colors: Colors | None = None
        self._parts: _VersionParts | None = None
        self.hide()

    @property
    def text(self) -> str:
        """As it is read; empty while there is one version."""
        return self._parts.text.text() if self._parts is not None else ""

    @property
    def earlier(self) -> QToolButton:
        """Leads to the version before."""
        return self._made.earlier

    @property
    def later(self) -> QToolButton:
        """Leads to the next version."""
        return self._made.later

    def show_version(self, version: Version) -> None:
        """Show where one is."""
        self._version = version
        if version.count > 1:
            parts = self._made
            parts.text.setText(f"{version.index + 1}/{version.count}")
            parts.text.setAccessibleName(
                tr("Version {value} of {count}").format(value=version.index + 1, count=version.count)
            )
            self._offer_arrows(parts)
        self.setVisible(version.count > 1)

    def set_answering(self, answering: bool) -> None:
        """While an answer is under way, no other version can be shown."""
        self._is_answering = answering
        if self._parts is not None:
            self._offer_arrows(self._parts)

    def set_theme(self, colors: Colors) -> None:
        """Draw the arrows in other colours."""
        self._colors = colors
        if self._parts is not None:
            self._parts.earlier.setIcon(icon("left", colors.muted))
            self._parts.later.setIcon(icon("right", colors.muted))

    @property
    def _made(self) -> _VersionParts:
        if self._parts is None:
            text = label("quiet-text", "", self)
            text.setWordWrap(False)
            earlier, later = self._arrow(tr("Earlier version"), -1), self._arrow(tr("Later version"), 1)
            row = QHBoxLayout(self)
            row.setContentsMargins(0, 0, 0, 0)
            row.setSpacing(0)
            for part in (earlier, text, later):
                row.addWidget(part)
            self._parts = _VersionParts(earlier, text, later)
            if self._colors is not None:
                self.set_theme(self._colors)
        return self._parts

    def _offer_arrows(self, parts: _VersionParts) -> None:
        index, waits = self._version.index, tr(WAITS) if self._is_answering else ""
        offer(parts.earlier, tr("Earlier version"), waits or ("" if index > 0 else tr("This is the first version.")))
        is_last = index == self._version.count - 1
        offer(parts.later, tr("Later version"), waits or (tr("This is the last version.") if is_last else ""))

    def _arrow(self, name: str, step: int) -> QToolButton:
        arrow = quiet_tool(self, name, lambda: self.chosen.emit(self._version.index + step))
        arrow.setFixedSize(_ARROW_SIZE, _ARROW_SIZE)
        return arrow
