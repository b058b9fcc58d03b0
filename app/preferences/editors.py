"""What an option is edited with: one widget for every kind."""

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n.translation import tr
from app.settings.kinds import Choice, Decimal, Folder, Folders, Name, Switch, Text, Whole
from app.ui.file_dialogs import ask_for_folder
from app.ui.widgets import WheellessChoice, WheellessDecimal, WheellessWhole, offer

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
        self._list = WheellessChoice()
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
        self._list = WheellessChoice()
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


class _WholeField(WheellessWhole):
    """As wide as others, and wider where letters are large: a fixed width would cut them off."""

    def sizeHint(self) -> QSize:  # noqa: N802
        """What its words need."""
        return super().sizeHint().expandedTo(QSize(_NUMBER_WIDTH, 0))


class _DecimalField(WheellessDecimal):
    """The same with decimals."""

    def sizeHint(self) -> QSize:  # noqa: N802
        """What its words need."""
        return super().sizeHint().expandedTo(QSize(_NUMBER_WIDTH, 0))


class WholeEditor(Editor):
    """A number with arrows; the range is the option's."""

    def __init__(self, option: Whole) -> None:
        self._number = _WholeField()
        super().__init__(self._number)
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
    """The same with decimals."""

    def __init__(self, option: Decimal) -> None:
        self._number = _DecimalField()
        super().__init__(self._number)
        self._number.setDecimals(option.decimals)
        self._number.setRange(option.smallest, option.largest)
        self._number.setSingleStep(option.step)
        self._number.setSuffix(tr(option.unit) if option.unit else "")
        self._number.setSpecialValueText(tr(option.smallest_means) if option.smallest_means else "")
        self._number.valueChanged.connect(self.edited)

    def value(self) -> float:
        """The number."""
        return round(self._number.value(), self._number.decimals())

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


_LIST_ROWS = 4


def _ask_for_folder(parent: QWidget) -> str:
    """The folder that a person chooses; empty when none."""
    return ask_for_folder(parent, tr("Choose a folder"))


class FolderEditor(Editor):
    """A path, written or chosen."""

    def __init__(self, option: Folder) -> None:
        self._line = QLineEdit(placeholderText=tr(option.otherwise), clearButtonEnabled=True)
        super().__init__(self._line)
        self._ask = _ask_for_folder
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

    def __init__(self, option: Folders) -> None:
        self._list = QListWidget()
        super().__init__(self._list)
        self._ask = _ask_for_folder
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
        self._list.currentRowChanged.connect(self._offer_to_remove)
        self._offer_to_remove(-1)
        self.add.clicked.connect(self._on_add)
        self.remove.clicked.connect(self._on_remove)

    def _offer_to_remove(self, row: int) -> None:
        lacks = "" if row >= 0 else tr("Choose a folder of the list first.")
        offer(self.remove, tr("Take the chosen folder off the list; its files stay"), lacks)

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
