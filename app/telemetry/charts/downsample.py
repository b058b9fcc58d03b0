"""Fewer points than there are rounds, without losing what stands out. Pure."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.telemetry.history import Rows

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
