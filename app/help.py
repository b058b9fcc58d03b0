"""The two small windows of the Help menu."""

from html import escape

from PySide6.QtWidgets import QMessageBox, QWidget

from app.theme import application_icon
from app.translation import tr
from app.wording import mark

_ABOUT = mark("""
<h3>Coppice {version}</h3>
<p>Chat with a language model that is bigger than your GPU: a small draft model grows a tree of guesses,
one pass of the target model checks them all, and you watch it happen.</p>
<p>To coppice a tree is to cut it back to the stump so that it regrows.
Every round does that to the tree of guesses.</p>
<p>Free software under the Apache License 2.0.</p>
""")


def about_box(version: str, parent: QWidget) -> QMessageBox:
    """What this is."""
    return _box(tr("About Coppice"), tr(_ABOUT).format(version=escape(version)), parent)


def shortcuts_box(shortcuts: tuple[tuple[str, str], ...], parent: QWidget) -> QMessageBox:
    """Every shortcut there is."""
    rows = ((tr("Send"), tr("Enter")), (tr("New line"), tr("Shift+Enter")), *shortcuts)
    cells = "".join(
        f"<tr><td>{escape(name)}</td><td width=30></td><td><b>{escape(keys)}</b></td></tr>" for name, keys in rows
    )
    title = tr("Keyboard shortcuts")
    return _box(title, f"<h3>{escape(title)}</h3><table cellpadding=3>{cells}</table>", parent)


def _box(title: str, text: str, parent: QWidget) -> QMessageBox:
    box = QMessageBox(parent)
    box.setWindowTitle(title)
    box.setText(text)
    box.setIconPixmap(application_icon().pixmap(64, 64))
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    return box
