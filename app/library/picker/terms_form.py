"""How a model is to be loaded: weights, context and how it is kept, place, tree budget and limits of memory."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QGridLayout, QLabel, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.estimates import Terms
from app.ui.widgets import DecimalField, WheellessWhole, give_room
from engine.protocol.options import LARGEST_BUDGET

_WEIGHTS = (
    (mark("Automatic"), "auto"),
    (mark("16 bit"), "bfloat16"),
    (mark("8 bit"), "int8"),
    (mark("4 bit"), "nf4"),
)
_PLACES = ((mark("Automatic"), "auto"), ("GPU", "device"), ("RAM", "ram"), ("SSD", "ssd"))
_KV = ((mark("As computed"), "auto"), (mark("8 bit where needed"), "fit"), (mark("8 bit"), "8"))
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
}


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
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(8)
        fields = (self.weights, self.place, self.context, self.budget, self.vram, self.ram, self.kv)
        for number, (title, field) in enumerate(zip(_TIPS, fields, strict=True)):
            name = QLabel(tr(title), self)
            name.setBuddy(field)
            name.setToolTip(tr(_TIPS[title]))
            field.setToolTip(tr(_TIPS[title]))
            field.setAccessibleName(tr(title))
            grid.addWidget(name, number // 2, number % 2 * 2)
            grid.addWidget(field, number // 2, number % 2 * 2 + 1)
        grid.setColumnStretch(1, 1)
        grid.setColumnStretch(3, 1)

    def show_terms(self, terms: Terms) -> None:
        """Fill the fields; what has no field is kept."""
        self._filling = True
        self._terms = terms
        for box, value in ((self.weights, terms.weights), (self.place, terms.place), (self.kv, terms.kv)):
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
        )

    def _choice(self, choices: tuple[tuple[str, str], ...]) -> QComboBox:
        box = QComboBox(self)
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

    def _limit(self) -> DecimalField:
        field = DecimalField(self, maximum=4096.0, decimals=1, suffix=" GB")
        field.setSpecialValueText(tr("Automatic"))
        give_room(field)
        field.setKeyboardTracking(False)
        field.valueChanged.connect(self._on_edited)
        return field

    def _on_edited(self) -> None:
        if not self._filling:
            self.edited.emit(self.terms)
