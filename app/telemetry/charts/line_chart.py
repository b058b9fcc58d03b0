"""Lines over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.telemetry.charts.axis import Words, round_top
from app.telemetry.charts.downsample import in_span, keep_extremes
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.line_item import LineItem
from app.telemetry.charts.palette import Palette
from app.telemetry.charts.scope import Scope
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.curves import Curve
from app.telemetry.history import Rows


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its name, what it shows, the name of its colour in the palette, and its pen."""

    name: str
    curve: Curve
    color: str
    width: float = 2.0
    line: Qt.PenStyle = Qt.PenStyle.SolidLine


class LineChart(TimeChart):
    """The first series lies lowest."""

    least_top = 0.0
    """The chart reaches at least so high."""

    def __init__(
        self, scope: Scope, words: Words, series: Sequence[Series], widest: str, parent: QWidget | None = None
    ) -> None:
        """`widest`: the longest value in `words`."""
        super().__init__(scope, words, parent)
        self._words, self._widest = words, widest
        self._series = tuple(series)
        self._lines = [LineItem() for _ in self._series]
        self._values: list[NDArray[Any]] = []
        self._marks: tuple[Mark, ...] = ()
        for line in self._lines:
            self.addItem(line, ignoreBounds=True)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        self._marks = tuple(
            Mark(tr(each.name), getattr(palette, each.color), each.width, each.line) for each in self._series
        )
        for line, mark in zip(self._lines, self._marks, strict=True):
            line.set_mark(mark)

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view."""
        span = self._scope.span
        part = in_span(rows, span)
        moments = (rows["begin"] + rows["seconds"])[part]
        self._values = [series.curve(rows) for series in self._series]
        highest = max(self.least_top, *(float(values[part].max()) for values in self._values))
        room = self.show_range(span, round_top(highest))
        for line, values in zip(self._lines, self._values, strict=True):
            seen = values[part]
            kept = keep_extremes(seen, self.groups // 2)
            line.show_line(moments[kept], seen[kept], room)
        return True

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The values of one of the rows that were drawn last."""
        pairs = zip(self._marks, self._values, strict=True)
        return tuple(Entry(mark, self._words(float(values[row])), self._widest) for mark, values in pairs)
