"""The line between what the model no longer reads and what it does."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip

WORDS = mark("Earlier turns are no longer read")
SUMMARISED = mark("Of earlier turns a summary is read")


class ContextDivider(QWidget):
    """Stands above the first turn that is read, with the summary that is read before it, if there is one."""

    def __init__(self, summary: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        said = tr(SUMMARISED) if summary else tr(WORDS)
        self.setAccessibleName(said)
        self.setAccessibleDescription(summary)
        self.setToolTip(
            tip(summary or tr("The context is full: to make room for an answer, the model begins to read here.")),
        )
        words = QLabel(said, self)
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
