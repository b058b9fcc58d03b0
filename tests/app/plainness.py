"""Finds what would read a text from elsewhere as HTML."""

from collections.abc import Iterator

from PySide6.QtCore import QAbstractItemModel, QModelIndex, Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QAbstractItemView, QLabel, QPlainTextEdit, QTextEdit, QWidget

from app.ui.widgets import SealedBrowser

HOSTILE = "<img src=/dev/zero>"
_ROOT = QModelIndex()


def rich_widgets(root: QWidget) -> list[str]:
    """What is below a widget, shown or not, and does not show its text as it is."""
    found = []
    for each in root.findChildren(QLabel):
        each.ensurePolished()
        if each.textFormat() is not Qt.TextFormat.PlainText:
            found.append(f"label {each.objectName()} {each.text()}")
    others = (each for each in root.findChildren(QTextEdit) if not isinstance(each, SealedBrowser))
    found += [f"text {each.objectName()}" for each in others]
    owners = (QLabel, QTextEdit, QPlainTextEdit)
    for document in root.findChildren(QTextDocument):
        owner = document.parent()
        while owner is not None and not isinstance(owner, owners):
            owner = owner.parent()
        if owner is None:
            found.append(f"document {document.toPlainText()[:40]}")
    return found


def texts(root: QWidget) -> str:
    """Everything that a person can read there: of labels, tooltips, lists and their tooltips."""
    parts = []
    for each in [root, *root.findChildren(QWidget)]:
        parts += [each.toolTip(), each.accessibleName(), each.accessibleDescription()]
        if isinstance(each, QLabel):
            parts.append(each.text())
        if isinstance(each, QTextEdit | QPlainTextEdit):
            parts.append(each.toPlainText())
        if isinstance(each, QAbstractItemView) and each.model() is not None:
            parts += _items(each.model())
    return "\n".join(parts)


def _items(model: QAbstractItemModel, parent: QModelIndex = _ROOT) -> Iterator[str]:
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            yield str(index.data(role) or "")
        yield from _items(model, index)
