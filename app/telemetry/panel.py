"""The panel with all figures of the speculation: charts over time, acceptance, memory, and the comparison."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QStackedWidget, QWidget

from app.engine.why import CausePlace
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.plain_text import tip
from app.telemetry.cards import MEASURED, NOT_MEASURED, WHERE, Card, build_cards
from app.telemetry.charts.memory_picture import MemoryPicture
from app.telemetry.charts.scope import Scope
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.comparison import Comparison
from app.telemetry.comparison_bar import ComparisonBar
from app.telemetry.elsewhere_page import ElsewherePage
from app.telemetry.figures.elsewhere import ElsewhereFigures
from app.telemetry.figures.history import History
from app.telemetry.figures.numbers import clock
from app.ui.theme import Colors
from app.ui.throttle import Throttle
from app.ui.widgets import fill
from engine.protocol.messages import Loaded

_COLUMN = 380
_MOST = 4
_GAP = 8
_LEAST_PAGE = 40  # pixels of the charts in a low window: they can be scrolled


class CardGrid(QWidget):
    """Fills row after row."""

    def __init__(self, cards: Sequence[QWidget]) -> None:
        super().__init__()
        self._cards = tuple(cards)
        self.columns = 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(_GAP, _GAP, _GAP, _GAP)
        self._grid.setSpacing(_GAP)
        self._arrange(1)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """More columns for a wider panel."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """A card may need more width, as in larger letters."""
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().event(event)

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """The width of one column: the others go where there is no room for them."""
        return QSize(self._widest + 2 * _GAP, super().minimumSizeHint().height())

    @property
    def _widest(self) -> int:
        return max(each.minimumSizeHint().width() for each in self._cards)

    def _fit(self) -> None:
        columns = (self.width() - _GAP) // max(_COLUMN, self._widest + _GAP)
        self._arrange(min(max(1, columns), _MOST))

    def _arrange(self, columns: int) -> None:
        if columns == self.columns:
            return
        self.columns = columns
        for number, card in enumerate(self._cards):
            self._grid.addWidget(card, number // columns, number % columns)
        rows = -(-len(self._cards) // columns)
        for row in range(len(self._cards)):
            self._grid.setRowStretch(row, 1 if row < rows else 0)
        for column in range(_MOST):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)


NOTHING_YET = mark("Figures appear here while an answer is written.")
_READING = mark("Reading the figures of {count} earlier rounds…")
_HINT = mark(
    "Point at a chart for the figures of one round, click to see its tree. Control and the wheel zoom, dragging moves, "
    "a double click shows everything. With the keyboard: left and right, Return, + and −, Home."
)


class TelemetryPanel(QWidget):
    """Shows a history. It paints at most 30 times a second, only what is in view, and nothing while it is hidden."""

    round_chosen = Signal(int)
    """The number of a round, counted from 0 since the conversation was opened, that a person wants to see."""

    texts_wanted = Signal()
    """The last answer and another one are to be shown beside each other."""

    def __init__(
        self,
        history: History,
        elsewhere: ElsewhereFigures,
        comparison: Comparison,
        colors: Colors,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._history = history
        self._elsewhere = elsewhere
        self._colors = colors
        self._page: ElsewherePage | None = None  # made with the first answer of an engine elsewhere
        self._pair: Loaded | None = None
        self._left = 0  # rounds whose figures are still to be read
        self.scope = Scope(self)  # the time in view, and the round that is pointed at
        self._throttle = Throttle(self.refresh, parent=self)
        self._caption = QLabel(tr(NOTHING_YET), self)
        self.comparison_bar = ComparisonBar(comparison, self)
        self.comparison_bar.texts_wanted.connect(self.texts_wanted)
        self.cards: tuple[Card, ...] = build_cards(self.scope)
        self._scroll = QScrollArea(self)
        self._pages = QStackedWidget(self)
        self._scroll.setAccessibleName(tr("Charts"))
        self._lay_out()
        self.scope.changed.connect(self._throttle.request)
        self.scope.chosen.connect(self.round_chosen)
        for moved in (self._scroll.verticalScrollBar().valueChanged, self._scroll.verticalScrollBar().rangeChanged):
            moved.connect(self._throttle.request)  # other cards are in view now
        self._scroll.verticalScrollBar().rangeChanged.connect(self._keep_cause_in_view)
        self.set_theme(colors)

    @property
    def caption(self) -> str:
        """What stands above the charts: which round is read."""
        return self._caption.text()

    def show_pair(self, pair: Loaded | None) -> None:
        """Another pair is loaded; None for none."""
        self._pair = pair
        for card in self.cards:
            if pair and isinstance(card.picture, MEASURED):
                card.picture.show_pair(pair)
        self._throttle.request()

    def show_left(self, rounds: int) -> None:
        """Say that the figures of so many older rounds are on their way."""
        self._left = rounds
        self._throttle.request()

    def show_cause(self, place: CausePlace) -> None:
        """Bring the card that shows a cause into view, and frame it for a moment; once it has its place."""
        card = next(each for each in self.cards if each.figure is WHERE[place])
        card.point_out()
        QTimer.singleShot(0, card, self._keep_cause_in_view)

    def update_soon(self) -> None:
        """The history has changed."""
        self._throttle.request()

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        own = QPalette(self.palette())
        own.setColor(QPalette.ColorRole.Window, QColor(colors.window))
        own.setColor(QPalette.ColorRole.WindowText, QColor(colors.text))
        self.setPalette(own)
        self._colors = colors
        for card in self.cards:
            card.set_colors(colors)
        if self._page is not None:
            self._page.set_colors(colors)
        self._throttle.request()

    def sizeHint(self) -> QSize:  # noqa: N802
        """A row of cards; the conversation keeps most of the window."""
        return QSize(900, 300)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Catch up with what came while the panel was out of sight."""
        super().showEvent(event)
        self._throttle.request()

    def refresh(self) -> None:
        """Draw what is in view."""
        self.scope.take(self._history.rows, self._history.first)
        if not self.isVisible():
            return
        self.comparison_bar.setVisible(not self._elsewhere.is_newest)  # our own engine alone is told how to draft
        if self._elsewhere.is_newest:
            self._refresh_elsewhere()
            return
        self._pages.setCurrentWidget(self._scroll)
        reading = tr(_READING).format(count=f"{Number(self._left):,}") if self._left else ""
        known = self._describe_round() if len(self._history.rows) or not reading else ""
        self._caption.setText(" · ".join(filter(None, (known, reading))))
        for card in self.cards:
            if not card.visibleRegion().isEmpty():
                self._refresh_card(card)

    def _keep_cause_in_view(self) -> None:
        """A dock that is just being opened is given its height bit by bit."""
        for card in self.cards:
            if card.is_pointed_out:
                self._scroll.ensureWidgetVisible(card, 0, _GAP)

    def _refresh_elsewhere(self) -> None:
        if self._page is None:
            self._page = ElsewherePage(self._elsewhere, self._colors, self)
            self._pages.addWidget(self._page)
        self._pages.setCurrentWidget(self._page)
        self._caption.setText(self._page.caption)
        self._page.refresh()

    def _refresh_card(self, card: Card) -> None:
        picture, row = card.picture, self.scope.row
        if isinstance(picture, MemoryPicture):
            drawn = self._pair is not None
        elif isinstance(picture, TimeChart):
            drawn = row is not None and picture.show_rows(self._history.rows)
        else:
            drawn = picture.show_acceptance(self._history.acceptance)
        if isinstance(picture, TimeChart):
            picture.show_cross(self._history.rows[row] if drawn and self.scope.is_pointed else None)
        if drawn:
            card.show_picture(picture.entries(row or 0))
        else:
            is_measured = row is not None or not isinstance(picture, TimeChart)
            card.show_words(tr(card.figure.empty if is_measured else NOT_MEASURED))

    def _describe_round(self) -> str:
        row = self.scope.row
        if row is None:
            return tr(NOTHING_YET)
        number, values = self._history.first + row + 1, self._history.rows[row]
        tokens = int(values["tokens"])
        pointed = tr("Round {number} of {count}, {clock} into answering: %n new tokens", n=tokens)
        newest = tr("Round {number}, the newest, {clock} into answering: %n new tokens", n=tokens)
        return (pointed if self.scope.is_pointed else newest).format(
            number=f"{Number(number):,}", count=f"{Number(self._history.count):,}", clock=clock(float(values["begin"]))
        )

    def _lay_out(self) -> None:
        self.setAutoFillBackground(True)
        self._caption.setObjectName("quiet-text")
        self._caption.setTextFormat(Qt.TextFormat.PlainText)
        self._caption.setContentsMargins(12, 6, 12, 0)
        self._caption.setToolTip(tip(tr(_HINT)))
        self._scroll.setWidget(CardGrid(self.cards))
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._pages.addWidget(self._scroll)
        self._pages.setMinimumHeight(_LEAST_PAGE)
        fill(self, (self.comparison_bar, self._caption, self._pages), 0, high=self._pages)
