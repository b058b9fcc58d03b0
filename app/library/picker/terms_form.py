"""How a model is to be loaded: weights, context and how it is kept, place, tree budget and limits of memory."""

from enum import Enum

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QLabel, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import Terms
from app.ui.widgets import WheellessChoice, WheellessDecimal, WheellessWhole
from engine.protocol.options import LARGEST_BUDGET

_WEIGHTS = (
    (mark("Automatic"), "auto"),
    (mark("16 bit"), "bfloat16"),
    (mark("8 bit"), "int8"),
    (mark("4 bit"), "nf4"),
)
_PLACES = ((mark("Automatic"), "auto"), ("GPU", "device"), ("RAM", "ram"), ("SSD", "ssd"))
_KV = ((mark("As computed"), "auto"), (mark("8 bit where needed"), "fit"), (mark("8 bit"), "8"))
_ACTIVATIONS = ((mark("Exact"), "exact"), (mark("8 bit"), "int8"))
_GB = 10**9
_TIPS = {
    mark("Weights"): mark(
        "The type of the target's numbers. Fewer bits take less room and stream faster, a little less exactly."
    ),
    mark("Layers in"): mark("Where the target's layers are kept. Automatic takes the fastest place that has room."),
    mark("Context"): mark(
        "The longest conversation, question and answer together, in tokens; it takes memory of its own."
    ),
    mark("Tree budget"): mark("The largest speculation tree that room is kept for, in drafted tokens."),
    mark("GPU limit"): mark("The most GPU memory to take; automatic is what is free."),
    mark("RAM limit"): mark("The most RAM to take; automatic is what is free."),
    mark("Keys and values"): mark(
        "How the target keeps what it has read. In 8 bits a context takes about half the room that 16 bits take; each "
        "number is off by up to 1/127 of the largest beside it, so an answer may part from the exact one."
    ),
    mark("Activations"): mark(
        "What the target's quantised weights are multiplied with. Rounded to 8 bits, as llama.cpp does, it is faster "
        "on processors without units for bfloat16; the text can differ where two tokens are nearly equally likely."
    ),
}
_GAP = 10  # pixels between columns


class Arrangement(Enum):
    """How names and fields stand: the widest first."""

    TWO_PAIRS = "two names, each with its field, in a line"
    ONE_PAIR = "a name with its field in a line"
    STACKED = "names above their fields"

    @property
    def pairs(self) -> int:
        """How many names stand in a line."""
        return 2 if self is Arrangement.TWO_PAIRS else 1


class TermsForm(QWidget):
    """Edits `Terms`; `edited` carries them after every change by a person."""

    edited = Signal(Terms)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._terms = Terms()
        self._filling = False
        self.weights = self._choice(_WEIGHTS)
        self.place = self._choice(_PLACES)
        self.context = self._number(1_048_576, 1024, tr(" tokens"))
        self.budget = self._number(LARGEST_BUDGET, 64, tr(" tokens"))
        self.vram = self._limit()
        self.ram = self._limit()
        self.kv = self._choice(_KV)
        self.activations = self._choice(_ACTIVATIONS)
        limits = self.vram, self.ram
        fields = (self.weights, self.place, self.context, self.budget, *limits, self.kv, self.activations)
        self._lines = tuple((self._name(title, field), field) for title, field in zip(_TIPS, fields, strict=True))
        self._arrangement = Arrangement.TWO_PAIRS
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(_GAP)
        self._grid.setVerticalSpacing(8)
        self._lay_out()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Set beside each other what the width has room for."""
        super().resizeEvent(event)
        self._arrange()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Larger text needs more room."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._arrange()

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """As narrow as names above their fields are."""
        return QSize(self._width_of(Arrangement.STACKED), super().minimumSizeHint().height())

    def _name(self, title: str, field: QWidget) -> QLabel:
        name = QLabel(tr(title), self)
        name.setBuddy(field)
        name.setToolTip(tr(_TIPS[title]))
        field.setToolTip(tr(_TIPS[title]))
        field.setAccessibleName(tr(title))
        return name

    def _arrange(self) -> None:
        fitting = (each for each in Arrangement if self._width_of(each) <= self.width())
        arrangement = next(fitting, Arrangement.STACKED)
        if arrangement is not self._arrangement:
            self._arrangement = arrangement
            self._lay_out()

    def _width_of(self, arrangement: Arrangement) -> int:
        """The least width at which no name and no field is cut off."""
        names = [name.sizeHint().width() for name, _ in self._lines]
        fields = [field.minimumSizeHint().width() for _, field in self._lines]
        if arrangement is Arrangement.STACKED:
            return max(names + fields)
        pairs = arrangement.pairs
        columns = [max(names[at::pairs]) + _GAP + max(fields[at::pairs]) for at in range(pairs)]
        return sum(columns) + _GAP * (pairs - 1)

    def _lay_out(self) -> None:
        pairs, is_stacked = self._arrangement.pairs, self._arrangement is Arrangement.STACKED
        for number, (name, field) in enumerate(self._lines):
            row, column = number // pairs, number % pairs * 2
            self._grid.addWidget(name, *((2 * row, 0) if is_stacked else (row, column)))
            self._grid.addWidget(field, *((2 * row + 1, 0) if is_stacked else (row, column + 1)))
        for column in range(4):
            self._grid.setColumnStretch(column, int(column == 0 if is_stacked else column in (1, 2 * pairs - 1)))

    def show_terms(self, terms: Terms) -> None:
        """Fill the fields; what has no field is kept."""
        self._filling = True
        self._terms = terms
        chosen = (terms.weights, terms.place, terms.kv, terms.activations)
        for box, value in zip((self.weights, self.place, self.kv, self.activations), chosen, strict=True):
            if box.findData(value) < 0:
                box.addItem(value, value)  # from the command line, such as float32
            box.setCurrentIndex(box.findData(value))
        self.context.setValue(terms.context_tokens)
        self.budget.setValue(terms.budget)
        self.vram.setValue(terms.vram_limit_bytes / _GB)
        self.ram.setValue(terms.ram_limit_bytes / _GB)
        self._filling = False

    @property
    def terms(self) -> Terms:
        """What the fields say."""
        return Terms(
            weights=self.weights.currentData(),
            context_tokens=self.context.value(),
            budget=self.budget.value(),
            device=self._terms.device,
            place=self.place.currentData(),
            vram_limit_bytes=round(self.vram.value() * _GB),
            ram_limit_bytes=round(self.ram.value() * _GB),
            cache_dir=self._terms.cache_dir,
            kv=self.kv.currentData(),
            activations=self.activations.currentData(),
        )

    def _choice(self, choices: tuple[tuple[str, str], ...]) -> QComboBox:
        box = WheellessChoice(self)
        for title, value in choices:
            box.addItem(tr(title), value)
        box.currentIndexChanged.connect(self._on_edited)
        return box

    def _number(self, most: int, step: int, unit: str) -> WheellessWhole:
        field = WheellessWhole(self)
        field.setMaximum(most)
        field.setSingleStep(step)
        field.setSuffix(unit)
        field.setSpecialValueText(tr("Automatic"))
        field.setGroupSeparatorShown(True)
        field.setKeyboardTracking(False)
        field.valueChanged.connect(self._on_edited)
        return field

    def _limit(self) -> WheellessDecimal:
        field = WheellessDecimal(self)
        field.setMaximum(4096.0)
        field.setDecimals(1)
        field.setSuffix(" GB")
        field.setSpecialValueText(tr("Automatic"))
        field.setKeyboardTracking(False)
        field.valueChanged.connect(self._on_edited)
        return field

    def _on_edited(self) -> None:
        if not self._filling:
            self.edited.emit(self.terms)
