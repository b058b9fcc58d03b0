"""Whether the draft is as often right as it says, with how many nodes say so."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.telemetry.acceptance import BUCKETS, EDGES, Acceptance, bucket_of
from app.telemetry.charts.axis import round_step
from app.telemetry.charts.chart import Chart
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.palette import Palette
from app.telemetry.charts.tip import tell
from app.telemetry.numbers import percent

_WIDTH = 1 / BUCKETS
_PALE = 90  # of 255: the bars stand behind


class CalibrationChart(Chart):
    """Dots over bars, and the line of a draft that is never wrong about itself."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(percent, percent, round_step, parent)
        self._acceptance = Acceptance()
        self._bars = pg.BarGraphItem(x=[], height=[], width=_WIDTH)
        self._ideal = pg.PlotCurveItem([0, 1], [0, 1])
        self._curve = pg.PlotCurveItem()
        self._dots = pg.ScatterPlotItem(size=8)
        self._marks: tuple[Mark, ...] = ()
        for item in (self._bars, self._ideal, self._curve, self._dots):
            self.addItem(item, ignoreBounds=True)
        self.setMouseTracking(True)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        bars = QColor(palette.pale)
        bars.setAlpha(_PALE)
        self._bars.setOpts(brush=bars, pen=pg.mkPen(None))
        self._ideal.setPen(pg.mkPen(QColor(palette.muted), width=1, style=Qt.PenStyle.DashLine))
        self._curve.setPen(pg.mkPen(QColor(palette.strong), width=1.5))
        self._dots.setBrush(QColor(palette.strong))
        self._dots.setPen(pg.mkPen(QColor(palette.card), width=1))
        self._marks = (
            Mark(tr("accepted"), palette.strong),
            Mark(tr("as sure as right"), palette.muted, 1, Qt.PenStyle.DashLine),
            Mark(tr("nodes"), palette.pale, brush=Qt.BrushStyle.SolidPattern),
        )

    def show_acceptance(self, acceptance: Acceptance) -> bool:
        """Draw these counts; False if there are none."""
        self._acceptance = acceptance
        if not acceptance.deepest:
            return False
        said, was, _ = acceptance.calibration()
        self._curve.setData(said, was)
        self._dots.setData(said, was)
        heights = acceptance.tried / max(1, int(acceptance.tried.max()))
        self._bars.setOpts(x=EDGES[:-1] + _WIDTH / 2, height=heights, width=_WIDTH * 0.9)
        self.show_range((0.0, 1.0), 1.0)
        return True

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """What the marks are, with how many nodes there are."""
        total = f"{Number(int(self._acceptance.tried.sum())):,}"
        return tuple(Entry(mark, total if mark is self._marks[-1] else "", "") for mark in self._marks)

    def words_at(self, probability: float) -> str:
        """The counts of the group that a probability belongs to; empty outside of 0 to 1."""
        if not 0 <= probability <= 1:
            return ""
        bucket = int(bucket_of(np.array([probability]))[0])
        tried, taken = self._acceptance.tried[bucket], self._acceptance.taken[bucket]
        words = tr("Draft probability {low} to {high}: {taken} of {tried} nodes accepted")
        told = words.format(
            low=percent(EDGES[bucket]),
            high=percent(EDGES[bucket + 1]),
            taken=f"{Number(taken):,}",
            tried=f"{Number(tried):,}",
        )
        return f"{told}, {percent(taken / tried)}" if tried else told

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell the counts of the group that is pointed at."""
        tell(self, event, self.words_at)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell no more."""
        super().leaveEvent(event)
        QToolTip.hideText()
