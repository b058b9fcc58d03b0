"""What an option is edited with: one widget for every kind."""

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLineEdit, QSpinBox, QWidget

from app.i18n.translation import tr
from app.settings.kinds import Choice, Decimal, Name, Switch, Text, Whole
from app.ui.widgets import DecimalField, give_room

_NUMBER_WIDTH, _CHOICE_WIDTH = 130, 180


class Editor(QWidget):
    """Shows the value of one option and lets a person change it; `field` is what has the focus then."""

    edited = Signal()

    def __init__(self, field: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.setFocusProxy(field)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.addWidget(field)

    def value(self) -> Any:
        """What is shown, legal or not."""
        raise NotImplementedError

    def show_value(self, value: Any) -> None:
        """Show this."""
        raise NotImplementedError


class SwitchEditor(Editor):
    """A box to tick."""

    def __init__(self, _option: Switch) -> None:
        self._box = QCheckBox()
        super().__init__(self._box)
        self._box.toggled.connect(self.edited)

    def value(self) -> bool:
        """Whether it is ticked."""
        return self._box.isChecked()

    def show_value(self, value: bool) -> None:
        """Tick it or not."""
        self._box.setChecked(value)


class ChoiceEditor(Editor):
    """A list that opens."""

    def __init__(self, option: Choice) -> None:
        self._list = _Choices()
        super().__init__(self._list)
        self._list.setMinimumWidth(_CHOICE_WIDTH)
        for value, name in option.choices:
            self._list.addItem(tr(name), value)
        self._list.currentIndexChanged.connect(self.edited)

    def value(self) -> str:
        """What is chosen."""
        return str(self._list.currentData())

    def show_value(self, value: str) -> None:
        """Choose this."""
        self._list.setCurrentIndex(self._list.findData(value))


class NameEditor(Editor):
    """A list of what there is now."""

    def __init__(self, option: Name) -> None:
        self._list = _Choices()
        super().__init__(self._list)
        self._none = tr(option.none)
        self._list.setMinimumWidth(_CHOICE_WIDTH)
        self._list.currentIndexChanged.connect(self.edited)

    def offer(self, names: Iterable[str]) -> None:
        """Let one of these be chosen, or none."""
        self._list.clear()
        self._list.addItem(self._none, "")
        for name in sorted(names, key=str.casefold):
            self._list.addItem(name, name)

    def value(self) -> str:
        """The name; empty for none."""
        return str(self._list.currentData() or "")

    def show_value(self, value: str) -> None:
        """Choose it, if it is still there."""
        self._list.setCurrentIndex(max(0, self._list.findData(value)))


class WholeEditor(Editor):
    """A number with arrows; the range is the option's."""

    def __init__(self, option: Whole) -> None:
        self._number = _WholeNumber()
        super().__init__(self._number)
        self._number.setFixedWidth(_NUMBER_WIDTH)
        self._number.setRange(option.smallest, option.largest)
        self._number.setSingleStep(option.step)
        self._number.setSuffix(tr(option.unit) if option.unit else "")
        self._number.setSpecialValueText(tr(option.smallest_means) if option.smallest_means else "")
        self._number.valueChanged.connect(self.edited)

    def value(self) -> int:
        """The number."""
        return self._number.value()

    def show_value(self, value: int) -> None:
        """Show a number of the range."""
        self._number.setValue(value)


class DecimalEditor(Editor):
    """The same with one decimal."""

    def __init__(self, option: Decimal) -> None:
        self._number = _DecimalNumber()
        super().__init__(self._number)
        self._number.setFixedWidth(_NUMBER_WIDTH)
        self._number.setDecimals(1)
        self._number.setRange(option.smallest, option.largest)
        self._number.setSingleStep(option.step)
        self._number.setSuffix(tr(option.unit) if option.unit else "")
        self._number.setSpecialValueText(tr(option.smallest_means) if option.smallest_means else "")
        self._number.valueChanged.connect(self.edited)

    def value(self) -> float:
        """The number."""
        return round(self._number.value(), 1)

    def show_value(self, value: float) -> None:
        """Show a number of the range."""
        self._number.setValue(value)


class TextEditor(Editor):
    """A line to write into."""

    def __init__(self, option: Text) -> None:
        self._line = QLineEdit(placeholderText=option.example, clearButtonEnabled=True)
        super().__init__(self._line)
        self._line.textChanged.connect(self.edited)

    def value(self) -> str:
        """What was written, without space around it."""
        return self._line.text().strip()

    def show_value(self, value: str) -> None:
        """Show this text."""
        self._line.setText(value)


class _Choices(QComboBox):
    """Nobody wants to change a choice by scrolling past it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()


class _WholeNumber(QSpinBox):
    """The same for a number."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()


class _DecimalNumber(DecimalField):
    """The same for a number with a decimal."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Left to the page."""
        event.ignore()
