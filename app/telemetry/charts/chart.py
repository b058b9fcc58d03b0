"""A plot with quiet axes, which all charts of the panel begin with."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QFrame, QGraphicsGridLayout

from app.ui.colors import Colors
from app.ui.widgets import keep_tips

Words = Callable[[float], str]

SpanWords = Callable[[Sequence[float], float], list[str]]
"""Words for the ticks of an axis, and how far these are apart."""

HEADROOM = 1.02
"""How much more than the highest tick is in view, so that its line is not cut."""

_VALUE_WIDTH = 62
_MOST_TICKS = 6
_TOPS = (1, 2, 3, 4, 5, 6, 8)
_STEPS = (1, 2, 5)
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600)  # seconds


class ValueAxis(pg.AxisItem):  # type: ignore[misc]
    """From 0 to the top, with a tick in the middle."""

    def __init__(self, words: Words) -> None:
        super().__init__("left", maxTickLength=0)
        self._words = words
        self.setWidth(_VALUE_WIDTH)
        _quieten(self)

    def tickValues(self, _low: float, high: float, _size: float) -> list[tuple[float, list[float]]]:  # noqa: N802
        """At the bottom, the middle and the top."""
        top = high / HEADROOM
        return [(top / 2, [0.0, top / 2, top])]

    def tickStrings(self, values: list[float], _scale: float, _spacing: float) -> list[str]:  # noqa: N802
        """In words."""
        return [self._words(value) if value else "0" for value in values]


class SpanAxis(pg.AxisItem):  # type: ignore[misc]
    """Ticks at round figures, a few."""

    def __init__(self, words: SpanWords, step: Callable[[float], float]) -> None:
        """`step`: the next round figure that is not below a value."""
        super().__init__("bottom", maxTickLength=0)
        self._words, self._step = words, step
        _quieten(self)

    def tickValues(self, low: float, high: float, _size: float) -> list[tuple[float, list[float]]]:  # noqa: N802
        """As many as are easily read."""
        step = self._step((high - low) / _MOST_TICKS)
        first = math.ceil(low / step)
        return [(step, [number * step for number in range(first, math.floor(high / step) + 1)])]

    def tickStrings(self, values: list[float], _scale: float, spacing: float) -> list[str]:  # noqa: N802
        """In words."""
        return self._words(values, spacing)


def one_by_one(words: Words) -> SpanWords:
    """Words for ticks that do not depend on each other."""
    return lambda values, _step: [words(each) for each in values]


def round_top(value: float) -> float:
    """The end of an axis that shows this value; 1 for 0."""
    return _round_up(value, _TOPS)


def round_step(value: float) -> float:
    """A distance between ticks that is not below this value."""
    return _round_up(value, _STEPS)


def whole_step(value: float) -> float:
    """The same for what is counted."""
    return max(1.0, round_step(value))


def time_step(seconds: float) -> float:
    """The same for time, where sixty and not a hundred is a round figure."""
    return next((float(step) for step in _TIME_STEPS if 1 < seconds <= step), round_step(seconds))


def _round_up(value: float, steps: tuple[int, ...]) -> float:
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in steps if value <= step * power * (1 + 1e-9)), 10 * power)


def paint_axis(axis: Any, colors: Colors, font: QFont) -> None:
    """Colours and letters of an axis."""
    axis.setTextPen(QColor(colors.muted))
    axis.setPen(QColor(colors.border))
    axis.setTickFont(font)


def _quieten(axis: Any) -> None:
    axis.enableAutoSIPrefix(False)
    axis.setStyle(hideOverlappingLabels=False, tickTextOffset=5)


class Drawing(pg.GraphicsObject):  # type: ignore[misc]
    """What a chart is made of that pyqtgraph would draw too slowly."""

    def __init__(self) -> None:
        super().__init__()
        self._room = QRectF()

    def show_in(self, room: QRectF) -> None:
        """Draw anew; `room` is what is in view."""
        if room != self._room:
            self.prepareGeometryChange()
            self._room = room
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """All that is in view."""
        return self._room


_SMALLER = 0.85


class Chart(pg.GraphicsView):  # type: ignore[misc]
    """Values upwards from 0. The mouse moves nothing by default; charts that want that handle it.

    It does without pyqtgraph's `PlotItem`: each brings menus of fifty widgets that nobody would see, and that take most
    of the time as a theme is switched.
    """

    def __init__(self, values: Words, across: SpanWords, step: Callable[[float], float]) -> None:
        """Words for either axis; `step`: between ticks of the lower one."""
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.view_box = pg.ViewBox(enableMouse=False, enableMenu=False)
        self._axes: tuple[Any, ...] = (ValueAxis(values), SpanAxis(across, step))
        self._lay_out()
        self._range: tuple[tuple[float, float], float] | None = None
        self._room = QRectF()
        self._tick_lines = pg.PlotCurveItem(connect="pairs", skipFiniteCheck=True)  # at the two upper ticks
        self._tick_lines.setZValue(-10)
        self.draw(self._tick_lines)
        self.setMinimumWidth(160)
        keep_tips(self.viewport())

    def _lay_out(self) -> None:
        """An axis at the left, one below, and the picture in the corner between them."""
        plot = pg.GraphicsWidget()
        grid = QGraphicsGridLayout(plot)
        grid.setContentsMargins(0, 4, 16, 0)
        grid.setSpacing(0)
        grid.addItem(self.view_box, 0, 1)
        for axis, row, column in zip(self._axes, (0, 1), (0, 1), strict=True):
            axis.linkToView(self.view_box)
            axis.setZValue(0.5)  # as in a `PlotItem`: above the picture, but what is drawn behind that
            axis.setFlag(axis.GraphicsItemFlag.ItemNegativeZStacksBehindParent)
            grid.addItem(axis, row, column)
        grid.setRowStretchFactor(0, 100)
        grid.setColumnStretchFactor(1, 100)
        self.setCentralItem(plot)

    def draw(self, item: Any) -> None:
        """Have this drawn from now on; what is in view does not depend on it."""
        self.view_box.addItem(item, ignoreBounds=True)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        self.setBackground(colors.surface)
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * _SMALLER)
        for axis in self._axes:
            paint_axis(axis, colors, font)
        self._tick_lines.setPen(pg.mkPen(QColor(colors.border), width=1))

    def show_range(self, across: tuple[float, float], top: float) -> QRectF:
        """Bring this into view; returns all that is."""
        if (across, top) == self._range:
            return self._room
        self._range = (across, top)
        self._tick_lines.setData(np.array([*across, *across]), np.array([top, top, top / 2, top / 2]))
        self.view_box.setRange(xRange=across, yRange=(0.0, top * HEADROOM), padding=0, disableAutoRange=True)
        self._room = QRectF(across[0], 0.0, across[1] - across[0], top * HEADROOM)
        return self._room
