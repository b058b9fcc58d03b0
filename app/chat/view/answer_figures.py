"""The line of figures under an answer, and over it where the time went, and what else was counted."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QCursor, QEnterEvent, QFocusEvent, QHideEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QVBoxLayout, QWidget

from app.chat.history.answering import reading_words, waiting_words
from app.chat.history.message import AnswerEnding, Message
from app.engine.steps import plausible
from app.i18n.number_text import Number, share_text
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.i18n.units import time_text
from app.i18n.wording import mark
from app.system.plain_text import tip, unsteered
from app.ui.flow_layout import FlowLayout
from app.ui.theme import Colors
from app.ui.widgets import claims_escape, label
from engine.protocol.messages import Seconds, Statistics

_ENDINGS = {
    AnswerEnding.WAITING: mark("Waiting for the model"),
    AnswerEnding.STOPPED: mark("Stopped"),
    AnswerEnding.FAILED: mark("Not answered"),
    AnswerEnding.INTERRUPTED: mark("Interrupted: the engine stopped"),
    AnswerEnding.CLOSED: mark("Interrupted: Coppice was closed"),
    AnswerEnding.LOST: mark("Interrupted: the connection broke"),
}

_BAR = QSize(260, 10)
_SWATCH = 10
_GAP = 6  # between the figures and their popup
_EXACT_SECONDS = 10.0  # from there on nobody asks for tenths
_LONGEST_NAME = 40  # characters of a model's name among the figures


@dataclass(frozen=True, slots=True)
class AnswerFigure:
    """A figure and its definition."""

    text: str
    definition: str


def figures_of(message: Message, names_model: bool = False) -> tuple[AnswerFigure, ...]:
    """What is told in a line of an answer, the most telling first; nothing that has not been measured yet.

    `names_model`: who wrote it is worth saying, as others wrote other answers of the chat.
    """
    figures = []
    if ending := _describe_ending(message):
        figures.append(ending)
    if message.statistics is not None and (message.statistics.passes or message.statistics.new_tokens):
        figures += _measured(plausible(message.statistics))
    if message.text or not message.ending.is_final:
        figures += _names(message, names_model)
    return tuple(figures)


def _names(message: Message, names_model: bool) -> list[AnswerFigure]:
    """An engine elsewhere is always named."""
    if "@" in message.answerer:
        return [AnswerFigure(message.answerer, tr("Who wrote this answer: the model, and where its engine runs"))]
    if not names_model or not message.model:
        return []
    name = unsteered(message.model)
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
    return [AnswerFigure(shown, tr("Written by {models}").format(models=unsteered(message.answerer)))]


def _describe_ending(message: Message) -> AnswerFigure | None:
    if message.ending is AnswerEnding.LENGTH:
        tokens = plausible(message.statistics).new_tokens if message.statistics else 0
        return AnswerFigure(
            tr("Cut off at %n tokens", n=tokens),
            tr("The answer reached the length limit or filled the context. The limit is in Generation settings."),
        )
    if waiting := waiting_words(message):
        return AnswerFigure(waiting, tr("Others have asked the same models before. Whoever asks is answered in turn."))
    if reading := reading_words(message):
        return AnswerFigure(reading, tr("The models take in the conversation before the first token comes"))
    words = _ENDINGS.get(message.ending)
    return AnswerFigure(tr(words), tr("Why there is no more of this answer")) if words else None


def _measured(statistics: Statistics) -> list[AnswerFigure]:
    figures = []
    if statistics.seconds.decode > 0:
        figures.append(
            AnswerFigure(
                tr("{rate:.1f} tokens/s").format(rate=Number(statistics.tokens_per_second)),
                tr("Tokens of the answer per second of decoding; reading the question is not counted"),
            )
        )
    if statistics.passes:
        figures.append(
            AnswerFigure(
                tr("{rate:.1f} tokens per pass").format(rate=Number(statistics.tokens_per_pass)),
                tr(
                    "Tokens of the answer per pass of the target model. Without speculation this is 1; "
                    "the more the draft guesses right, the higher it is."
                ),
            )
        )
    if statistics.seconds.decode > 0:
        figures.append(AnswerFigure(_whole_time(statistics.seconds), tr("All the time that the answer took")))
    else:
        figures.append(AnswerFigure(_length(statistics), tr("Length of the answer in tokens")))
    return figures


def _whole_time(seconds: Seconds) -> str:
    whole = seconds.load + seconds.prefill + seconds.decode
    return time_text(whole) if whole >= _EXACT_SECONDS else f"{Number(whole):.1f} s"


def _length(statistics: Statistics) -> str:
    return tr("%n tokens", n=statistics.new_tokens)


class FiguresRow(QWidget):
    """Figures side by side, in quiet letters; over them, or with Space on them, stands where the time went."""

    def __init__(self, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors = colors
        self._statistics: Statistics | None = None
        self._message: Message | None = None
        self._names_model = False
        self.popup: TimePopup | None = None
        self._row = FlowLayout(self, gap=14, line_gap=2)
        self._labels: list[QLabel] = []
        self._behind: list[QWidget] = []

    def put_behind(self, widget: QWidget) -> None:
        """Have it stand behind the last figure, without the popup."""
        self._row.addWidget(widget)
        self._behind.append(widget)
        widget.installEventFilter(self)

    @property
    def text(self) -> str:
        """Everything that is shown, for tests and screen readers."""
        return " · ".join(label.text() for label in self._labels if not label.isHidden())

    @property
    def shown(self) -> Sequence[QWidget]:
        """The figures and what stands behind them, from the first one on."""
        widgets = (item.widget() for item in map(self._row.itemAt, range(self._row.count())) if item is not None)
        return [each for each in widgets if each is not None and not each.isHidden()]

    def show_message(self, message: Message) -> None:
        """Show the figures of an answer; labels are reused, since this happens with every update."""
        self._message = message
        self._statistics = message.statistics if message.ending.is_final else None
        measured = bool(self._statistics and self._statistics.seconds.decode)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if measured else Qt.FocusPolicy.NoFocus)
        figures = figures_of(message, self._names_model)
        while len(self._labels) < len(figures):
            label = QLabel(self)
            label.setObjectName("figure")
            self._labels.append(label)
            self._row.insert_widget(len(self._labels) - 1, label)
        for index, label in enumerate(self._labels):
            label.setVisible(index < len(figures))
            if index < len(figures):
                label.setText(figures[index].text)
                label.setToolTip("" if measured else tip(figures[index].definition))
                label.setAccessibleDescription(figures[index].definition)
        self.setAccessibleName(self.text)

    def set_names_model(self, names_model: bool) -> None:
        """Name the model beside the figures, or only in the popup."""
        if names_model != self._names_model:
            self._names_model = names_model
            if self._message is not None:
                self.show_message(self._message)

    def set_colors(self, colors: Colors) -> None:
        """Draw the bar in other colours."""
        self._colors = colors

    def enterEvent(self, event: QEnterEvent) -> None:  # noqa: N802
        """Open the popup that says where the time went."""
        super().enterEvent(event)
        if self._is_over_figures(event.position().toPoint()):
            self._open()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Close the popup."""
        super().leaveEvent(event)
        self._close()

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Over what stands behind the figures there is no popup."""
        if event.type() == QEvent.Type.Enter:
            self._close()
        elif event.type() == QEvent.Type.Leave and self._is_over_figures(self.mapFromGlobal(QCursor.pos())):
            self._open()
        return False

    def _is_over_figures(self, place: QPoint) -> bool:
        """Whoever comes to what stands behind the figures comes to the row first."""
        behind = (each.geometry() for each in self._behind if each.isVisible())
        return self.rect().contains(place) and not any(each.contains(place) for each in behind)

    def focusOutEvent(self, event: QFocusEvent) -> None:  # noqa: N802
        """Close the popup."""
        super().focusOutEvent(event)
        self._close()

    def event(self, event: QEvent) -> bool:
        """Escape closes the popup, and stops no answer."""
        is_key = event.type() == QEvent.Type.ShortcutOverride
        return (is_key and self.popup is not None and claims_escape(event)) or super().event(event)

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
            answerer = self._message.answerer if self._message else ""
            self.popup = TimePopup(plausible(self._statistics), self._colors, self, answerer)
            self.popup.show_beside(self)

    def _close(self) -> None:
        if self.popup is not None:
            self.popup.hide()
            self.popup.deleteLater()
            self.popup = None


@dataclass(frozen=True, slots=True)
class TimePart:
    """A share of the time: its name, and its colour."""

    name: str
    seconds: float
    color: str


def parts_of(seconds: Seconds, colors: Colors) -> tuple[TimePart, ...]:
    """The parts that add up to all the time, in the order in which they come; those that took none are left out.

    Drafting that was hidden behind the target's layers is a part of its own, and is not counted as the target's.
    """
    parts = (
        TimePart(tr("Loading"), seconds.load, colors.border),
        TimePart(tr("Reading the question"), seconds.prefill, colors.muted),
        TimePart(tr("Draft"), seconds.draft, colors.accent),
        TimePart(tr("Draft, while layers came"), min(seconds.hidden_draft, seconds.target), colors.accent_hover),
        TimePart(tr("Target"), max(0.0, seconds.target - seconds.hidden_draft), colors.link),
        TimePart(tr("Other"), seconds.other, colors.error),
        TimePart(tr("Writing the answer"), 0.0 if _is_split(seconds) else seconds.decode, colors.link),
    )
    return tuple(part for part in parts if part.seconds > 0)


def _is_split(seconds: Seconds) -> bool:
    """Whether it is known what the time of decoding was spent on; engines elsewhere do not tell."""
    return seconds.draft + seconds.target + seconds.other > 0


class TimeBar(QWidget):
    """Parts side by side, each as wide as its share."""

    def __init__(self, parts: tuple[TimePart, ...], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.parts = parts
        self.setFixedHeight(_BAR.height())
        self.setMinimumWidth(_BAR.width())

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Draw the parts."""
        painter = QPainter(self)
        whole = sum(part.seconds for part in self.parts)
        left = 0.0
        for part in self.parts:
            width = self.width() * part.seconds / whole
            painter.fillRect(QRectF(left, 0, width, self.height()), QColor(part.color))
            left += width


class TimePopup(QFrame):
    """Stands beside the figures while the mouse is over them, or after a key was pressed on them."""

    def __init__(self, statistics: Statistics, colors: Colors, parent: QWidget, answerer: str = "") -> None:
        """`answerer`: the models that wrote the answer; empty where they are not known."""
        super().__init__(parent, Qt.WindowType.ToolTip | Qt.WindowType.WindowTransparentForInput)
        self.setObjectName("popover")
        self.parts = parts_of(statistics.seconds, colors)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(8)
        column.addWidget(label("popover-title", tr("Where the time went"), self))
        column.addWidget(TimeBar(self.parts, self))
        column.addLayout(self._rows())
        written = [tr("Written by {models}").format(models=unsteered(answerer))] if answerer else []
        for words in (*written, *_told(statistics)):
            column.addWidget(label("quiet-text", words, self))
        self.setAccessibleName(self.text)

    @property
    def text(self) -> str:
        """Everything it says, for tests and screen readers."""
        return " · ".join(each.text() for each in self.findChildren(QLabel) if each.text())

    def show_beside(self, row: QWidget) -> None:
        """Show it above the figures, or below where no room is above.

        It is never over them: it would take the mouse from them, be closed for that, and opened again, without an end.
        """
        self.adjustSize()
        figures, screen = QRect(row.mapToGlobal(QPoint(0, 0)), row.size()), row.screen().availableGeometry()
        above = figures.top() - _GAP - self.height()
        left = max(screen.left(), min(figures.left(), screen.right() + 1 - self.width()))
        self.move(left, above if above >= screen.top() else figures.bottom() + 1 + _GAP)
        self.show()

    def _rows(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setColumnStretch(1, 1)
        whole = sum(part.seconds for part in self.parts)
        for row, part in enumerate(self.parts):
            swatch = QFrame(self)
            swatch.setFixedSize(_SWATCH, _SWATCH)
            swatch.setStyleSheet(f"background: {part.color}; border-radius: 2px")
            grid.addWidget(swatch, row, 0)
            grid.addWidget(QLabel(part.name, self), row, 1)
            took = QLabel(f"{Number(part.seconds):.2f} s", self)
            share = QLabel(share_text(part.seconds / whole), self)
            for column, number in ((2, took), (3, share)):
                number.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
                grid.addWidget(number, row, column)
        return grid


def _told(statistics: Statistics) -> list[str]:
    """Further figures, how it was speculated, and what the engine says about that; nothing that is not known."""
    return [each for each in (_counts(statistics), _method_words(statistics), translated(statistics.note)) if each]


def _counts(told: Statistics) -> str:
    counts = [_length(told)]
    if told.passes:
        counts.append(tr("%n passes", n=told.passes))
    if told.first_token_seconds > 0:
        counts.append(tr("first token {seconds:.2f} s").format(seconds=Number(told.first_token_seconds)))
    return " · ".join(counts)


def _method_words(told: Statistics) -> str:
    """Empty where the method is not known: older versions kept none of answers that were interrupted."""
    if told.is_plain:
        return tr("No speculation") if told.passes else ""
    if told.method in ("", "none"):
        return ""
    if not told.budget:
        return tr("Speculation: {method}").format(method=told.method)
    return tr("Speculation: {method}, %n nodes a pass", n=told.budget).format(method=told.method)
