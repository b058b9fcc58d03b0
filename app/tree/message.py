"""The words that stand where a tree would; shown before the panel is made, too, so nothing heavy is imported here."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from app.i18n.wording import mark

EMPTY = mark("The speculation tree appears here while an answer is written.")


def message_label(words: str, parent: QWidget | None = None) -> QLabel:
    """In the middle of the place that the tree has."""
    label = QLabel(words, parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    label.setMargin(24)
    return label
