"""One of the two columns: what it shows, how it stands in the race, and its text."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QPushButton, QStackedLayout, QWidget

from app.chat.history.answering import words_of_reading
from app.comparison.candidates import AGAIN, Candidate
from app.comparison.session import Side
from app.comparison.text_pane import TextPane
from app.comparison.transcript import standing
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip, unsteered
from app.ui.colors import Colors
from app.ui.widgets import WheellessChoice, fill, label
from engine.protocol.messages import Reading

_LEAST_WIDTH = 200


@dataclass(frozen=True, slots=True)
class Running:
    """What a column says of writing: `tokens` of `total` are there of what runs; `refusal`: why nothing can run now.

    `has_same_seed`: what is written draws its tokens as the answer did. `reading`: how much of the question was read.
    """

    tokens: int
    total: int
    refusal: str
    has_same_seed: bool
    reading: Reading | None = None


class AnswerColumn(QWidget):
    """Shows a side of the comparison; what a person wants of it comes as signals."""

    chosen = Signal(object)  # Candidate
    start_wanted = Signal()
    cancel_wanted = Signal()

    def __init__(self, name: str, colors: Colors, parent: QWidget | None = None) -> None:
        """`name`: A or B."""
        super().__init__(parent)
        self.name = name
        self._side: Side | None = None
        self.newest: int | None = None
        """The newest token at this time of the race; None where all are there."""
        self.candidates: tuple[Candidate, ...] = ()
        self.setMinimumWidth(_LEAST_WIDTH)
        self.choice = WheellessChoice(self)
        self.choice.setAccessibleName(tr("What {column} shows").format(column=name))
        self.choice.setMinimumContentsLength(12)
        self.choice.setSizeAdjustPolicy(WheellessChoice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.button = QPushButton(self)
        self.button.setAutoDefault(False)
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Progress of {column}").format(column=name))
        self.title = label("option-title", "", self)
        self.about = label("quiet-text", "", self)
        self.standing = label("quiet-text", "", self)
        self.pane = TextPane(tr("Text of {column}").format(column=name), colors, self)
        self.words = label("quiet-text", "", self)
        self._lay_out()
        self.choice.activated.connect(lambda index: self.chosen.emit(self.candidates[index]))
        self.button.clicked.connect(self._on_clicked)

    def _lay_out(self) -> None:
        letter = QLabel(self.name, self)
        letter.setObjectName("details-title")
        above = QHBoxLayout()
        above.setSpacing(8)
        above.addWidget(letter)
        above.addWidget(self.choice, 1)
        named = QHBoxLayout()
        named.setSpacing(8)
        named.addWidget(self.title, 1)
        named.addWidget(self.button)
        self.button.ensurePolished()
        named.addStrut(self.button.sizeHint().height())  # both texts begin at the same height
        self.words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        empty = QFrame(self)
        empty.setObjectName("compared")
        fill(empty, (self.words,), 0, 24, 24, 24, 24)
        self._pages = QStackedLayout()
        self._pages.addWidget(self.pane)
        self._pages.addWidget(empty)
        fill(self, (above, named, self.about, self.standing, self.progress, self._pages), 4, 12, 8, 12, 4)

    def show_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Offer these."""
        self.candidates = tuple(candidates)
        self.choice.clear()
        for each in candidates:
            self.choice.addItem(unsteered(each.words))

    def show_side(self, side: Side, now: Running) -> None:
        """Show what a side has."""
        self._side = side
        keys = [each.key for each in self.candidates]
        if side.candidate.key in keys:
            self.choice.setCurrentIndex(keys.index(side.candidate.key))
        self.choice.setToolTip(tip(side.candidate.words))
        self.title.setText(unsteered(side.title))
        answerer = side.transcript.answerer if side.transcript else ""
        evenly = tr("when its tokens came is not kept: they are spread evenly") if side.has_no_times else ""
        self._show_button(side, now)
        self.progress.setVisible(side.is_running)
        self.progress.setRange(0, now.total)  # an empty range shows that something goes on
        self.progress.setValue(min(now.tokens, now.total))
        self.pane.show_transcript(side.transcript)
        told = (unsteered(answerer), evenly, self._cut)
        self.about.setText(" · ".join(filter(None, told)) or "–")
        self.words.setText(side.words or self._invitation(side, now))
        self.words.setObjectName("error" if side.words else "quiet-text")
        self.words.style().polish(self.words)
        self._pages.setCurrentIndex(0 if side.transcript and side.transcript.text else 1)

    def show_time(self, seconds: float | None) -> None:
        """Where it stands at this time of the race; None while it is written."""
        side = self._side
        self.newest = None
        if side is None or side.transcript is None:
            self.standing.setText("–")
            return
        times = side.transcript.times
        if seconds is None or side.is_running:
            self.pane.show_tokens(None)
            self.standing.setText(tr("%n tokens so far", n=times.count - times.given))
            return
        now = standing(side.transcript, seconds)
        self.newest = None if now.is_through else times.given + now.tokens
        self.pane.show_tokens(self.newest)
        words = tr("%n tokens", n=now.tokens)
        if now.rate:
            words += " · " + tr("{rate:.1f} tokens/s").format(rate=Number(now.rate))
        if now.passes:
            words += " · " + tr("%n passes", n=now.passes)
        if now.is_through and side.transcript.seconds:
            words += " · " + tr("done after {seconds:.2f} s").format(seconds=Number(side.transcript.seconds))
        self.standing.setText(words)

    def _show_button(self, side: Side, now: Running) -> None:
        self.button.setVisible(side.candidate.message is None)
        if side.is_running:
            self.button.setText(tr("Cancel"))
        else:
            self.button.setText(tr("Write it again") if side.transcript else tr("Write it"))
        self.button.setEnabled(side.is_running or not now.refusal)
        told = tr("The question is asked again beside the conversation, which stays as it is.")
        self.button.setToolTip(tip(now.refusal or told))
        self.button.setAccessibleName(f"{self.button.text()}: {self.name}")

    @property
    def _cut(self) -> str:
        """That not all of the text is shown."""
        if not self.pane.cut_to:
            return ""
        words = tr("too long to be shown: these are its first {count} characters, “Copy as text” has all")
        return words.format(count=f"{Number(self.pane.cut_to):,}")

    def _invitation(self, side: Side, now: Running) -> str:
        """Why there is no text yet, and how to get one."""
        if side.is_running:
            return words_of_reading(now.reading)
        if side.candidate.message is not None:
            return ""
        words = [tr("Not written yet. “Write it” asks the question again; the conversation stays as it is.")]
        if now.total:
            words.append(tr("It gets %n tokens, as many as the answer has.", n=now.total))
        if not now.has_same_seed:
            words.append(tr("The seed of the answer is not kept: other tokens may be drawn."))
        if side.candidate.method == AGAIN:
            words.append(tr("To compare with other models, load them in Models meanwhile: this window stays open."))
        return " ".join(words)

    def _on_clicked(self) -> None:
        running = self._side is not None and self._side.is_running
        (self.cancel_wanted if running else self.start_wanted).emit()
