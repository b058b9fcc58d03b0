"""The line of figures under an answer; every figure says on hover how it is measured."""

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QEnterEvent, QFocusEvent, QHideEvent, QKeyEvent
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.history.conversation import Ending, Message
from app.chat.view.time_popup import TimePopup
from app.i18n.number_text import Number
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.ui.flow_layout import FlowLayout
from app.ui.theme import Colors
from engine.protocol.messages import Statistics

_ENDINGS = {
    Ending.WAITING: mark("Waiting for the model"),
    Ending.STOPPED: mark("Stopped"),
    Ending.FAILED: mark("Not answered"),
    Ending.INTERRUPTED: mark("Interrupted: the engine stopped"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and its definition."""

    text: str
    definition: str


def figures_of(message: Message) -> tuple[Figure, ...]:
    """What is worth saying of an answer, the most telling first; nothing that has not been measured yet."""
    figures = []
    if ending := _describe_ending(message):
        figures.append(ending)
    if message.statistics is not None and message.statistics.passes:
        figures += _measured(message.statistics)
    return tuple(figures)


def _describe_ending(message: Message) -> Figure | None:
    if message.ending is Ending.LENGTH:
        tokens = message.statistics.new_tokens if message.statistics else 0
        return Figure(
            tr("Cut off at %n tokens", n=tokens),
            tr("The answer reached the length limit or filled the context. The limit is in Generation settings."),
        )
    if message.ending is Ending.OPEN and not (message.statistics and message.statistics.passes):
        return Figure(
            tr("Reading the question"), tr("The models take in the conversation before the first token comes")
        )
    words = _ENDINGS.get(message.ending)
    return Figure(tr(words), tr("Why there is no more of this answer")) if words else None


def _measured(statistics: Statistics) -> list[Figure]:
    figures = [
        Figure(
            tr("{rate:.1f} tokens/s").format(rate=Number(statistics.tokens_per_second)),
            tr("Tokens of the answer per second of decoding; reading the question is not counted"),
        ),
        Figure(
            tr("{rate:.1f} tokens per pass").format(rate=Number(statistics.tokens_per_pass)),
            tr(
                "Tokens of the answer per pass of the target model. Without speculation this is 1; "
                "the more the draft guesses right, the higher it is."
            ),
        ),
        Figure(
            tr("%n passes", n=statistics.passes),
            tr("How often the whole target model ran for this answer; reading the question is not counted"),
        ),
        Figure(tr("%n tokens", n=statistics.new_tokens), tr("Length of the answer in tokens")),
    ]
    if statistics.first_token_seconds > 0:
        figures.append(
            Figure(
                tr("first token {seconds:.2f} s").format(seconds=Number(statistics.first_token_seconds)),
                tr("Time from the request to the first token, with reading the question"),
            )
        )
    if statistics.note:
        figures.append(Figure(translated(statistics.note), tr("What the engine has to say about this answer")))
    return figures


class FiguresRow(QWidget):
    """Figures side by side, in quiet letters; over them, or with Space on them, stands where the time went."""

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._statistics: Statistics | None = None
        self.popup: TimePopup | None = None
        self._row = FlowLayout(self, gap=14, line_gap=2)
        self._labels: list[QLabel] = []

    @property
    def text(self) -> str:
        """Everything that is shown, for tests and screen readers."""
        return " · ".join(label.text() for label in self._labels if not label.isHidden())

    def show_message(self, message: Message) -> None:
        """Show the figures of an answer; labels are reused, since this happens with every update."""
        self._statistics = message.statistics if message.ending.is_final else None
        measured = bool(self._statistics and self._statistics.seconds.decode)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if measured else Qt.FocusPolicy.NoFocus)
        figures = figures_of(message)
        while len(self._labels) < len(figures):
            label = QLabel(self)
            label.setObjectName("figure")
            self._labels.append(label)
            self._row.addWidget(label)
        for index, label in enumerate(self._labels):
            label.setVisible(index < len(figures))
            if index < len(figures):
                label.setText(figures[index].text)
                label.setToolTip("" if measured else tip(figures[index].definition))
                label.setAccessibleDescription(figures[index].definition)
        self.setAccessibleName(self.text)

    def set_colors(self, colors: Colors) -> None:
        """Draw the bar in other colours."""
        self._colors = colors

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        """Say where the time went."""
        super().enterEvent(event)
        self._open()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """No longer."""
        super().leaveEvent(event)
        self._close()

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """No longer."""
        super().focusOutEvent(event)
        self._close()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Space opens and closes it, Escape closes it."""
        if event.key() == Qt.Key.Key_Space:
            self._close() if self.popup else self._open()
        elif event.key() == Qt.Key.Key_Escape and self.popup:
            self._close()
        else:
            super().keyPressEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """What is gone has nothing to say."""
        super().hideEvent(event)
        self._close()

    def _open(self) -> None:
        if self.popup is None and self._statistics is not None and self._statistics.seconds.decode:
            self.popup = TimePopup(self._statistics, self._colors, self)
            self.popup.show_above(self.mapToGlobal(QPoint(0, -6)))

    def _close(self) -> None:
        if self.popup is not None:
            self.popup.hide()
            self.popup.deleteLater()
            self.popup = None
