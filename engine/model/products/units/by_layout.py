"""Decodes a unit, 32 numbers in the order of their columns, of every layout: four vectors, with the bits of torch.

The arguments are the layout, a row, and which unit of the row. Compiled code calls `unit`, and gets that of the layout.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.units import blocks, codes, grids, k_blocks
from engine.model.products.units.k_blocks import PREPARED
from engine.model.products.vectors import bfloats, halves, numbers, signed, splat, times

SHARED = PREPARED  # numbers at most that are found at once for 256 columns


def find_scales(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    """Write what the units of 256 columns share into `scales`, from `own` on; some layouts have no need.

    These are factors, and of layouts where that is faster the columns' codes.
    """
    raise NotImplementedError


def unit(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    """The numbers of the columns from 32 x `at` on; their scales have been found."""
    raise NotImplementedError


def bare_unit(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:
    """The same, by the row's `factor`; numbers may be rounded otherwise."""
    raise NotImplementedError


def factor(parts: Any, row: int) -> Any:
    """What the numbers of `bare_unit` have still to be multiplied by."""
    raise NotImplementedError


def bytes_of_a_row(parts: Any) -> int:
    """How many bytes behind a row's codes in the first array those of the next one lie; 0 where they lie apart."""
    raise NotImplementedError


def _floats(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.numbers[row], 32 * at
    return numbers(line, i), numbers(line, i + 8), numbers(line, i + 16), numbers(line, i + 24)


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
    layouts.Floats: _floats,
    layouts.Bfloats: _bfloats,
    layouts.Halves: _halves,
    layouts.Integers: _integers,
    **blocks.UNITS,
    **codes.UNITS,
}

PREPARE, SCALED = k_blocks.PREPARE | grids.PREPARE, k_blocks.SCALED | grids.SCALED

BARE: dict[type, Callable[[Any, int, int], Unit]] = {layouts.Integers: _bare_integers, **blocks.BARE}
"""Where a whole row has one factor, units without it, and others that are faster in products."""

APART = frozenset({layouts.TurnedGroups, layouts.Outputs, layouts.OutputsWithZeros})

FACTORS: dict[type, Callable[[Any, int], Any]] = {layouts.Integers: _factor_of_integers}
"""What such a row's sums are multiplied by at the end."""


def _no_scales(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    pass


def _alone(unit_of: Callable[[Any, int, int], Unit]) -> Callable[..., Unit]:
    """A unit that has all its scales itself."""
    found = compiled(unit_of)

    def alone(parts: Any, row: int, at: int, scales: Array, own: int) -> Unit:  # noqa: ARG001  # numba looks at names
        return found(parts, row, at)

    return alone


def _one_behind_the_other(parts: Any) -> int:
    return int(parts[0].shape[1] * parts[0].itemsize)


def _apart(parts: Any) -> int:  # noqa: ARG001
    return 0


def _find_scales_of(parts: Any, row: int, at: int, scales: Array, own: int) -> Callable[..., None]:  # noqa: ARG001
    return PREPARE.get(parts.instance_class, _no_scales)


def _unit_of(parts: Any, row: int, at: int, scales: Array, own: int) -> Callable[..., Unit]:  # noqa: ARG001
    scaled = SCALED.get(parts.instance_class)
    return scaled or _alone(UNITS[parts.instance_class])


def _bare_unit_of(parts: Any, row: int, at: int, scales: Array, own: int) -> Callable[..., Unit]:
    bare = BARE.get(parts.instance_class)
    return _alone(bare) if bare else _unit_of(parts, row, at, scales, own)


def _factor_of(parts: Any, row: int) -> Callable[[Any, int], Any]:  # noqa: ARG001
    return FACTORS.get(parts.instance_class, _no_factor)


def _bytes_of_a_row_of(parts: Any) -> Callable[[Any], int]:
    return _apart if parts.instance_class in APART else _one_behind_the_other


overload(find_scales)(_find_scales_of)
overload(unit)(_unit_of)
overload(bare_unit)(_bare_unit_of)
overload(factor)(_factor_of)
overload(bytes_of_a_row)(_bytes_of_a_row_of)
