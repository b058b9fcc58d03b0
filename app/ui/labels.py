"""Labels by the names under which the style sheet knows them."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget


def label(name: str, text: str, parent: QWidget) -> QLabel:
    """A label that wraps and shows its text as it is; `name` is one of the style sheet's."""
    made = QLabel(text, parent)
    made.setObjectName(name)
    made.setTextFormat(Qt.TextFormat.PlainText)
    made.setWordWrap(True)
    return made
