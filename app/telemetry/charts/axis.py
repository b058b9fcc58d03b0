"""Axes with few ticks, in words that people read; pyqtgraph's own take longer to paint than all curves."""

import math
from collections.abc import Callable
from typing import Any

import pyqtgraph as pg
from PySide6.QtGui import QColor, QFont

from app.telemetry.charts.palette import Palette

Words = Callable[[float], str]

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

    def __init__(self, words: Words, step: Callable[[float], float]) -> None:
        """`step`: the next round figure that is not below a value."""
        super().__init__("bottom", maxTickLength=0)
        self._words, self._step = words, step
        _quieten(self)

    def tickValues(self, low: float, high: float, _size: float) -> list[tuple[float, list[float]]]:  # noqa: N802
        """As many as are easily read."""
        step = self._step((high - low) / _MOST_TICKS)
        first = math.ceil(low / step)
        return [(step, [number * step for number in range(first, math.floor(high / step) + 1)])]

    def tickStrings(self, values: list[float], _scale: float, _spacing: float) -> list[str]:  # noqa: N802
        """In words."""
        return [self._words(value) for value in values]


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


def paint_axis(axis: Any, palette: Palette, font: QFont) -> None:
    """Colours and letters of an axis."""
    axis.setTextPen(QColor(palette.muted))
    axis.setPen(QColor(palette.grid))
    axis.setTickFont(font)


def _quieten(axis: Any) -> None:
    axis.enableAutoSIPrefix(False)
    axis.setStyle(hideOverlappingLabels=False, tickTextOffset=5)
