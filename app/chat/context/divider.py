"""The line between what the model no longer reads and what it does."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from app.translation import tr
from app.wording import mark

WORDS = mark("Earlier turns are no longer read")


class ContextDivider(QWidget):
    """Stands above the first turn that is read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr(WORDS))
        self.setToolTip(tr("The context is full: to make room for an answer, the model begins to read here."))
        words = QLabel(tr(WORDS), self)
        words.setObjectName("figure")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 14)
        row.setSpacing(12)
        row.addWidget(self._line(), 1)
        row.addWidget(words, 0, Qt.AlignmentFlag.AlignCenter)
        row.addWidget(self._line(), 1)

    def _line(self) -> QFrame:
        line = QFrame(self)
        line.setObjectName("divider")
        line.setFixedHeight(1)
        return line
