"""The small dialogs of the window: about, keyboard shortcuts, and the report of a crash."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFrame,
    QMessageBox,
    QVBoxLayout,
    QWidget,
)

from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.text_dialog import TextDialog
from app.ui.theme import application_icon
from app.ui.widgets import SealedBrowser, fit_screen

_SHORTCUTS_SIZE, _SHORTCUTS_LETTERS = QSize(460, 620), 58
_WHOLE = "style='white-space: nowrap'"

_ABOUT = mark("""
<h3>Coppice {version}</h3>
<p>Chat with a language model that is bigger than your GPU: a small draft model grows a tree of guesses,
one pass of the target model checks them all, and you watch it happen.</p>
<p>To coppice a tree is to cut it back to the stump so that it regrows.
Every round does that to the tree of guesses.</p>
<p>Free software under the Apache License 2.0.</p>
""")
_PARAGRAPH = re.compile(r"<(?:h3|p)>(.*?)</", re.DOTALL)


def about_box(version: str, parent: QWidget) -> QMessageBox:
    """What this is."""
    paragraphs = [" ".join(each.split()) for each in _PARAGRAPH.findall(tr(_ABOUT).format(version=version))]
    return _box(tr("About Coppice"), paragraphs, parent)


class ShortcutsDialog(QDialog):
    """Every shortcut there is; they are so many that they are scrolled through."""

    def __init__(
        self,
        shortcuts: Sequence[tuple[str, str]],
        parent: QWidget,
        sends_with_ctrl: bool = False,
        in_tree: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> None:
        """`sends_with_ctrl`: as of the field for questions; `in_tree`: keys that hold while the tree has the focus."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        send, new_line = (tr("Ctrl+Enter"), tr("Enter")) if sends_with_ctrl else (tr("Enter"), tr("Shift+Enter"))
        rows = ((tr("Send"), send), (tr("New line"), new_line), *shortcuts)
        rows += tuple((tr("In the tree: {what}").format(what=tr(what)), _shown(keys)) for what, keys in in_tree)
        cells = "".join(
            f"<tr><td>{escape(name)}</td><td {_WHOLE}><b>{escape(keys)}</b></td></tr>" for name, keys in rows
        )
        self.list = SealedBrowser(self)
        self.list.setAccessibleName(self.windowTitle())
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHtml(f"<table cellpadding=4 width='100%'>{cells}</table>")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.addWidget(self.list)
        column.addWidget(buttons)
        wide = self.list.fontMetrics().averageCharWidth() * _SHORTCUTS_LETTERS
        fit_screen(self, _SHORTCUTS_SIZE.expandedTo(QSize(wide, 0)))


def _shown(keys: Sequence[str]) -> str:
    return "  ".join(QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for key in keys)


def _box(title: str, paragraphs: Sequence[str], parent: QWidget) -> QMessageBox:
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setWindowTitle(title)
    box.setText(paragraphs[0])
    box.setInformativeText("\n\n".join(paragraphs[1:]))
    box.setIconPixmap(application_icon().pixmap(64, 64))
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    return box


class ReportDialog(TextDialog):
    """Shows a report; its buttons copy it and open its folder."""

    def __init__(self, report: Path, parent: QWidget | None = None) -> None:
        self._report = report
        try:
            text = report.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            text = tr("It cannot be read: {reason}").format(reason=reason_text(error))
        words = tr("Nothing of this is sent anywhere. It holds no chats and no tokens; it helps whoever looks into it.")
        super().__init__(tr("Crash report"), text, parent, words)
        self.folder = self.buttons.addButton(tr("Open folder"), QDialogButtonBox.ButtonRole.ActionRole)
        self.folder.clicked.connect(self._on_folder)

    def _on_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._report.parent)))
