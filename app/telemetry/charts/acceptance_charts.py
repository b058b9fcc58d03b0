"""Bars and dots of acceptance: by the draft's probability, and by depth."""

from collections.abc import Callable

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.system.plain_text import tip
from app.telemetry.charts.chart import Chart, Words, one_by_one, round_step, whole_step
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.figures.acceptance import BUCKETS, EDGES, FEW_ROUNDS, Acceptance, bucket_of
from app.telemetry.figures.numbers import count, percent
from app.ui.colors import Colors

_BUCKET_WIDTH = 1 / BUCKETS
_PALE = 90  # of 255: the bars stand behind


class _AcceptanceChart(Chart):
    """A chart of counts, which tells those that are pointed at."""

    def __init__(self, across: Words, step: Callable[[float], float]) -> None:
        super().__init__(percent, one_by_one(across), step)
        self._acceptance = Acceptance()
        self.setMouseTracking(True)

    def words_at(self, across: float) -> str:
        """The counts at a place on the lower axis; empty where there are none, as in every chart that says no more."""
        del across
        return ""

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell the counts under the mouse."""
        place = self.view_box.mapSceneToView(self.mapToScene(event.position().toPoint()))
        QToolTip.showText(event.globalPosition().toPoint(), tip(self.words_at(float(place.x()))), self)

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell no more."""
        super().leaveEvent(event)
        QToolTip.hideText()


class CalibrationChart(_AcceptanceChart):
    """Dots over bars, and the line of a draft that is never wrong about itself."""

    def __init__(self) -> None:
        super().__init__(percent, round_step)
        self._bars = pg.BarGraphItem(x=[], height=[], width=_BUCKET_WIDTH)
        self._ideal = pg.PlotCurveItem([0, 1], [0, 1])
        self._curve = pg.PlotCurveItem()
        self._dots = pg.ScatterPlotItem(size=8)
        self._marks: tuple[Mark, ...] = ()
        for item in (self._bars, self._ideal, self._curve, self._dots):
            self.draw(item)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        bars = QColor(colors.charts.pale)
        bars.setAlpha(_PALE)
        self._bars.setOpts(brush=bars, pen=pg.mkPen(None))
        self._ideal.setPen(pg.mkPen(QColor(colors.muted), width=1, style=Qt.PenStyle.DashLine))
        self._curve.setPen(pg.mkPen(QColor(colors.charts.strong), width=1.5))
        self._dots.setBrush(QColor(colors.charts.strong))
        self._dots.setPen(pg.mkPen(QColor(colors.surface), width=1))
        self._marks = (
            Mark(tr("accepted"), colors.charts.strong),
            Mark(tr("as sure as right"), colors.muted, 1, Qt.PenStyle.DashLine),
            Mark(tr("nodes"), colors.charts.pale, brush=Qt.BrushStyle.SolidPattern),
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
        self._bars.setOpts(x=EDGES[:-1] + _BUCKET_WIDTH / 2, height=heights, width=_BUCKET_WIDTH * 0.9)
        self.show_range((0.0, 1.0), 1.0)
        return True

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """What the marks are, with how many nodes there are."""
        total = f"{Number(int(self._acceptance.tried.sum())):,}"
        return tuple(Entry(mark, total if mark is self._marks[-1] else "", "") for mark in self._marks)

    def words_at(self, across: float) -> str:
        """The counts of the group that a probability belongs to; empty outside of 0 to 1."""
        if not 0 <= across <= 1:
            return ""
        bucket = int(bucket_of(np.array([across]))[0])
        tried, taken = self._acceptance.tried[bucket], self._acceptance.taken[bucket]
        words = tr("Draft probability {low} to {high}: {taken} of {tried} nodes accepted")
        told = words.format(
            low=percent(EDGES[bucket]),
            high=percent(EDGES[bucket + 1]),
            taken=f"{Number(taken):,}",
            tried=f"{Number(tried):,}",
        )
        return f"{told}, {percent(taken / tried)}" if tried else told


_BAR_WIDTH = 0.8
_FEWEST = 8  # depths in view, so that two bars are not two walls


class DepthChart(_AcceptanceChart):
    """One bar per depth."""

    def __init__(self) -> None:
        super().__init__(count, whole_step)
        self._bars = pg.BarGraphItem(x=[], height=[], width=_BAR_WIDTH)
        self._doubtful = pg.BarGraphItem(x=[], height=[], width=_BAR_WIDTH)
        self._mark = Mark("", "#000000")
        for bars in (self._bars, self._doubtful):
            self.draw(bars)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        self._mark = Mark(tr("accepted at depth 1"), colors.charts.compute, brush=Qt.BrushStyle.SolidPattern)
        self._bars.setOpts(brush=QColor(colors.charts.compute), pen=pg.mkPen(None))
        self._doubtful.setOpts(brush=QColor(colors.surface), pen=pg.mkPen(QColor(colors.charts.compute), width=1))

    def show_acceptance(self, acceptance: Acceptance) -> bool:
        """Draw these counts; False if there are none."""
        self._acceptance = acceptance
        if not acceptance.deepest:
            return False
        deepest = acceptance.deepest
        depths, rates = np.arange(1, deepest + 1), acceptance.rate_by_depth()
        is_sure = acceptance.reached[:deepest] >= FEW_ROUNDS
        self._bars.setOpts(x=depths[is_sure], height=rates[is_sure], width=_BAR_WIDTH)
        self._doubtful.setOpts(x=depths[~is_sure], height=rates[~is_sure], width=_BAR_WIDTH)
        self.show_range((0.4, max(deepest, _FEWEST) + 0.6), 1.0)
        return True

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """The first depth, which all others hang on."""
        rates = self._acceptance.rate_by_depth()
        return (Entry(self._mark, percent(rates[0]) if len(rates) else "", "100 %"),)

    def words_at(self, across: float) -> str:
        """The counts of the nearest depth; empty where there are none."""
        depth = round(across)
        if not 1 <= depth <= self._acceptance.deepest:
            return ""
        reached, accepted = self._acceptance.reached[depth - 1], self._acceptance.accepted[depth - 1]
        words = tr("Depth {depth}: {accepted} of {reached} rounds went on ({share})")
        return words.format(
            depth=depth,
            accepted=f"{Number(accepted):,}",
            reached=f"{Number(reached):,}",
            share=percent(accepted / reached) if reached else tr("never reached"),
        )
