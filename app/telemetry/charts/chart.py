"""A plot with quiet axes: what all charts of the panel begin with."""

from collections.abc import Callable

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QFrame, QWidget

from app.telemetry.charts.axis import HEADROOM, SpanAxis, ValueAxis, Words, paint_axis
from app.telemetry.charts.palette import Palette
from app.ui.widgets import keep_tips

_SMALLER = 0.85


class Chart(pg.PlotWidget):  # type: ignore[misc]
    """Values upwards from 0. Nothing moves by the mouse alone: who wants that says how."""

    def __init__(
        self, values: Words, across: Words, step: Callable[[float], float], parent: QWidget | None = None
    ) -> None:
        """Words for either axis; `step`: between ticks of the lower one."""
        axes = {"left": ValueAxis(values), "bottom": SpanAxis(across, step)}
        super().__init__(parent, axisItems=axes, enableMenu=False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseEnabled(False, False)
        self.hideButtons()
        self.getPlotItem().setContentsMargins(0, 4, 16, 0)
        self._axes = tuple(axes.values())
        self._range: tuple[tuple[float, float], float] | None = None
        self._room = QRectF()
        self._tick_lines = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)  # at the two upper ticks
        self._tick_lines.setZValue(-10)
        self.addItem(self._tick_lines, ignoreBounds=True)
        self.setMinimumWidth(160)
        keep_tips(self.viewport())

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        self.setBackground(palette.card)
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * _SMALLER)
        for axis in self._axes:
            paint_axis(axis, palette, font)
        self._tick_lines.setPen(pg.mkPen(QColor(palette.grid), width=1))

    def show_range(self, across: tuple[float, float], top: float) -> QRectF:
        """Bring this into view; returns all that is."""
        if (across, top) == self._range:
            return self._room
        self._range = (across, top)
        self._tick_lines.setData(np.array([*across, *across]), np.array([top, top, top / 2, top / 2]))
        self.getViewBox().setRange(xRange=across, yRange=(0.0, top * HEADROOM), padding=0, disableAutoRange=True)
        self._room = QRectF(across[0], 0.0, across[1] - across[0], top * HEADROOM)
        return self._room
