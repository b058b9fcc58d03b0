"""A page of Preferences: a row for each option on it, read from the settings, checked, and given back."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.preferences.editors import (
    ChoiceEditor,
    DecimalEditor,
    Editor,
    FolderEditor,
    FoldersEditor,
    NameEditor,
    SwitchEditor,
    TextEditor,
    WholeEditor,
)
from app.settings.kinds import Choice, Decimal, Folder, Folders, Name, Option, Switch, Text, Whole
from app.settings.store import Settings, options
from app.system.paths import expanded, is_file
from app.ui.widgets import label, page_body

_RECORD = "generation"


def options_on(page: str) -> dict[str, Option]:
    """The options that stand on a page, by name, in the order in which they were declared."""
    return {name: each for name, each in options().items() if each.page == page}


def value_of(settings: Settings, name: str) -> Any:
    """The value of an option."""
    record, _, field = name.rpartition(".")
    return getattr(getattr(settings, record) if record else settings, field)


def default_of(name: str) -> Any:
    """The value of an option that nobody has touched."""
    return value_of(Settings(), name)


def changes(settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Settings` that become others when the options get these values."""
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    outer = {name: value for name, value in values.items() if "." not in name}
    return outer | ({_RECORD: replace(settings.generation, **inner)} if inner else {})


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
        case Folder() if value and is_file(expanded(value)):
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


class OptionsPage(QScrollArea):
    """`edited` follows every change by a person. What is more than an option is added by `add`.

    Its rows are made when they are first asked for: those of all pages are hundreds of widgets, which would be styled
    whenever the theme changes.
    """

    edited = Signal()

    def __init__(self, page: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.title = page, title
        self._options = options_on(page)
        self._settings = Settings()
        self._others: list[tuple[QWidget, str]] = []
        self._body = page_body(self)
        self.defaults = QPushButton(tr("Restore defaults"), self._body)
        self.defaults.setAccessibleName(tr("Restore the defaults of this page: {page}").format(page=title))
        self._options_column = QVBoxLayout()
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(26, 20, 26, 20)
        self._column.addWidget(label("page-title", title, self._body))
        self._column.addLayout(self._options_column)
        self._column.addStretch(1)
        self._column.addWidget(self.defaults, 0, Qt.AlignmentFlag.AlignLeading)
        for column in (self._column, self._options_column):
            column.setSpacing(20)
        self.defaults.setVisible(bool(self._options))
        self.defaults.clicked.connect(self.restore_defaults)

    @cached_property
    def rows(self) -> Mapping[str, OptionRow]:
        """A row for each option, by the option's name."""
        made = {name: OptionRow(option, self._body) for name, option in self._options.items()}
        for name, row in made.items():
            self._options_column.addWidget(row)
            row.load(self._settings, value_of(self._settings, name))
            row.edited.connect(self.edited)
        return made

    @property
    def names(self) -> Collection[str]:
        """The names of its options."""
        return self._options.keys()

    @property
    def _made_rows(self) -> Mapping[str, OptionRow]:
        """None of a page that nobody has seen: its options are as they were."""
        return self.rows if "rows" in vars(self) else {}

    def make(self) -> None:
        """Make the rows, if they are not there: the page will be shown."""
        _ = self.rows

    def add(self, widget: QWidget, words: str) -> None:
        """Put something below the options; `words` are what the search finds it by."""
        self._others.append((widget, words.casefold()))
        self._column.insertWidget(self._column.count() - 2, widget)

    def load(self, settings: Settings) -> None:
        """Show what holds."""
        self._settings = settings
        for name, row in self._made_rows.items():
            row.load(settings, value_of(settings, name))

    def check(self) -> bool:
        """Whether everything on the page can be used; what cannot says so beside its field."""
        wrong = [row for row in self._made_rows.values() if not row.check()]
        return not wrong

    def save(self) -> dict[str, Any]:
        """The values that are others now, by the names of their options."""
        values = {name: row.editor.value() for name, row in self._made_rows.items()}
        return {name: value for name, value in values.items() if value != value_of(self._settings, name)}

    def restore_defaults(self) -> None:
        """Show the defaults; they hold when they are applied."""
        for name, row in self.rows.items():
            row.editor.show_value(default_of(name))

    def search(self, words: str) -> int:
        """Show only what has all these words in its name or its help; returns how much that is."""
        wanted = words.casefold().split()
        everything = [(row, row.words) for row in self.rows.values()] + self._others
        title = self.title.casefold()
        found = [(widget, all(each in f"{title} {text}" for each in wanted)) for widget, text in everything]
        for widget, fits in found:
            widget.setVisible(fits)
        self.defaults.setVisible(bool(self._options) and not wanted)
        return sum(fits for _, fits in found)

    def show_row(self, name: str) -> None:
        """Go to an option of this page."""
        self.ensureWidgetVisible(self.rows[name])
        self.rows[name].editor.field.setFocus()

    def show_first_error(self) -> None:
        """Go to the first field that says that something is wrong."""
        for row in self.rows.values():
            if not row.error.isHidden():
                self.ensureWidgetVisible(row)
                row.editor.setFocus()
                return
