"""The charts of an answer that an engine elsewhere writes: fewer than of our own, as no engine tells its rounds."""

from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from app.i18n.number_text import Number, share_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.cards import Card, Figure
from app.telemetry.charts.acceptance_charts import DepthChart
from app.telemetry.charts.line_chart import LineChart, Series
from app.telemetry.charts.scope import Scope
from app.telemetry.figures.curves import mean_tokens_per_second, tokens_per_second
from app.telemetry.figures.elsewhere import ElsewhereFigures
from app.telemetry.figures.numbers import count
from app.ui.colors import Colors

ARRIVED = Figure(
    mark("Tokens per second, as they arrive"),
    mark(
        "Thin line: tokens that arrived at a moment, by the seconds since the moment before. Thick line: the same over "
        "the last {rounds} moments together. Measured in this window, the way of the text included; the engine's own "
        "figure stands above."
    ),
    mark("This engine does not count tokens while it writes."),
)
BY_PLACE = Figure(
    mark("Accepted by place"),
    mark(
        "Of the steps that had a drafted token at this place, behind accepted ones, those in which it was accepted. "
        "Hollow bars: fewer than {few} steps. Counted over the newest answer. Point at a bar for the counts."
    ),
    mark("This engine does not tell its steps."),
)
NO_FIGURES = mark("This engine tells no figures.")
WRITING = mark("An engine elsewhere writes: what it tells of its figures comes at the end.")
LATER = mark("This engine tells its steps at the end, if at all.")
_WIDEST = "9,999"


class ElsewherePage(QWidget):
    """Shows the figures of one answer; `refresh` when they have changed."""

    def __init__(self, figures: ElsewhereFigures, colors: Colors, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = figures
        self._scope = Scope(self)
        series = (
            Series(mark("a moment"), tokens_per_second, "pale", 1.0),
            Series(mark("mean"), mean_tokens_per_second, "strong"),
        )
        self._lines = LineChart(self._scope, count, series, _WIDEST)
        self._bars = DepthChart()
        self.arrived, self.by_place = Card(ARRIVED, self._lines, self), Card(BY_PLACE, self._bars, self)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 8, 8, 8)
        row.setSpacing(8)
        for card in (self.arrived, self.by_place):
            card.setFrameShape(QFrame.Shape.NoFrame)
            row.addWidget(card, 1)
        self._scope.changed.connect(self.refresh)
        self.set_colors(colors)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        for card in (self.arrived, self.by_place):
            card.set_colors(colors)

    def refresh(self) -> None:
        """Draw what is known by now."""
        figures, rows = self._figures, self._figures.arrivals.rows
        self._scope.take(rows, figures.arrivals.first)
        if len(rows) and self._lines.show_rows(rows):
            self._lines.show_cross(
                rows[self._scope.row] if self._scope.is_pointed and self._scope.row is not None else None
            )
            self.arrived.show_picture(self._lines.entries(self._scope.row or 0))
        else:
            self.arrived.show_words(tr(ARRIVED.empty))
        if self._bars.show_acceptance(figures.acceptance):
            self.by_place.show_picture(self._bars.entries(0))
        else:
            self.by_place.show_words(tr(BY_PLACE.empty if figures.has_ended else LATER))

    @property
    def caption(self) -> str:
        """All figures that are known, on a line."""
        return describe(self._figures)


def describe(figures: ElsewhereFigures) -> str:
    """What is known of an answer, the most telling first; in words where nothing is."""
    told = figures.told
    parts = []
    if figures.tokens_per_second > 0:
        parts.append(tr("{rate:.1f} tokens/s").format(rate=Number(figures.tokens_per_second)))
    if figures.tokens_per_step > 0:
        parts.append(tr("{rate:.2f} tokens per step").format(rate=Number(figures.tokens_per_step)))
    if figures.acceptance_rate is not None:
        parts.append(tr("{share} of the drafted tokens accepted").format(share=share_text(figures.acceptance_rate)))
    if told and told.first_token_seconds > 0:
        parts.append(tr("first token {seconds:.2f} s").format(seconds=Number(told.first_token_seconds)))
    if figures.tokens:
        parts.append(tr("%n tokens", n=figures.tokens))
    return " · ".join(parts) or tr(NO_FIGURES if told or figures.has_ended else WRITING)
