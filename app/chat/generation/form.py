"""The fields of the generation settings, made from their declarations, each with its range and its explanation."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QLabel, QLineEdit, QPlainTextEdit, QWidget

from app.chat.generation.formal_text import FormalTextField
from app.i18n.translation import tr
from app.settings.generation import FORM_ORDER, GenerationSettings
from app.settings.kinds import Choice, Decimal, FormalText, LongText, Option, Seed, Switch, Whole, form_of
from app.ui.widgets import WheellessDecimal, WheellessWhole
from engine.errors import InputError


@dataclass(frozen=True, slots=True)
class _Field:
    """The widget of one setting, and how its value is shown and read; `read` raises `InputError`."""

    widget: QWidget
    changed: SignalInstance
    show: Callable[[Any], None]
    read: Callable[[], Any]


class GenerationForm(QWidget):
    """Edits `GenerationSettings`. `edited` follows every change by a person, valid or not."""

    edited = Signal()
    grown = Signal(QWidget)  # this field is shown now, or what is told of it
    file_wanted = Signal(str)  # the name of the setting whose text is to be read from a file

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._declared = declared = form_of(GenerationSettings)
        self._shown = GenerationSettings()
        self._fields = {name: _FIELDS[type(declared[name])](declared[name], self) for name in FORM_ORDER}
        self._form = form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for name, field in self._fields.items():
            if isinstance(field.widget, FormalTextField):
                form.addRow(field.widget)  # as wide as the form: it has long lines
                self._connect_text(name, field.widget)
                continue
            label = QLabel(tr(declared[name].title), self)
            label.setToolTip(tr(declared[name].help))
            label.setBuddy(field.widget)
            field.widget.setToolTip(tr(declared[name].help))
            field.widget.setAccessibleName(label.text())
            form.addRow(label, field.widget)
        for field in self._fields.values():
            field.changed.connect(self._show_rows)
            field.changed.connect(self.edited)
        self._show_rows()

    def field(self, name: str) -> Any:
        """The widget of a setting."""
        return self._fields[name].widget

    def show_settings(self, settings: GenerationSettings) -> None:
        """Fill every field without emitting `edited`."""
        self._shown = settings
        self.blockSignals(True)
        for name, field in self._fields.items():
            field.show(getattr(settings, name))
        self.blockSignals(False)
        self._show_rows()

    def read(self) -> GenerationSettings:
        """The settings as they stand in the fields, and otherwise as they were shown.

        Raises `InputError` for what cannot be used.
        """
        settings = replace(self._shown, **{name: field.read() for name, field in self._fields.items()})
        settings.check()
        return settings

    def _connect_text(self, name: str, field: FormalTextField) -> None:
        field.file_wanted.connect(lambda: self.file_wanted.emit(name))
        field.judged.connect(lambda: self.grown.emit(field))

    def _show_rows(self) -> None:
        """Of the texts in formal languages only the one that is used; of what refines a setting, where that is on."""
        for name, declared in self._declared.items():
            if declared.refines:
                self._show_row(self._fields[name].widget, self._fields[declared.refines].read() > 0)
            if isinstance(declared, FormalText):
                is_used = self._fields[declared.only_with].read() == declared.meant_by
                self._show_row(self._fields[name].widget, is_used)

    def _show_row(self, widget: QWidget, is_shown: bool) -> None:
        appears = is_shown and widget.isHidden()
        self._form.setRowVisible(widget, is_shown)
        if appears:
            self.grown.emit(widget)


def _switch(declared: Switch, parent: QWidget) -> _Field:
    box = QCheckBox(tr(declared.words), parent)
    return _Field(box, box.toggled, box.setChecked, box.isChecked)


def _choice(declared: Choice, parent: QWidget) -> _Field:
    box = QComboBox(parent)
    for value, words in declared.choices:
        box.addItem(tr(words), value)
    return _Field(box, box.currentIndexChanged, lambda value: box.setCurrentIndex(box.findData(value)), box.currentData)


def _whole(declared: Whole, parent: QWidget) -> _Field:
    number = WheellessWhole(parent)
    number.setRange(declared.smallest, declared.largest)
    number.setSingleStep(declared.step)
    number.setSpecialValueText(tr(declared.smallest_means) if declared.smallest_means else "")
    return _Field(number, number.valueChanged, number.setValue, number.value)


def _decimal(declared: Decimal, parent: QWidget) -> _Field:
    number = WheellessDecimal(parent)
    number.setRange(declared.smallest, declared.largest)
    number.setSingleStep(declared.step)
    number.setDecimals(declared.decimals)
    number.setSpecialValueText(tr(declared.smallest_means) if declared.smallest_means else "")
    return _Field(number, number.valueChanged, number.setValue, lambda: round(number.value(), declared.decimals))


def _seed(declared: Seed, parent: QWidget) -> _Field:
    line = QLineEdit(parent)
    line.setPlaceholderText(tr(declared.random_means))

    def show(seed: int) -> None:
        line.setText("" if seed == declared.random else str(seed))

    def read() -> int:
        text = line.text().strip()
        if text and not text.isdecimal():
            words = tr("The seed “{text}” is not a whole number.").format(text=text)
            raise InputError(words, tr("Leave it empty for a random one."))
        return int(text) if text else declared.random

    return _Field(line, line.textChanged, show, read)


def _long_text(declared: LongText, parent: QWidget) -> _Field:
    text = QPlainTextEdit(parent)
    text.setPlaceholderText(tr(declared.empty_means))
    text.setTabChangesFocus(True)
    text.setFixedHeight(parent.fontMetrics().lineSpacing() * declared.lines + 16)
    return _Field(text, text.textChanged, text.setPlainText, text.toPlainText)


def _formal_text(declared: FormalText, parent: QWidget) -> _Field:
    field = FormalTextField(declared, parent)
    return _Field(field, field.edited, field.show_text, field.text.toPlainText)


_FIELDS: dict[type[Option], Callable[[Any, QWidget], _Field]] = {
    Switch: _switch,
    Choice: _choice,
    Whole: _whole,
    Decimal: _decimal,
    Seed: _seed,
    LongText: _long_text,
    FormalText: _formal_text,
}
