"""The button that measures what speculation gives, with its progress and its result."""

from textwrap import shorten

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QSizePolicy, QWidget

from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.telemetry.comparison import Comparison, Outcome, Stage
from app.ui.throttle import Throttle
from app.ui.widgets import fill, offer, row_of

_DEFINITION = mark(
    "Asks the last question once more, with the same seed but without speculation, for as many tokens as the "
    "answer has. Both speeds are tokens by seconds of decoding, measured here; reading the question is not counted. "
    "The conversation stays as it is. An answer that is asked for meanwhile goes first."
)
_SHOWN_CHARACTERS = 600
_INVITATION = mark("How much faster is it than without speculation?")


class ComparisonBar(QWidget):
    """Shows one comparison."""

    texts_wanted = Signal()  # of both answers, beside each other

    def __init__(self, comparison: Comparison, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._comparison = comparison
        self._words = QLabel(tr(_INVITATION), self)
        self._progress = QProgressBar(self)
        self.button = QPushButton(tr("Compare"), self)  # starts a comparison, or cancels the one that runs
        self._texts = QPushButton(tr("Side by side…"), self)
        self._throttle = Throttle(self._refresh, parent=self)
        self._lay_out()
        self.button.clicked.connect(self._on_clicked)
        self._texts.clicked.connect(self.texts_wanted)
        comparison.changed.connect(self._throttle.request)
        self._refresh()

    @property
    def text(self) -> str:
        """What it says now."""
        return self._words.text()

    def _lay_out(self) -> None:
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setWordWrap(True)
        self._progress.setTextVisible(False)
        self._progress.setMaximumWidth(140)
        self._progress.setAccessibleName(tr("Progress of the comparison"))
        policy = self._progress.sizePolicy()
        policy.setHorizontalPolicy(QSizePolicy.Policy.Preferred)
        self._progress.setSizePolicy(policy)
        row = row_of((self._words, self._progress, self.button, self._texts), 10, wide=self._words)
        fill(self, (row,), 0, 12, 8, 12, 0)

    def _on_clicked(self) -> None:
        if self._comparison.stage is Stage.RUNNING:
            self._comparison.cancel()
        else:
            self._comparison.start()
        self._throttle.flush()

    def _refresh(self) -> None:
        comparison = self._comparison
        running = comparison.stage is Stage.RUNNING
        self._words.setText(_words(comparison))
        self._words.setToolTip(tip(_texts(comparison.outcome) if comparison.outcome else tr(_DEFINITION)))
        self._progress.setVisible(running)
        self._progress.setRange(0, max(1, comparison.total))
        self._progress.setValue(min(comparison.tokens, comparison.total))
        self.button.setText(tr("Cancel") if running else tr("Compare"))
        lacks = "" if comparison.can_be_shown else tr("There is no answer that is over yet.")
        offer(self._texts, tr("Show both answers beside each other, and replay them at their speeds"), lacks)
        can_ask = running or comparison.may_be_asked_for
        offer(self.button, tr(_DEFINITION), "" if can_ask else translated(comparison.refusal))


def _words(comparison: Comparison) -> str:
    if comparison.stage is Stage.RUNNING:
        words = tr("Answering without speculation: {done} of {count} tokens")
        return words.format(done=comparison.tokens, count=comparison.total)
    if comparison.words:
        return translated(comparison.words)
    return describe(comparison.outcome) if comparison.outcome else tr(_INVITATION)


def _texts(outcome: Outcome) -> str:
    """The beginnings of both answers, one below the other."""
    names = (tr("With speculation"), tr("Without speculation"))
    beginnings = (shorten(text, _SHOWN_CHARACTERS, placeholder="…") for text in outcome.texts)
    return "\n\n".join(f"{name}:\n{text}" for name, text in zip(names, beginnings, strict=True))


def describe(outcome: Outcome) -> str:
    """Both speeds, and what came of it, in words."""
    fast, slow = outcome.speculated, outcome.plain
    if not outcome.speed_up:
        words = tr("{fast} tokens/s with {method}, {slow} tokens/s without speculation. That is too little to compare.")
    elif outcome.speed_up >= 1:
        words = tr("{ratio} times as fast: {fast} tokens/s with {method}, {slow} tokens/s without speculation.")
    else:
        words = tr(
            "Slower, {ratio} times the speed: {fast} tokens/s with {method}, {slow} tokens/s without speculation."
        )
    shown = words.format(
        ratio=f"{Number(outcome.speed_up):.2f}",
        fast=f"{Number(fast.tokens_per_second):.1f}",
        method=fast.method,
        slow=f"{Number(slow.tokens_per_second):.1f}",
    )
    if not outcome.speed_up or (outcome.temperature is None and not outcome.has_same_text):
        return shown
    return f"{shown} {about_texts(outcome.has_same_text, outcome.temperature or 0.0)}"


def about_texts(are_same: bool, temperature: float) -> str:
    """Whether two answers to a question are the same, and if not, why at this temperature."""
    if are_same:
        return tr("Both wrote the same text.")
    if temperature > 0:
        words = tr(
            "The texts differ, as they may at temperature {temperature}: tokens are drawn at random, from the same "
            "probabilities."
        )
        return words.format(temperature=f"{Number(temperature):g}")
    return tr("The texts differ where two tokens were about equally likely: sums are rounded in another order.")
