"""What all charts over time share: the time in view, the round that is pointed at, and few points for many rounds."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.telemetry.figures.history import ROW, Rows

Indices = NDArray[np.intp]


def in_span(rows: Rows, span: tuple[float, float]) -> slice:
    """The rounds that are at least partly in a span of time, and one more on either side for lines that go on."""
    begin = int(np.searchsorted(rows["begin"], span[0], "right")) - 2
    end = int(np.searchsorted(rows["begin"], span[1], "right")) + 1
    return slice(max(0, begin), min(len(rows), end))


def round_at(rows: Rows, seconds: float) -> int | None:
    """The row of the round that ran at that time, or ended last before; None if there is none."""
    return max(0, int(np.searchsorted(rows["begin"], seconds, "right")) - 1) if len(rows) else None


def keep_extremes(values: NDArray[Any], groups: int) -> Indices:
    """At most `2 * groups + 2` indices, ascending: first, last, and of each group the least and the greatest value."""
    if len(values) <= 2 * groups:
        return np.arange(len(values))
    table, starts = _grouped(values, groups)
    last = len(values) - 1
    found = np.concatenate(([0, last], starts + table.argmin(1), starts + table.argmax(1)))
    return np.unique(np.minimum(found, last))


def keep_greatest(values: NDArray[Any], groups: int) -> tuple[Indices, Indices, Indices]:
    """Of each group of neighbours: its first index, its last, and that of its greatest value."""
    if len(values) <= groups:
        every = np.arange(len(values))
        return every, every, every
    table, starts = _grouped(values, groups)
    last = len(values) - 1
    ends = np.minimum(starts + table.shape[1] - 1, last)
    return starts, ends, np.minimum(starts + table.argmax(1), last)


def _grouped(values: NDArray[Any], groups: int) -> tuple[NDArray[Any], Indices]:
    """Values [groups, size], the last repeated to fill up, and where each group starts."""
    size = -(-len(values) // groups)
    groups = -(-len(values) // size)
    padded = np.concatenate((values, np.repeat(values[-1:], groups * size - len(values))))
    return padded.reshape(groups, size), np.arange(groups) * size


_SHORTEST = 0.05  # seconds in view
_STEPS = 128  # in which the time in view doubles: each is less than a hundredth of it


class Scope(QObject):
    """Follows the newest round with everything in view, until a person zooms in."""

    changed = Signal()
    """Another time is in view, or another round is pointed at."""

    chosen = Signal(int)
    """The number of a round that a person wants to see."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: Rows = np.zeros(0, ROW)
        self._first = 0
        self._zoomed: tuple[float, float] | None = None
        self._pointed: int | None = None

    @property
    def extent(self) -> tuple[float, float]:
        """From the beginning of the oldest round to the end of the newest, in seconds of answering."""
        if not len(self._rows):
            return 0.0, 1.0
        begin, last = float(self._rows["begin"][0]), self._rows[-1]
        return begin, max(float(last["begin"] + last["seconds"]), begin + _SHORTEST)

    @property
    def span(self) -> tuple[float, float]:
        """The time in view. Where it follows the newest round it moves on in small steps, not with every round."""
        if self._zoomed:
            return self._zoomed
        begin, end = self.extent
        step = 2.0 ** math.floor(math.log2(end - begin)) / _STEPS
        return math.floor(begin / step) * step, math.ceil(end / step) * step

    @property
    def row(self) -> int | None:
        """The row that is pointed at, the newest if none is; None if there is none at all."""
        if not len(self._rows):
            return None
        if self._pointed is None or not 0 <= self._pointed - self._first < len(self._rows):
            return len(self._rows) - 1
        return self._pointed - self._first

    @property
    def is_pointed(self) -> bool:
        """Whether a round is pointed at."""
        return self._pointed is not None

    def take(self, rows: Rows, first: int) -> None:
        """Other rounds are there now; `first` is the number of the oldest."""
        self._rows, self._first = rows, first
        if not len(rows):
            self._zoomed = self._pointed = None

    def shift(self, rounds: int, seconds: float) -> None:
        """So many older rounds were put before the others; what is in view and pointed at stays."""
        if self._pointed is not None:
            self._pointed += rounds
        if self._zoomed:
            self._zoomed = (self._zoomed[0] + seconds, self._zoomed[1] + seconds)

    def point(self, seconds: float | None) -> None:
        """At the round that ran at that time; None for at none."""
        row = None if seconds is None else round_at(self._rows, seconds)
        self._point_at(None if row is None else self._first + row)

    def step(self, rounds: int) -> None:
        """Point at a round so many later, or earlier."""
        if self.row is not None:
            self._point_at(self._first + min(max(self.row + rounds, 0), len(self._rows) - 1))

    def choose(self) -> None:
        """The round that is pointed at is wanted."""
        if self._pointed is not None and self.row is not None:
            self.chosen.emit(self._first + self.row)

    def zoom(self, factor: float, seconds: float) -> None:
        """Show `factor` times as much detail, with what is at that time staying where it is."""
        begin, end = self.span
        length = max((end - begin) / factor, _SHORTEST)
        begin = seconds - (seconds - begin) / (end - begin) * length
        self._show(begin, length)

    def pan(self, seconds: float) -> None:
        """Show what is so much later."""
        if self._zoomed:
            begin, end = self._zoomed
            self._show(begin + seconds, end - begin)

    def show_all(self) -> None:
        """Show every round, and follow the newest."""
        self._zoomed = None
        self.changed.emit()

    def _show(self, begin: float, length: float) -> None:
        first, last = self.extent
        begin = min(max(begin, first), max(first, last - length))
        self._zoomed = None if length >= last - first else (begin, begin + length)
        self.changed.emit()

    def _point_at(self, number: int | None) -> None:
        if number != self._pointed:
            self._pointed = number
            self.changed.emit()
