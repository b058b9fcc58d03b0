"""Places on this computer, shown with a button that opens them."""

from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QWidget

from app.i18n.translation import tr
from app.ui.widgets import label


class PlaceRow(QWidget):
    """The name of a place, what lies there, its path, and a way to go there."""

    def __init__(self, title: str, about: str, path: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.path = path
        name = QLabel(title, self)
        name.setObjectName("option-title")
        words = label("quiet-text", about, self)
        self.shown = label("", str(path), self)
        self.shown.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.shown.setAccessibleName(title)
        self.open = QPushButton(tr("Open folder"), self)
        self.open.setAccessibleName(tr("Open folder: {place}").format(place=title))
        self.open.clicked.connect(self._on_open)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(0, 1)
        grid.addWidget(name, 0, 0)
        grid.addWidget(words, 1, 0)
        grid.addWidget(self.shown, 2, 0)
        grid.addWidget(self.open, 0, 1, 3, 1, Qt.AlignmentFlag.AlignTop)

    def _on_open(self) -> None:
        """The nearest folder that is there: some are made only when they are needed."""
        there = next((each for each in (self.path, *self.path.parents) if each.is_dir()), self.path)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(there)))
