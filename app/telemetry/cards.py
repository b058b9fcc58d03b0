"""The figures of the panel in the order in which they are read: their definitions, and a card for each."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QLabel, QStackedLayout, QToolButton, QToolTip, QWidget

from app.engine.why import CausePlace
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.telemetry.charts.acceptance_charts import CalibrationChart, DepthChart
from app.telemetry.charts.legend import Entry, Legend
from app.telemetry.charts.line_chart import BandwidthChart, LineChart, Series
from app.telemetry.charts.memory_picture import MemoryPicture
from app.telemetry.charts.scope import Scope
from app.telemetry.charts.stack_chart import StackChart
from app.telemetry.figures.acceptance import FEW_ROUNDS
from app.telemetry.figures.curves import (
    MEAN_OF,
    column,
    mean_accepted,
    mean_tokens_per_pass,
    mean_tokens_per_second,
    tokens_per_second,
)
from app.telemetry.figures.numbers import count
from app.ui.colors import Colors
from app.ui.widgets import fill, row_of

NOT_MEASURED = mark("Nothing was measured yet.")
"""In the place of every chart over time before the first round."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its title, how it is measured, and words for when there is none."""

    title: str
    definition: str
    empty: str = NOT_MEASURED

    @property
    def explanation(self) -> str:
        """The definition in the person's language, with its numbers."""
        words = tr(self.definition).format(rounds=MEAN_OF, few=FEW_ROUNDS)
        return f"{words} {tr(_TIME_AXIS)}" if self in (SPEED, TOKENS_PER_PASS) else words


_TIME_AXIS = mark("The time axis counts seconds of answering, waiting for questions left out.")

SPEED = Figure(
    mark("Tokens per second"),
    mark(
        "Thin line: tokens that the answer grew by in a round, by the seconds of that round. Thick line: the same over "
        "the last {rounds} rounds together. Reading the question is not counted."
    ),
)
TOKENS_PER_PASS = Figure(
    mark("Tokens per pass"),
    mark(
        "Tokens that the answer grew by in a round, which is one pass of the target model: the accepted drafted tokens "
        "and the bonus token. Thick line: the mean of the last {rounds} rounds. Without speculation it is 1."
    ),
)
TREE_SIZE = Figure(
    mark("Tree size"),
    mark(
        "Nodes that the draft grew for the round, the root not counted. All of them are checked in one pass of the "
        "target."
    ),
)
TREE_DEPTH = Figure(
    mark("Tree depth"),
    mark(
        "Depth: tokens of the longest continuation that was guessed. Accepted: how many drafted tokens the target took "
        "over, as the mean of the last {rounds} rounds. Where both lines meet, a deeper tree would give more."
    ),
)
TIME = Figure(
    mark("Time per round"),
    mark(
        "Where the time of a round went; the parts add up to it. Draft: growing the tree. Compute: the target's pass, "
        "less what follows. Stream wait: the pass stood still because a layer's weights had not arrived, and the draft "
        "had nothing to do either. Hidden draft: the draft worked on while a layer was awaited, so that it cost "
        "nothing. Other: accepting, caches, text. Where rounds are many, the slowest of each group of neighbours is "
        "drawn."
    ),
)
BANDWIDTH = Figure(
    mark("Weights streamed"),
    mark(
        "Bytes of weights that were brought to where they are used in a round, by the seconds of that round; the thick "
        "line is the mean of the last {rounds}. Ceiling: what the way of these layers allows at most, by the rates of "
        "link and disk that were measured on this machine. Near the ceiling, more layers in faster memory would help; "
        "far below it, computation or the draft is slower."
    ),
    mark("Nothing streams: all layers stay where they are computed."),
)
BY_DEPTH = Figure(
    mark("Accepted by depth"),
    mark(
        "Of the rounds whose accepted path led to a node with children at the depth before, the share in which one of "
        "them was accepted as well. Hollow bars: fewer than {few} rounds came so far. Counted since the conversation "
        "was opened. Point at a bar for the counts."
    ),
    mark("Nothing was drafted yet."),
)
CALIBRATION = Figure(
    mark("Draft probability and acceptance"),
    mark(
        "Drafted nodes whose parent was accepted, in ten groups by the probability that the draft gave them. Dots: the "
        "share that the target accepted. On the dashed line the draft is as sure as it is right; below it, it is too "
        "sure. Bars: how many nodes a group has, the largest group as high as the chart. Counted since the "
        "conversation was opened."
    ),
    mark("Nothing was drafted yet."),
)
MEMORY = Figure(
    mark("Where the layers are"),
    mark(
        "Every cell is a decoder layer of the target, in the memory where it is kept, as wide as its bytes; point at "
        "one for its number. Hatched: what else is taken there at most, such as the draft, the context, the room for a "
        "pass. Empty: what might still be taken. Layers that are not where the target computes come anew for every "
        "pass."
    ),
    mark("No model is loaded."),
)


WHERE = {
    CausePlace.TIME: TIME,
    CausePlace.PASSES: TOKENS_PER_PASS,
    CausePlace.BY_DEPTH: BY_DEPTH,
    CausePlace.TREE_SIZE: TREE_SIZE,
    CausePlace.STREAMED: BANDWIDTH,
}
"""The figure that shows why an answer was fast or not."""

_PICTURE_HEIGHT = 118
_POINTED_MS = 2000  # long enough to be found, also by who looks elsewhere at first


class Card(QFrame):
    """Holds the picture of one figure, a widget with `set_colors`; without anything to draw it says so in words."""

    def __init__(self, figure: Figure, picture: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.figure = figure
        self.picture = picture
        self._title = QLabel(tr(figure.title), self)
        self._about = _Question(figure, self)
        self._legend = Legend(self)
        self._words = QLabel(self)
        self._pages = QStackedLayout()
        self._colors = ("#000000", "#000000")
        self._background = self._accent = QColor()
        self._pointing = QTimer(self, singleShot=True, interval=_POINTED_MS)
        self._pointing.timeout.connect(self.update)
        self._lay_out()
        self.show_words(tr(figure.empty))

    @property
    def reading(self) -> str:
        """What the legend says now, or why there is nothing to see."""
        return self._words.text() if self._pages.currentWidget() is self._words else self._legend.text

    @property
    def is_pointed_out(self) -> bool:
        """Whether it is framed, because somebody was sent here."""
        return self._pointing.isActive()

    def point_out(self) -> None:
        """Frame it for a moment."""
        self._pointing.start()
        self.update()

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = (colors.text, colors.muted)
        self._background, self._accent = QColor(colors.surface), QColor(colors.accent)
        self.update()
        self.picture.set_colors(colors)

    def show_picture(self, entries: tuple[Entry, ...]) -> None:
        """Show the picture, and these values."""
        self._pages.setCurrentWidget(self.picture)
        self._legend.setVisible(bool(entries))
        self._legend.show_entries(entries, *self._colors)
        self.picture.setAccessibleDescription(self._legend.text)

    def show_words(self, words: str) -> None:
        """Say why there is nothing to draw."""
        self._words.setText(words)
        self._legend.hide()
        self._pages.setCurrentWidget(self._words)

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        """Its ground; by hand, since a style sheet takes no notice of palettes."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._background)
        if self.is_pointed_out:
            painter.setPen(QPen(self._accent, 2))
            painter.drawRect(QRectF(self.rect()).adjusted(1, 1, -1, -1))

    def _lay_out(self) -> None:
        font = self._title.font()
        font.setBold(True)
        self._title.setFont(font)
        for each in (self._title, self._about):
            each.setToolTip(tip(self.figure.explanation))
        self._words.setObjectName("quiet-text")
        self._words.setWordWrap(True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._words.setMargin(12)
        self.picture.setParent(self)  # or the first page of a layout without a widget would open as a window
        self.picture.setMinimumHeight(_PICTURE_HEIGHT)
        self.picture.setAccessibleName(tr(self.figure.title))
        self._pages.addWidget(self.picture)
        self._pages.addWidget(self._words)
        head = row_of((self._title, self._about, None), 4)
        fill(self, (head, self._legend, self._pages), 4, 10, 8, 10, 8, high=self._pages)


class _Question(QToolButton):
    """A question mark that answers on hover, and on a click or a key for those who do not hover."""

    def __init__(self, figure: Figure, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("quiet")
        self.setText("?")
        self.setAutoRaise(True)
        self.setAccessibleName(tr("What is “{figure}”?").format(figure=tr(figure.title)))
        self.setAccessibleDescription(figure.explanation)
        self.clicked.connect(self._tell)

    def _tell(self) -> None:
        QToolTip.showText(self.mapToGlobal(self.rect().bottomLeft()), tip(self.toolTip()), self)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Say no more."""
        super().leaveEvent(event)
        QToolTip.hideText()


MEASURED = (BandwidthChart, MemoryPicture)
"""Pictures that show something of the pair itself: they have `show_pair`."""

_WIDEST = "9,999"
_MEAN_SPEED = Series(mark("mean"), mean_tokens_per_second, "strong")
_MEAN_PASS = Series(mark("mean"), mean_tokens_per_pass, "strong")
_MEAN_ACCEPTED = Series(mark("accepted, mean"), mean_accepted, "compute")


def build_cards(scope: Scope) -> tuple[Card, ...]:
    """One card per figure; those over time share `scope`."""
    return (
        Card(SPEED, _lines(scope, Series(mark("a round"), tokens_per_second, "pale", 1.0), _MEAN_SPEED)),
        Card(TOKENS_PER_PASS, _lines(scope, Series(mark("a round"), column("tokens"), "pale", 1.0), _MEAN_PASS)),
        Card(TIME, StackChart(scope)),
        Card(TREE_SIZE, _lines(scope, Series(mark("nodes"), column("nodes"), "strong", 1.5))),
        Card(TREE_DEPTH, _lines(scope, Series(mark("depth"), column("depth"), "pale", 1.0), _MEAN_ACCEPTED)),
        Card(BANDWIDTH, BandwidthChart(scope)),
        Card(BY_DEPTH, DepthChart()),
        Card(CALIBRATION, CalibrationChart()),
        Card(MEMORY, MemoryPicture()),
    )


def _lines(scope: Scope, *series: Series) -> LineChart:
    return LineChart(scope, count, series, _WIDEST)
