"""Asks where a file is to be saved; the one place that does."""

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.i18n.translation import tr
from app.system.plain_text import unsteered


def ask_where(parent: QWidget, title: str, name: str, kinds: Mapping[str, str]) -> Path | None:
    """The place that a person chose, with a suffix; None if they did not.

    `kinds`: the filters of the dialog, each with the suffix that a name without one gets. The dialog asks before a file
    is replaced, but it knows the name only as it was typed: where the suffix makes it another file, it is asked here.
    """
    typed, kind = QFileDialog.getSaveFileName(parent, title, name, ";;".join(kinds))
    if not typed:
        return None
    path = Path(typed)
    if path.suffix:
        return path
    path = path.with_name(path.name + kinds.get(kind, next(iter(kinds.values()))))
    return path if not path.exists() or _may_replace(parent, title, path) else None


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
