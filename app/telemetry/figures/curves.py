"""What the lines of the charts show of each round. Pure."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.telemetry.figures.history import Rows

MEAN_OF = 20  # rounds

Values = NDArray[Any]
Curve = Callable[[Rows], Values]


def column(name: str) -> Curve:
    """The figure as it is kept."""
    return lambda rows: rows[name]


def tokens_per_second(rows: Rows) -> Values:
    """Of each round alone."""
    return _ratio(rows["tokens"], rows["seconds"])


def mean_tokens_per_second(rows: Rows) -> Values:
    """Of each round and those before it, `MEAN_OF` together: tokens of all by seconds of all."""
    return _ratio(_trailing(rows["tokens"]), _trailing(rows["seconds"]))


def mean_tokens_per_pass(rows: Rows) -> Values:
    """The same by passes; each round is one."""
    return _ratio(_trailing(rows["tokens"]), _trailing(np.ones(len(rows))))


def bytes_per_second(rows: Rows) -> Values:
    """Of each round alone."""
    return _ratio(rows["bytes"], rows["seconds"])


def mean_accepted(rows: Rows) -> Values:
    """Drafted tokens that were accepted, of each round and those before it."""
    return _ratio(_trailing(rows["accepted"]), _trailing(np.ones(len(rows))))


def mean_bytes_per_second(rows: Rows) -> Values:
    """Of each round and those before it, `MEAN_OF` together."""
    return _ratio(_trailing(rows["bytes"]), _trailing(rows["seconds"]))


def _trailing(values: Values) -> Values:
    """The sum of each value and the `MEAN_OF - 1` before it."""
    sums = np.cumsum(values, dtype=np.float64)
    sums[MEAN_OF:] = sums[MEAN_OF:] - sums[:-MEAN_OF]
    return sums


def _ratio(above: Values, below: Values) -> Values:
    """0 where nothing was measured."""
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)
