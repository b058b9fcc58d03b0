"""Decodes a unit, 32 numbers in the order of their columns, of every layout: four vectors, with the bits of torch.

The arguments are the layout, a row, and which unit of the row. Compiled code calls `unit`, and gets that of the layout.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import block_units, code_units, layouts
from engine.model.products.layouts import Unit
from engine.model.products.vectors import bfloats, halves, signed, splat, times


def unit(parts: Any, row: int, at: int) -> Unit:
    """The numbers of the columns from 32 x `at` on."""
    raise NotImplementedError


def bare_unit(parts: Any, row: int, at: int) -> Unit:
    """The same, by the row's `factor`."""
    raise NotImplementedError


def factor(parts: Any, row: int) -> Any:
    """What the numbers of `bare_unit` have still to be multiplied by."""
    raise NotImplementedError


def _bfloats(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.numbers[row], 32 * at
    return bfloats(line, i), bfloats(line, i + 8), bfloats(line, i + 16), bfloats(line, i + 24)


def _halves(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.numbers[row], 32 * at
    return halves(line, i), halves(line, i + 8), halves(line, i + 16), halves(line, i + 24)


def _integers(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.codes[row], 32 * at
    scale, level = splat(parts.absmax[row]), splat(parts.level)
    return (
        times(times(signed(line, i), scale), level),
        times(times(signed(line, i + 8), scale), level),
        times(times(signed(line, i + 16), scale), level),
        times(times(signed(line, i + 24), scale), level),
    )


def _bare_integers(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.codes[row], 32 * at
    return signed(line, i), signed(line, i + 8), signed(line, i + 16), signed(line, i + 24)


def _factor_of_integers(parts: Any, row: int) -> Any:
    return parts.absmax[row] * parts.level


def _no_factor(parts: Any, row: int) -> Any:  # noqa: ARG001  # numba looks at names
    return np.float32(1)


UNITS: dict[type, Callable[[Any, int, int], Unit]] = {
    layouts.Bfloats: _bfloats,
    layouts.Halves: _halves,
    layouts.Integers: _integers,
    **block_units.UNITS,
    **code_units.UNITS,
}


BARE: dict[type, Callable[[Any, int, int], Unit]] = {layouts.Integers: _bare_integers}
"""Where a whole row has one factor: units without it."""

FACTORS: dict[type, Callable[[Any, int], Any]] = {layouts.Integers: _factor_of_integers}
"""What such a row's sums are multiplied by at the end."""


def _unit_of(parts: Any, row: int, at: int) -> Callable[[Any, int, int], Unit]:  # noqa: ARG001  # as above
    return UNITS[parts.instance_class]


def _bare_unit_of(parts: Any, row: int, at: int) -> Callable[[Any, int, int], Unit]:  # noqa: ARG001
    return BARE.get(parts.instance_class) or UNITS[parts.instance_class]


def _factor_of(parts: Any, row: int) -> Callable[[Any, int], Any]:  # noqa: ARG001
    return FACTORS.get(parts.instance_class, _no_factor)


overload(unit)(_unit_of)
overload(bare_unit)(_bare_unit_of)
overload(factor)(_factor_of)
