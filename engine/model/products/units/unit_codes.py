"""Whole codes of two units at a time where each unit has a scale of its own, for products in whole numbers.

A number is a code without a sign, less than 64, times a scale, plus an offset: one that codes whose sign was taken from
them have, or their own. Offsets of bytes as in `blocks`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT
from engine.model.products.units.blocks import five_bits
from engine.model.products.units.digits import (
    both_scales,
    both_units,
    e2m1_codes,
    eight_half_powers,
    eight_halves,
    half_and_half,
    many_splat,
    many_times,
    two_nibbles,
    woven_nibbles,
)
from engine.model.products.units.fields import byte_at, spread
from engine.model.products.vectors import sixteen, splat, spread_half, thirty_two, times


def pair(parts: Any, row: int, at: int) -> Any:
    """The codes of a unit and of the next one; `at` is even."""
    raise NotImplementedError


def scales(parts: Any, row: int, at: int) -> Any:
    """What these are multiplied by: eight times that of the first unit, and eight times the other one."""
    raise NotImplementedError


def offsets(parts: Any, row: int, at: int, scale: Any) -> Any:
    """What is added to each of these, likewise, by their scales."""
    raise NotImplementedError


def whole_blocks(parts: Any, pairs: int) -> int:
    """Of how many blocks of 256 numbers, from the first on, scales are found together, if so many pairs are a row."""
    raise NotImplementedError


def eight_scales(parts: Any, row: int, block: int) -> Any:
    """Those of the eight units of a block of 256 numbers."""
    raise NotImplementedError


def eight_offsets(parts: Any, row: int, block: int, scale: Any) -> Any:
    """What is added to each number of these units, by their scales."""
    raise NotImplementedError


@compiled
def _two_halves(parts: Any, row: int, i: int, size: int) -> Any:
    """Two float16 numbers that lie so far apart."""
    line = parts.blocks[row]
    return both_scales(spread_half(line, i), spread_half(line, i + size))


@compiled
def _times(scale: Any, number: float) -> Any:
    return many_times(scale, many_splat(np.float32(number)))


@compiled
def _nibbles(parts: Any, row: int, i: int, size: int) -> Any:
    line = parts.blocks[row]
    return two_nibbles(sixteen(line, i), sixteen(line, i + size))


def _pair_q4_0(parts: Any, row: int, at: int) -> Any:
    return _nibbles(parts, row, 18 * at + 2, 18)


def _scales_q4_0(parts: Any, row: int, at: int) -> Any:
    return _two_halves(parts, row, 18 * at, 18)


def _offsets_q4_0(parts: Any, row: int, at: int, scale: Any) -> Any:  # noqa: ARG001  # numba looks at names
    return _times(scale, -8)


def _eight_q4_0(parts: Any, row: int, block: int) -> Any:
    return eight_halves(parts.blocks[row], 144 * block, 18)


def _less_q4_0(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return times(scale, splat(np.float32(-8)))


def _pair_q4_1(parts: Any, row: int, at: int) -> Any:
    return _nibbles(parts, row, 20 * at + 4, 20)


def _scales_q4_1(parts: Any, row: int, at: int) -> Any:
    return _two_halves(parts, row, 20 * at, 20)


def _offsets_q4_1(parts: Any, row: int, at: int, scale: Any) -> Any:  # noqa: ARG001
    return _two_halves(parts, row, 20 * at + 2, 20)


def _eight_q4_1(parts: Any, row: int, block: int) -> Any:
    return eight_halves(parts.blocks[row], 160 * block, 20)


def _more_q4_1(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return eight_halves(parts.blocks[row], 160 * block + 2, 20)


@compiled
def _five_bits(parts: Any, row: int, i: int, size: int) -> Any:
    line = parts.blocks[row]
    return both_units(five_bits(line, i), five_bits(line, i + size))


def _pair_q5_0(parts: Any, row: int, at: int) -> Any:
    return _five_bits(parts, row, 22 * at + 2, 22)


def _scales_q5_0(parts: Any, row: int, at: int) -> Any:
    return _two_halves(parts, row, 22 * at, 22)


def _offsets_q5_0(parts: Any, row: int, at: int, scale: Any) -> Any:  # noqa: ARG001
    return _times(scale, -16)


def _eight_q5_0(parts: Any, row: int, block: int) -> Any:
    return eight_halves(parts.blocks[row], 176 * block, 22)


def _less_q5_0(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return times(scale, splat(np.float32(-16)))


def _pair_q5_1(parts: Any, row: int, at: int) -> Any:
    return _five_bits(parts, row, 24 * at + 4, 24)


def _scales_q5_1(parts: Any, row: int, at: int) -> Any:
    return _two_halves(parts, row, 24 * at, 24)


def _offsets_q5_1(parts: Any, row: int, at: int, scale: Any) -> Any:  # noqa: ARG001
    return _two_halves(parts, row, 24 * at + 2, 24)


def _eight_q5_1(parts: Any, row: int, block: int) -> Any:
    return eight_halves(parts.blocks[row], 192 * block, 24)


def _more_q5_1(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return eight_halves(parts.blocks[row], 192 * block + 2, 24)


def _pair_mxfp4(parts: Any, row: int, at: int) -> Any:
    return e2m1_codes(_nibbles(parts, row, 17 * at + 1, 17))


def _scales_mxfp4(parts: Any, row: int, at: int) -> Any:
    line, steps = parts.blocks[row], parts.steps
    return both_scales(spread(steps, byte_at(line, 17 * at)), spread(steps, byte_at(line, 17 * at + 17)))


def _offsets_mxfp4(parts: Any, row: int, at: int, scale: Any) -> Any:  # noqa: ARG001
    return _times(scale, -12)


def _eight_mxfp4(parts: Any, row: int, block: int) -> Any:
    return eight_half_powers(parts.blocks[row], 136 * block, 17)


def _less_mxfp4(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return times(scale, splat(np.float32(-12)))


def _pair_scaled_levels(parts: Any, row: int, at: int) -> Any:
    return e2m1_codes(woven_nibbles(thirty_two(parts.codes[row], 16 * at)))


def _scales_scaled_levels(parts: Any, row: int, at: int) -> Any:
    line, steps, group = parts.scales[row], parts.steps, parts.group
    i = 32 * at
    first = half_and_half(spread(steps, line[i >> group]), spread(steps, line[(i + 16) >> group]))
    second = half_and_half(spread(steps, line[(i + 32) >> group]), spread(steps, line[(i + 48) >> group]))
    return _times(both_scales(first, second), 0.5)


def _no_eight(parts: Any, row: int, block: int) -> Any:  # noqa: ARG001
    return splat(np.float32(0))


def _no_more(parts: Any, row: int, block: int, scale: Any) -> Any:  # noqa: ARG001
    return scale


CODES: dict[type, tuple[Callable[..., Any], ...]] = {
    layouts.Q40: (_pair_q4_0, _scales_q4_0, _offsets_q4_0, _eight_q4_0, _less_q4_0),
    layouts.Q41: (_pair_q4_1, _scales_q4_1, _offsets_q4_1, _eight_q4_1, _more_q4_1),
    layouts.Q50: (_pair_q5_0, _scales_q5_0, _offsets_q5_0, _eight_q5_0, _less_q5_0),
    layouts.Q51: (_pair_q5_1, _scales_q5_1, _offsets_q5_1, _eight_q5_1, _more_q5_1),
    layouts.Mxfp4: (_pair_mxfp4, _scales_mxfp4, _offsets_mxfp4, _eight_mxfp4, _less_mxfp4),
    layouts.ScaledLevels: (_pair_scaled_levels, _scales_scaled_levels, _offsets_mxfp4, _no_eight, _no_more),
}
"""By layout: what stands for `pair`, `scales`, `offsets`, `eight_scales` and `eight_offsets`."""

SIZES: dict[type, int] = {layouts.Q40: 18, layouts.Q41: 20, layouts.Q50: 22, layouts.Q51: 24, layouts.Mxfp4: 17}
"""Bytes of a unit."""


def is_of_pairs(parts: Any) -> bool:
    """Whether these are codes of such a layout, and of an even number of units."""
    if isinstance(parts, layouts.ScaledLevels):
        return parts.levels is layouts.levels("e2m1") and parts.codes.shape[1] % UNIT == 0
    size = SIZES.get(type(parts))
    return size is not None and parts.blocks.shape[1] // size % 2 == 0


def _pair_of(parts: Any, row: int, at: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][0]


def _scales_of(parts: Any, row: int, at: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][1]


def _offsets_of(parts: Any, row: int, at: int, scale: Any) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][2]


def _all_blocks(parts: Any, pairs: int) -> int:  # noqa: ARG001
    return pairs // 4


def _no_blocks(parts: Any, pairs: int) -> int:  # noqa: ARG001
    return 0


def _whole_blocks_of(parts: Any, pairs: int) -> Callable[..., int]:  # noqa: ARG001
    return _no_blocks if parts.instance_class is layouts.ScaledLevels else _all_blocks


def _eight_scales_of(parts: Any, row: int, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][3]


def _eight_offsets_of(parts: Any, row: int, block: int, scale: Any) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][4]


overload(pair)(_pair_of)
overload(scales)(_scales_of)
overload(offsets)(_offsets_of)
overload(whole_blocks)(_whole_blocks_of)
overload(eight_scales)(_eight_scales_of)
overload(eight_offsets)(_eight_offsets_of)
