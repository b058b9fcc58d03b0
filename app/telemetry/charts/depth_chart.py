"""How often the path went on at each depth, as bars."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.telemetry.acceptance import Acceptance
from app.telemetry.charts.axis import whole_step
from app.telemetry.charts.chart import Chart
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.palette import Palette
from app.telemetry.charts.tip import tell
from app.telemetry.definitions import FEW_ROUNDS
from app.telemetry.numbers import count, percent

_WIDTH = 0.8
_FEWEST = 8  # depths in view, so that two bars are not two walls


class DepthChart(Chart):
    """One bar per depth."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(percent, count, whole_step, parent)
        self._acceptance = Acceptance()
        self._bars = pg.BarGraphItem(x=[], height=[], width=_WIDTH)
        self._doubtful = pg.BarGraphItem(x=[], height=[], width=_WIDTH)
        self._mark = Mark("", "#000000")
        for bars in (self._bars, self._doubtful):
            self.addItem(bars, ignoreBounds=True)
        self.setMouseTracking(True)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        self._mark = Mark(tr("accepted at depth 1"), palette.compute, brush=Qt.BrushStyle.SolidPattern)
        self._bars.setOpts(brush=QColor(palette.compute), pen=pg.mkPen(None))
        self._doubtful.setOpts(brush=QColor(palette.card), pen=pg.mkPen(QColor(palette.compute), width=1))

    def show_acceptance(self, acceptance: Acceptance) -> bool:
        """Draw these counts; False if there are none."""
        self._acceptance = acceptance
        if not acceptance.deepest:
            return False
        deepest = acceptance.deepest
        depths, rates = np.arange(1, deepest + 1), acceptance.rate_by_depth()
        is_sure = acceptance.reached[:deepest] >= FEW_ROUNDS
        self._bars.setOpts(x=depths[is_sure], height=rates[is_sure], width=_WIDTH)
        self._doubtful.setOpts(x=depths[~is_sure], height=rates[~is_sure], width=_WIDTH)
        self.show_range((0.4, max(deepest, _FEWEST) + 0.6), 1.0)
        return True

    def entries(self, _row: int) -> tuple[Entry, ...]:
        """The first depth, which all others hang on."""
        rates = self._acceptance.rate_by_depth()
        return (Entry(self._mark, percent(rates[0]) if len(rates) else "", "100 %"),)

    def words_at(self, depth: int) -> str:
        """The counts of one depth; empty where there are none."""
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

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Tell the counts of the bar that is pointed at."""
        tell(self, event, lambda across: self.words_at(round(across)))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Tell no more."""
        super().leaveEvent(event)
        QToolTip.hideText()
