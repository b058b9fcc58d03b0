"""How fast weights streamed, under the level that the machine allows."""

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.line_chart import LineChart, Series
from app.telemetry.charts.palette import Palette
from app.telemetry.charts.scope import Scope
from app.telemetry.curves import bytes_per_second, mean_bytes_per_second
from app.telemetry.history import Rows
from app.telemetry.numbers import rate
from engine.protocol.messages import Loaded

_SERIES = (
    Series(mark("a round"), bytes_per_second, "pale", 1.0),
    Series(mark("mean"), mean_bytes_per_second, "strong"),
)
_WIDEST = "99.9 GB/s"
_CEILING_WIDTH = 1.5


class BandwidthChart(LineChart):
    """Says so where nothing ever streamed."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(scope, rate, _SERIES, _WIDEST, parent)
        self._level = pg.InfiniteLine(angle=0)
        self._level.hide()
        self.addItem(self._level, ignoreBounds=True)

    def show_pair(self, pair: Loaded) -> None:
        """Another pair is loaded: the level is another one."""
        self.least_top = pair.residence.stream_bytes_per_second if pair.residence else 0.0
        self._level.setVisible(self.least_top > 0)
        self._level.setPos(self.least_top)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        self._limit = Mark(tr("ceiling"), palette.limit, _CEILING_WIDTH, Qt.PenStyle.DashLine)
        self._level.setPen(pg.mkPen(QColor(palette.limit), width=_CEILING_WIDTH, style=Qt.PenStyle.DashLine))

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view; False if nothing streamed in any."""
        return bool(rows["bytes"].any()) and super().show_rows(rows)

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The values of one of the rows that were drawn last, and the level."""
        lines = super().entries(row)
        return (*lines, Entry(self._limit, rate(self.least_top), _WIDEST)) if self.least_top else lines
