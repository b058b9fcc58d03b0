"""One option on its page: its name, its field, what it does, and what is wrong with what was entered."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.preferences.editors import (
    ChoiceEditor,
    DecimalEditor,
    Editor,
    NameEditor,
    SwitchEditor,
    TextEditor,
    WholeEditor,
)
from app.preferences.folder_editors import FolderEditor, FoldersEditor
from app.settings.kinds import Choice, Decimal, Folder, Folders, Name, Option, Switch, Text, Whole
from app.settings.store import Settings
from app.ui.widgets import label


class OptionRow(QWidget):
    """Name and help at the beginning of the line, the field at its end; long fields stand below."""

    edited = Signal()

    def __init__(self, option: Option, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._option = option
        self.editor = _editor(option)
        title, help_ = tr(option.title), tr(option.help)
        effect = tr(option.effect.value) if option.effect.value else ""
        self.words = f"{title} {help_}".casefold()
        self.error = label("error", "", self)
        self.error.hide()
        self.editor.field.setAccessibleName(title)
        self.editor.field.setAccessibleDescription(f"{help_} {effect}".rstrip())
        self._name = QLabel(title, self)
        self._name.setObjectName("option-title")
        self._name.setBuddy(self.editor.field)
        self._lay_out(label("quiet-text", f"{help_} {effect}".rstrip(), self))
        self.editor.edited.connect(self._on_edited)

    def _lay_out(self, about: QLabel) -> None:
        is_wide = isinstance(self._option, Text | Folder | Folders)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(0, 1)
        grid.addWidget(self._name, 0, 0)
        grid.addWidget(about, 1, 0, 1, 2 if is_wide else 1)
        if is_wide:
            grid.addWidget(self.editor, 2, 0, 1, 2)
        else:
            grid.addWidget(self.editor, 0, 1, 2, 1, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignTrailing)
        grid.addWidget(self.error, 3, 0, 1, 2)

    def load(self, settings: Settings, value: Any) -> None:
        """Show a value, among what can be chosen now."""
        if isinstance(self._option, Name) and isinstance(self.editor, NameEditor):
            self.editor.offer(getattr(settings, self._option.names))
        self.editor.show_value(value)
        self.check()

    def check(self) -> bool:
        """Whether the value can be used; if not, the row says why."""
        words = refusal(self._option, self.editor.value())
        self.error.setText(words)
        self.error.setVisible(bool(words))
        return not words

    def _on_edited(self) -> None:
        """What was wrong is forgiven as soon as it is put right, not before somebody asks for it."""
        if not self.error.isHidden():
            self.check()
        self.edited.emit()


def refusal(option: Option, value: Any) -> str:
    """What is wrong with a value, in a sentence; empty where nothing is."""
    match option:
        case Folder() if value and Path(value).expanduser().is_file():
            return tr("This is a file. Give a folder.")
        case _ if option.allows(value):
            return ""
        case Text():
            return tr("This cannot be used. Give {form}.").format(form=tr(option.form))
        case Folder():
            return tr("This cannot be used. Give the folder's full path.")
        case Whole() | Decimal():
            return tr("Give a number from {smallest} to {largest}.").format(
                smallest=Number(option.smallest), largest=Number(option.largest)
            )
        case _:
            return tr("This cannot be used.")


def _editor(option: Option) -> Editor:  # noqa: PLR0911  # one line for every kind
    match option:
        case Switch():
            return SwitchEditor(option)
        case Choice():
            return ChoiceEditor(option)
        case Name():
            return NameEditor(option)
        case Whole():
            return WholeEditor(option)
        case Decimal():
            return DecimalEditor(option)
        case Text():
            return TextEditor(option)
        case Folder():
            return FolderEditor(option)
        case Folders():
            return FoldersEditor(option)
    raise AssertionError(f"nothing edits a {type(option).__name__}")
