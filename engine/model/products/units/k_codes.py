"""Codes and whole factors of GGUF's blocks of 256 numbers, for products in whole numbers; offsets as in `k_blocks`.

A block's numbers are codes times whole factors of units, or of their halves, times one float16 number; some have
offsets, which are multiplied with sums of x.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.units.digits import (
    half_factors,
    joined,
    pair_field,
    sixty_four,
    two_fields,
    unit_factors,
)
from engine.model.products.units.k_blocks import factors_q3_k, factors_q4_k
from engine.model.products.units.several import with_sums
from engine.model.products.vectors import (
    first,
    first_high,
    last,
    last_high,
    masked,
    shifted,
    sixteen,
    splat,
    spread_half,
    thirty_two,
    times,
)

HIGH = 2.0**-24  # by which `first_high` is too large


def pair(parts: Any, row: int, block: int, unit: int) -> Any:
    """The codes of a unit of a block and the next one, without a sign, less than 64; `unit` is even."""
    raise NotImplementedError


def factors(parts: Any, row: int, block: int) -> Any:
    """The whole factors of a block, see `unit_factors` and `half_factors`."""
    raise NotImplementedError


def factor(parts: Any, row: int, block: int) -> Any:
    """What all of a block is multiplied by, eight times."""
    raise NotImplementedError


def with_offsets(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    """`offset`, eight numbers of each row of x, and what the block's offsets times its sums come to.

    x: see `whole_numbers.Rows`. Offsets are those of codes whose sign was taken from them, too.
    """
    raise NotImplementedError


@compiled
def _of_units(found: Any, scale: Any, x: Any, block: int, offset: Any) -> Any:
    return with_sums(times(found, scale), x[2], 8 * len(x[3]) * block, offset, x[3])


@compiled
def _of_halves(begin: Any, end: Any, scale: Any, x: Any, block: int, offset: Any) -> Any:
    rows = len(x[3])
    at = len(x[2]) // 3 + 16 * rows * block
    offset = with_sums(times(begin, scale), x[2], at, offset, x[3])
    return with_sums(times(end, scale), x[2], at + 8 * rows, offset, x[3])


@compiled
def _times(scale: Any, number: float) -> Any:
    return times(scale, splat(np.float32(number)))


def _pair_q2_k(parts: Any, row: int, block: int, unit: int) -> Any:
    place = 2 * (unit & 3)
    return two_fields(thirty_two(parts.blocks[row], 84 * block + 16 + 32 * (unit >> 2)), place, place + 2, 3)


def _factors_q2_k(parts: Any, row: int, block: int) -> Any:
    return half_factors(masked(sixteen(parts.blocks[row], 84 * block), 15))


def _factor_q2_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 84 * block + 80)


def _offsets_q2_k(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    line, i = parts.blocks[row], 84 * block
    found, scale = shifted(sixteen(line, i), 4), _times(spread_half(line, i + 82), -1)
    return _of_halves(first(found), last(found), scale, x, block, offset)


def _pair_q3_k(parts: Any, row: int, block: int, unit: int) -> Any:
    line, i, place = parts.blocks[row], 110 * block, 2 * (unit & 3)
    low = two_fields(thirty_two(line, i + 32 + 32 * (unit >> 2)), place, place + 2, 3)
    return joined(low, two_fields(thirty_two(line, i), unit - 2, unit - 1, 4))


def _factors_q3_k(parts: Any, row: int, block: int) -> Any:
    return half_factors(factors_q3_k(parts.blocks[row], 110 * block))


def _factor_q3_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 110 * block + 108)


def _offsets_q3_k(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    line, i = parts.blocks[row], 110 * block
    found, scale = factors_q3_k(line, i), _times(spread_half(line, i + 108), -4 * HIGH)
    return _of_halves(first_high(found), last_high(found), scale, x, block, offset)


def _pair_q4_k(parts: Any, row: int, block: int, unit: int) -> Any:
    return two_fields(thirty_two(parts.blocks[row], 144 * block + 16 + 16 * unit), 0, 4, 15)


def _factors_q4_k(parts: Any, row: int, block: int) -> Any:
    return unit_factors(factors_q4_k(parts.blocks[row], 144 * block))


def _factor_q4_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 144 * block)


def _offsets_q4_k(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    line, i = parts.blocks[row], 144 * block
    return _of_units(last(factors_q4_k(line, i)), _times(spread_half(line, i + 2), -1), x, block, offset)


def _pair_q5_k(parts: Any, row: int, block: int, unit: int) -> Any:
    line, i = parts.blocks[row], 176 * block
    low = two_fields(thirty_two(line, i + 48 + 16 * unit), 0, 4, 15)
    return joined(low, two_fields(thirty_two(line, i + 16), unit - 4, unit - 3, 16))


def _factors_q5_k(parts: Any, row: int, block: int) -> Any:
    return unit_factors(factors_q4_k(parts.blocks[row], 176 * block))


def _factor_q5_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 176 * block)


def _offsets_q5_k(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    line, i = parts.blocks[row], 176 * block
    return _of_units(last(factors_q4_k(line, i)), _times(spread_half(line, i + 2), -1), x, block, offset)


def _pair_q6_k(parts: Any, row: int, block: int, unit: int) -> Any:
    line, i, side, quarter = parts.blocks[row], 210 * block, unit >> 2, unit & 3
    low = pair_field(sixty_four(line, i + 64 * side), 2 * quarter, 15)
    return joined(low, two_fields(thirty_two(line, i + 128 + 32 * side), 2 * quarter - 4, 2 * quarter - 2, 48))


def _factors_q6_k(parts: Any, row: int, block: int) -> Any:
    return half_factors(sixteen(parts.blocks[row], 210 * block + 192))


def _factor_q6_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 210 * block + 208)


def _offsets_q6_k(parts: Any, row: int, block: int, x: Any, offset: Any) -> Any:
    line, i = parts.blocks[row], 210 * block
    found, scale = sixteen(line, i + 192), _times(spread_half(line, i + 208), -32 * HIGH)
    return _of_halves(first_high(found), last_high(found), scale, x, block, offset)


CODES: dict[type, tuple[Callable[..., Any], ...]] = {
    layouts.Q2K: (_pair_q2_k, _factors_q2_k, _factor_q2_k, _offsets_q2_k),
    layouts.Q3K: (_pair_q3_k, _factors_q3_k, _factor_q3_k, _offsets_q3_k),
    layouts.Q4K: (_pair_q4_k, _factors_q4_k, _factor_q4_k, _offsets_q4_k),
    layouts.Q5K: (_pair_q5_k, _factors_q5_k, _factor_q5_k, _offsets_q5_k),
    layouts.Q6K: (_pair_q6_k, _factors_q6_k, _factor_q6_k, _offsets_q6_k),
}
"""By layout: what stands for `pair`, `factors`, `factor` and `with_offsets`."""


def _pair_of(parts: Any, row: int, block: int, unit: int) -> Callable[..., Any]:  # noqa: ARG001  # numba looks at names
    return CODES[parts.instance_class][0]


def _factors_of(parts: Any, row: int, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][1]


def _factor_of(parts: Any, row: int, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][2]


def _offsets_of(parts: Any, row: int, block: int, x: Any, offset: Any) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][3]


overload(pair)(_pair_of)
overload(factors)(_factors_of)
overload(factor)(_factor_of)
overload(with_offsets)(_offsets_of)
