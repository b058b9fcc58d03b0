"""Dialogs that ask for files; they begin in the folder that was used last.

A program that was started from a menu or by a double click works in a folder that means nothing to a person. The
folder used last is a property of the application's object, as all windows share it; it is kept in the settings.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QStandardPaths
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.i18n.translation import tr
from app.system.paths import is_folder
from app.system.plain_text import unsteered

_PROPERTY = "coppice_files_folder"


def remember_folder(folder: str) -> None:
    """Begin there the next time."""
    if (application := QCoreApplication.instance()) is not None:
        application.setProperty(_PROPERTY, folder)


def last_folder() -> str:
    """The folder that was used last, empty if none was."""
    application = QCoreApplication.instance()
    return str(application.property(_PROPERTY) or "") if application is not None else ""


def first_folder() -> str:
    """The folder that a dialog begins in: the one used last, else the person's documents."""
    documents = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    folders = (each for each in (last_folder(), documents) if each and is_folder(Path(each)))
    return next(folders, str(Path.home()))


def ask_for_file(parent: QWidget, title: str, kinds: str) -> Path | None:
    """A file to open; None if none was chosen."""
    name, _ = QFileDialog.getOpenFileName(parent, title, first_folder(), kinds)
    if not name:
        return None
    remember_folder(str(Path(name).parent))
    return Path(name)


def ask_for_files(parent: QWidget, title: str, kinds: str = "") -> list[Path]:
    """Files to open; none if none was chosen."""
    names, _ = QFileDialog.getOpenFileNames(parent, title, first_folder(), kinds)
    if names:
        remember_folder(str(Path(names[0]).parent))
    return [Path(name) for name in names]


def ask_for_folder(parent: QWidget, title: str, start: str = "") -> str:
    """A folder; empty if none was chosen. `start`: where it begins, if not in the one used last."""
    return QFileDialog.getExistingDirectory(parent, title, start or first_folder())


def ask_where(parent: QWidget, title: str, name: str, kinds: Mapping[str, str]) -> Path | None:
    """The place that a person chose, with a suffix; None if they did not.

    `kinds`: the filters of the dialog, each with the suffix that a name without one gets. The dialog asks before a file
    is replaced, but it knows the name only as it was typed: where the suffix makes it another file, it is asked here.
    What follows the dot of a version or a date is no suffix.
    """
    typed, kind = QFileDialog.getSaveFileName(parent, title, str(Path(first_folder(), name)), ";;".join(kinds))
    if not typed:
        return None
    path = Path(typed)
    remember_folder(str(path.parent))
    if path.suffix.lower() in kinds.values() or _SUFFIX.fullmatch(path.suffix):
        return path
    path = path.with_name(path.name + kinds.get(kind, next(iter(kinds.values()))))
    return path if not path.exists() or _may_replace(parent, title, path) else None


_SUFFIX = re.compile(r"\.[A-Za-z]{2,8}")  # of whatever kind; one that cannot be written is refused by who writes it


def _may_replace(parent: QWidget, title: str, path: Path) -> bool:
    words = tr("{name} is there already. Do you want to replace it?").format(name=path.name)
    return (
        QMessageBox.warning(
            parent,
            title,
            unsteered(words),
            QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.Cancel,
            QMessageBox.StandardButton.Cancel,
        )
        == QMessageBox.StandardButton.Yes
    )
