"""Editors of folders: one, or a list of them."""

from collections.abc import Callable

from PySide6.QtWidgets import QFileDialog, QLineEdit, QListWidget, QPushButton, QVBoxLayout, QWidget

from app.i18n.translation import tr
from app.preferences.editors import Editor
from app.settings.kinds import Folder, Folders

_LIST_ROWS = 4

Ask = Callable[[QWidget], str]


def ask_for_folder(parent: QWidget) -> str:
    """The folder that a person chooses; empty when none."""
    return QFileDialog.getExistingDirectory(parent, tr("Choose a folder"))


class FolderEditor(Editor):
    """A path, written or chosen."""

    def __init__(self, option: Folder, ask: Ask = ask_for_folder) -> None:
        self._line = QLineEdit(placeholderText=tr(option.otherwise), clearButtonEnabled=True)
        super().__init__(self._line)
        self._ask = ask
        self.browse = QPushButton(tr("Browse…"), self)
        self.browse.setAccessibleName(tr("{option}: choose a folder").format(option=tr(option.title)))
        self._row.addWidget(self.browse)
        self._line.textChanged.connect(self.edited)
        self.browse.clicked.connect(self._on_browse)

    def value(self) -> str:
        """The path."""
        return self._line.text().strip()

    def show_value(self, value: str) -> None:
        """Show a path."""
        self._line.setText(value)

    def _on_browse(self) -> None:
        if folder := self._ask(self):
            self._line.setText(folder)


class FoldersEditor(Editor):
    """A list with what adds to it and takes from it."""

    def __init__(self, option: Folders, ask: Ask = ask_for_folder) -> None:
        self._list = QListWidget()
        super().__init__(self._list)
        self._ask = ask
        self._list.setFixedHeight(self._list.fontMetrics().height() * _LIST_ROWS + 18)
        title = tr(option.title)
        self.add = QPushButton(tr("Add…"), self)
        self.add.setAccessibleName(tr("{option}: add a folder").format(option=title))
        self.remove = QPushButton(tr("Remove"), self)
        self.remove.setAccessibleName(tr("{option}: remove the chosen folder").format(option=title))
        buttons = QVBoxLayout()
        buttons.addWidget(self.add)
        buttons.addWidget(self.remove)
        buttons.addStretch(1)
        self._row.addLayout(buttons)
        self._list.currentRowChanged.connect(lambda row: self.remove.setEnabled(row >= 0))
        self.remove.setEnabled(False)
        self.add.clicked.connect(self._on_add)
        self.remove.clicked.connect(self._on_remove)

    def value(self) -> tuple[str, ...]:
        """The paths."""
        return tuple(self._list.item(row).text() for row in range(self._list.count()))

    def show_value(self, value: tuple[str, ...]) -> None:
        """Show these paths."""
        self._list.clear()
        self._list.addItems(value)
        self.edited.emit()

    def _on_add(self) -> None:
        folder = self._ask(self)
        if folder and folder not in self.value():
            self._list.addItem(folder)
            self.edited.emit()

    def _on_remove(self) -> None:
        self._list.takeItem(self._list.currentRow())
        self.edited.emit()
