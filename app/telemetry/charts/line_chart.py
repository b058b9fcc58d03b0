"""Lines over time; among them how fast weights streamed, under the rate that the machine allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.charts.chart import Drawing, Words, round_top
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.scope import Scope, in_span, keep_extremes
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.figures.curves import Curve, bytes_per_second, mean_bytes_per_second
from app.telemetry.figures.history import Rows
from app.telemetry.figures.numbers import rate
from app.ui.colors import Colors
from engine.protocol.messages import Loaded

_POINT = 2.5  # pixels, the radius of a single point without its line's width


class LineItem(Drawing):
    """`moments` and `values` [points]; as thick as it is to be, it is drawn so many times, a pixel apart."""

    def __init__(self) -> None:
        super().__init__()
        self._moments = self._values = np.zeros(0)
        self._pen = QPen()
        self._thickness = 1

    def show_line(self, moments: NDArray[Any], values: NDArray[Any], room: QRectF) -> None:
        """Replace it; `room` is what is in view."""
        self._moments, self._values = moments, values
        self.show_in(room)

    def set_mark(self, mark: Mark) -> None:
        """Colour, width and style."""
        self._pen = QPen(QColor(mark.color), 1, mark.line)
        self._pen.setCosmetic(True)
        self._thickness = max(1, round(mark.width))
        self.update()

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Points that fall on the same pixel are one."""
        if not len(self._moments):
            return
        view = painter.transform()
        x = np.floor(view.m11() * self._moments + view.dx()) + 0.5
        y = np.floor(view.m22() * self._values + view.dy()) + 0.5
        painter.save()
        painter.resetTransform()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self._pen)
        if len(x) == 1:
            self._paint_point(painter, QPointF(x[0], y[0]), view.mapRect(self._room))
        for lower in range(self._thickness):
            painter.drawPolyline(pg.functions.arrayToQPolygonF(x, y - lower))
        painter.restore()

    def _paint_point(self, painter: QPainter, place: QPointF, room: QRectF) -> None:
        """A round alone makes no line. It ends where the chart does, so it is moved in to be seen whole."""
        radius = _POINT + self._thickness / 2
        place.setX(min(max(place.x(), room.left() + radius), room.right() - radius - 1))
        place.setY(min(max(place.y(), room.top() + radius), room.bottom() - radius - 1))
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._pen.color())
        painter.drawEllipse(place, radius, radius)
        painter.restore()


@dataclass(frozen=True, slots=True)
class Series:
    """One line: its name, what it shows, the name of its colour in the colors, and its pen."""

    name: str
    curve: Curve
    color: str
    width: float = 2.0
    line: Qt.PenStyle = Qt.PenStyle.SolidLine


class LineChart(TimeChart):
    """The first series lies lowest."""

    least_top = 0.0
    """The chart reaches at least so high."""

    def __init__(self, scope: Scope, words: Words, series: Sequence[Series], widest: str) -> None:
        """`widest`: the longest value in `words`."""
        super().__init__(scope, words)
        self._words, self._widest = words, widest
        self._series = tuple(series)
        self._lines = [LineItem() for _ in self._series]
        self._values: list[NDArray[Any]] = []
        self._marks: tuple[Mark, ...] = ()
        for line in self._lines:
            self.draw(line)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        self._marks = tuple(
            Mark(tr(each.name), getattr(colors.charts, each.color), each.width, each.line) for each in self._series
        )
        for line, drawn_as in zip(self._lines, self._marks, strict=True):
            line.set_mark(drawn_as)

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


_BANDWIDTH_SERIES = (
    Series(mark("a round"), bytes_per_second, "pale", 1.0),
    Series(mark("mean"), mean_bytes_per_second, "strong"),
)
_WIDEST = "99.9 GB/s"
_CEILING_WIDTH = 1.5


class BandwidthChart(LineChart):
    """Says so where nothing ever streamed."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, rate, _BANDWIDTH_SERIES, _WIDEST)
        self._level = pg.InfiniteLine(angle=0)
        self._level.hide()
        self.draw(self._level)

    def show_pair(self, pair: Loaded) -> None:
        """Another pair is loaded: the level is another one."""
        self.least_top = pair.residence.stream_bytes_per_second if pair.residence else 0.0
        self._level.setVisible(self.least_top > 0)
        self._level.setPos(self.least_top)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        self._limit = Mark(tr("ceiling"), colors.charts.limit, _CEILING_WIDTH, Qt.PenStyle.DashLine)
        self._level.setPen(pg.mkPen(QColor(colors.charts.limit), width=_CEILING_WIDTH, style=Qt.PenStyle.DashLine))

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view; False if nothing streamed in any."""
        return bool(rows["bytes"].any()) and super().show_rows(rows)

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The values of one of the rows that were drawn last, and the level."""
        lines = super().entries(row)
        return (*lines, Entry(self._limit, rate(self.least_top), _WIDEST)) if self.least_top else lines
