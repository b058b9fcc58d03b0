"""A choice of where a model comes from: the embedded demo, a folder, or the local hub cache."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

FOLDER = "folder"
HUB = "hub"

_PLACEHOLDERS = {
    FOLDER: "A folder with config.json and safetensors files",
    HUB: "Such as Qwen/Qwen3-0.6B; it must be in the local hub cache",
}


class SourceField(QWidget):
    """Edits one SOURCE of the command line. `fixed` are choices that need no further words, as (title, source)."""

    edited = Signal()

    def __init__(self, title: str, fixed: tuple[tuple[str, str], ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self.kind = QComboBox(self)
        self.kind.setAccessibleName(f"{title}: where it comes from")
        for name, source in (*fixed, ("Folder", FOLDER), ("Local hub cache", HUB)):
            self.kind.addItem(name, source)
        self.place = QLineEdit(self)
        self.place.setAccessibleName(f"{title}: folder or hub id")
        self.browse = QPushButton("Browse…", self)
        self.browse.setAccessibleName(f"{title}: browse for a folder")
        row = QHBoxLayout()
        row.addWidget(self.place, 1)
        row.addWidget(self.browse)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.kind)
        column.addLayout(row)
        self.kind.currentIndexChanged.connect(self._on_kind_changed)
        self.place.textChanged.connect(self.edited)
        self.browse.clicked.connect(self._on_browse)
        self._on_kind_changed()

    @property
    def source(self) -> str:
        """The choice as a SOURCE; empty while a folder or an id is missing."""
        kind = str(self.kind.currentData())
        return self.place.text().strip() if kind in (FOLDER, HUB) else kind

    def show_source(self, source: str) -> None:
        """Show a SOURCE; what is not one of the fixed choices is a path or an id."""
        index = self.kind.findData(source)
        if index < 0:
            index = self.kind.findData(HUB if _looks_like_hub_id(source) else FOLDER)
            self.place.setText(source)
        self.kind.setCurrentIndex(index)

    def _on_kind_changed(self) -> None:
        kind = self.kind.currentData()
        self.place.setVisible(kind in (FOLDER, HUB))
        self.place.setPlaceholderText(_PLACEHOLDERS.get(kind, ""))
        self.browse.setVisible(kind == FOLDER)
        self.edited.emit()

    def _on_browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, f"{self._title}: folder", self.place.text())
        if folder:
            self.place.setText(folder)


def _looks_like_hub_id(source: str) -> bool:
    return source.count("/") <= 1 and "\\" not in source and not source.startswith((".", "/", "~"))
