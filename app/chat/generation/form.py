"""The fields of the generation settings, each with its range and its explanation."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSpinBox,
    QWidget,
)

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.store import DROP, RANDOM_SEED, STOP, SUMMARISE, GenerationSettings
from app.ui.widgets import DecimalField, give_room
from engine.errors import InputError
from engine.protocol.options import METHODS

_METHOD_NAMES = {
    "auto": mark("Automatic"),
    "specexec": mark("SpecExec tree"),
    "sequoia": mark("Sequoia tree"),
    "specinfer": mark("SpecInfer sequences"),
    "chain": mark("Draft chain"),
    "lookup": mark("Repeats of the text"),
    "none": mark("No speculation"),
}
_WHEN_FULL = {
    STOP: mark("Stop, and say so"),
    DROP: mark("Drop the oldest turns"),
    SUMMARISE: mark("Summarise the oldest turns"),
}
_LARGEST_BUDGET = 4096
_SYSTEM_PROMPT_LINES = 3

_HELP = {
    "speculates": mark(
        "Without speculation the target writes token by token, mostly slower. The answer has the same probabilities "
        "either way; with 32-bit weights it is the same text, with 16-bit weights texts may part where two tokens are "
        "almost equally likely."
    ),
    "method": mark("How the draft model guesses ahead. Automatic speculates whenever a draft is loaded."),
    "budget": mark(
        "How many tokens the draft may guess for one pass of the target. "
        "More guesses, more tokens per pass, but a slower pass."
    ),
    "temperature": mark("0 always takes the likeliest token; higher values dare more."),
    "top_p": mark("Only the likeliest tokens that together have this probability are drawn from; 1 is no limit."),
    "top_k": mark("Only so many of the likeliest tokens are drawn from; 0 is no limit."),
    "min_p": mark("Tokens less likely than this share of the likeliest one are left out; 0 is no limit."),
    "repetition_penalty": mark("Above 1 makes words that were there already less likely; 1 changes nothing."),
    "presence_penalty": mark("Above 0 makes words that the answer has already less likely; 0 changes nothing."),
    "when_full": mark(
        "What happens when the conversation fills the context. Turns that are dropped stay on the screen, "
        "above a line that says so."
    ),
    "seed": mark(
        "With 32-bit weights the same seed, question and settings give the same answer. With 16-bit weights rounding "
        "depends on the size of the trees, and answers may part where two tokens are almost equally likely. "
        "Empty draws a new seed for every answer."
    ),
    "max_new_tokens": mark("The answer is cut off at this many tokens."),
    "system_prompt": mark("Told to the model before the conversation, such as 'Answer briefly.'"),
}


class GenerationForm(QWidget):
    """Edits `GenerationSettings`. `edited` follows every change by a person, valid or not."""

    edited = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.speculates = QCheckBox(tr("On"), self)
        self.method = QComboBox(self)
        for name in METHODS:
            self.method.addItem(tr(_METHOD_NAMES.get(name, name)), name)
        self.budget = _Whole(0, _LARGEST_BUDGET, tr("Automatic"))
        self.temperature = _Decimal(0.0, 5.0, 0.05)
        self.top_p = _Decimal(0.01, 1.0, 0.05)
        self.top_k = _Whole(0, 1000, tr("No limit"))
        self.min_p = _Decimal(0.0, 0.99, 0.01)
        self.repetition_penalty = _Decimal(0.5, 2.0, 0.05)
        self.presence_penalty = _Decimal(-10.0, 10.0, 0.1)
        self.when_full = QComboBox(self)
        for choice, words in _WHEN_FULL.items():
            self.when_full.addItem(tr(words), choice)
        self.seed = QLineEdit(self)
        self.seed.setPlaceholderText(tr("Random"))
        self.max_new_tokens = _Whole(1, 1_000_000)
        self.system_prompt = QPlainTextEdit(self)
        self.system_prompt.setPlaceholderText(tr("None"))
        self.system_prompt.setTabChangesFocus(True)
        self.system_prompt.setFixedHeight(self.fontMetrics().lineSpacing() * _SYSTEM_PROMPT_LINES + 16)
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(8)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        for title, name in (
            (mark("Speculation"), "speculates"),
            (mark("Method"), "method"),
            (mark("Tree budget"), "budget"),
            (mark("Temperature"), "temperature"),
            (mark("Top-p"), "top_p"),
            (mark("Top-k"), "top_k"),
            (mark("Min-p"), "min_p"),
            (mark("Repetition penalty"), "repetition_penalty"),
            (mark("Presence penalty"), "presence_penalty"),
            (mark("Seed"), "seed"),
            (mark("Longest answer"), "max_new_tokens"),
            (mark("With a full context"), "when_full"),
            (mark("System prompt"), "system_prompt"),
        ):
            field, label = getattr(self, name), QLabel(tr(title), self)
            label.setToolTip(tr(_HELP[name]))
            label.setBuddy(field)
            field.setToolTip(tr(_HELP[name]))
            field.setAccessibleName(tr(title))
            form.addRow(label, field)

    def _connect(self) -> None:
        self.speculates.toggled.connect(self.edited)
        for choice in (self.method, self.when_full):
            choice.currentIndexChanged.connect(self.edited)
        for number in (self.budget, self.top_k, self.max_new_tokens):
            number.valueChanged.connect(self.edited)
        for decimal in (
            self.temperature, self.top_p, self.min_p, self.repetition_penalty, self.presence_penalty
        ):  # fmt: skip
            decimal.valueChanged.connect(self.edited)
        self.seed.textChanged.connect(self.edited)
        self.system_prompt.textChanged.connect(self.edited)

    def show_settings(self, settings: GenerationSettings) -> None:
        """Fill every field, without a word to anybody."""
        self.blockSignals(True)
        self.speculates.setChecked(settings.speculates)
        self.method.setCurrentIndex(self.method.findData(settings.method))
        self.budget.setValue(settings.budget)
        self.temperature.setValue(settings.temperature)
        self.top_p.setValue(settings.top_p)
        self.top_k.setValue(settings.top_k)
        self.min_p.setValue(settings.min_p)
        self.repetition_penalty.setValue(settings.repetition_penalty)
        self.presence_penalty.setValue(settings.presence_penalty)
        self.when_full.setCurrentIndex(self.when_full.findData(settings.when_full))
        self.seed.setText("" if settings.seed == RANDOM_SEED else str(settings.seed))
        self.max_new_tokens.setValue(settings.max_new_tokens)
        self.system_prompt.setPlainText(settings.system_prompt)
        self.blockSignals(False)

    def read(self) -> GenerationSettings:
        """The settings as they stand in the fields. Raises `InputError` for what cannot be used."""
        settings = GenerationSettings(
            method=self.method.currentData(),
            budget=self.budget.value(),
            temperature=round(self.temperature.value(), 2),
            top_p=round(self.top_p.value(), 2),
            top_k=self.top_k.value(),
            min_p=round(self.min_p.value(), 2),
            repetition_penalty=round(self.repetition_penalty.value(), 2),
            seed=_parse_seed(self.seed.text()),
            max_new_tokens=self.max_new_tokens.value(),
            system_prompt=self.system_prompt.toPlainText(),
            presence_penalty=round(self.presence_penalty.value(), 2),
            speculates=self.speculates.isChecked(),
            when_full=self.when_full.currentData(),
        )
        settings.check()
        return settings


def _parse_seed(text: str) -> int:
    if not text.strip():
        return RANDOM_SEED
    if not text.strip().isdecimal():
        words = tr("The seed “{text}” is not a whole number.").format(text=text.strip())
        raise InputError(words, tr("Leave it empty for a random one."))
    return int(text)


class _Whole(QSpinBox):
    """A whole number; `smallest_means` is shown in place of the smallest one. The wheel is left to the page."""

    def __init__(self, smallest: int, largest: int, smallest_means: str = "") -> None:
        super().__init__()
        self.setRange(smallest, largest)
        self.setSpecialValueText(smallest_means)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Nobody wants to change a number by scrolling past it."""
        event.ignore()


class _Decimal(DecimalField):
    """A number with two decimals. The wheel is left to the page."""

    def __init__(self, smallest: float, largest: float, step: float) -> None:
        super().__init__()
        self.setRange(smallest, largest)
        self.setSingleStep(step)
        self.setDecimals(2)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        give_room(self)

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Nobody wants to change a number by scrolling past it."""
        event.ignore()
