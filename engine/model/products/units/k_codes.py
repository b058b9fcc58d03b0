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
    turned_factors,
    two_fields,
)
from engine.model.products.units.fields import six_bits
from engine.model.products.units.fours import high_codes, low_codes, sixty_four
from engine.model.products.units.k_blocks import factors_q3_k
from engine.model.products.units.several import with_sums
from engine.model.products.units.written import BY_TURNS, BY_UNITS
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


def four(parts: Any, row: int, block: int, half: int) -> Any:
    """The codes of half of a block's units, without a sign, less than 64: two of these, and the other two.

    The first ones are those of the first unit and the next, or of the first and the third, see `ORDERS`.
    """
    raise NotImplementedError


def bytes_of_a_block(parts: Any) -> int:
    """How long a block of 256 numbers is."""
    raise NotImplementedError


def head(parts: Any, row: int, block: int) -> Any:
    """Sixteen bytes in which a block's factors are, and all that its offsets are made of but for one number."""
    raise NotImplementedError


def factors(parts: Any, found: Any) -> Any:
    """The whole factors of a block from its head, see `turned_factors` and `half_factors`."""
    raise NotImplementedError


def factor(parts: Any, row: int, block: int) -> Any:
    """What all of a block is multiplied by, eight times."""
    raise NotImplementedError


def with_offsets(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
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


def _four_q2_k(parts: Any, row: int, block: int, half: int) -> Any:
    both = thirty_two(parts.blocks[row], 84 * block + 16 + 32 * half)
    return two_fields(both, 0, 2, 3), two_fields(both, 4, 6, 3)


def _head_q2_k(parts: Any, row: int, block: int) -> Any:
    return sixteen(parts.blocks[row], 84 * block)


def _factors_q2_k(parts: Any, found: Any) -> Any:  # noqa: ARG001  # numba looks at names
    return half_factors(masked(found, 15))


def _factor_q2_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 84 * block + 80)


def _offsets_q2_k(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
    less, scale = shifted(found, 4), _times(spread_half(parts.blocks[row], 84 * block + 82), -1)
    return _of_halves(first(less), last(less), scale, x, block, offset)


def _four_q3_k(parts: Any, row: int, block: int, half: int) -> Any:
    line, i, unit = parts.blocks[row], 110 * block, 4 * half
    both, third = thirty_two(line, i + 32 + 32 * half), thirty_two(line, i)
    begin = joined(two_fields(both, 0, 2, 3), two_fields(third, unit - 2, unit - 1, 4))
    return begin, joined(two_fields(both, 4, 6, 3), two_fields(third, unit, unit + 1, 4))


def _head_q3_k(parts: Any, row: int, block: int) -> Any:
    return factors_q3_k(parts.blocks[row], 110 * block)


def _half_factors(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return half_factors(found)


def _factor_q3_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 110 * block + 108)


def _offsets_q3_k(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
    scale = _times(spread_half(parts.blocks[row], 110 * block + 108), -4 * HIGH)
    return _of_halves(first_high(found), last_high(found), scale, x, block, offset)


def _four_q4_k(parts: Any, row: int, block: int, half: int) -> Any:
    found = sixty_four(parts.blocks[row], 144 * block + 16 + 64 * half)
    return low_codes(found), high_codes(found)


def _head_q4_k(parts: Any, row: int, block: int) -> Any:
    return six_bits(parts.blocks[row], 144 * block)


def _turned_factors(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return turned_factors(found)


def _factor_q4_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 144 * block)


def _offsets_q4_k(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
    scale = _times(spread_half(parts.blocks[row], 144 * block + 2), -1)
    return _of_units(last(found), scale, x, block, offset)


def _four_q5_k(parts: Any, row: int, block: int, half: int) -> Any:
    line, i, place = parts.blocks[row], 176 * block, 4 * half - 4
    found, fifth = sixty_four(line, i + 48 + 64 * half), thirty_two(line, i + 16)
    low = joined(low_codes(found), two_fields(fifth, place, place + 2, 16))
    return low, joined(high_codes(found), two_fields(fifth, place + 1, place + 3, 16))


def _head_q5_k(parts: Any, row: int, block: int) -> Any:
    return six_bits(parts.blocks[row], 176 * block)


def _factor_q5_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 176 * block)


def _offsets_q5_k(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
    scale = _times(spread_half(parts.blocks[row], 176 * block + 2), -1)
    return _of_units(last(found), scale, x, block, offset)


def _four_q6_k(parts: Any, row: int, block: int, half: int) -> Any:
    line, i = parts.blocks[row], 210 * block
    found, high = sixty_four(line, i + 64 * half), thirty_two(line, i + 128 + 32 * half)
    begin = joined(low_codes(found), two_fields(high, -4, -2, 48))
    return begin, joined(high_codes(found), two_fields(high, 0, 2, 48))


def _head_q6_k(parts: Any, row: int, block: int) -> Any:
    return sixteen(parts.blocks[row], 210 * block + 192)


def _factor_q6_k(parts: Any, row: int, block: int) -> Any:
    return spread_half(parts.blocks[row], 210 * block + 208)


def _offsets_q6_k(parts: Any, row: int, block: int, found: Any, x: Any, offset: Any) -> Any:
    scale = _times(spread_half(parts.blocks[row], 210 * block + 208), -32 * HIGH)
    return _of_halves(first_high(found), last_high(found), scale, x, block, offset)


CODES: dict[type, tuple[Callable[..., Any], ...]] = {
    layouts.Q2K: (_four_q2_k, _head_q2_k, _factors_q2_k, _factor_q2_k, _offsets_q2_k),
    layouts.Q3K: (_four_q3_k, _head_q3_k, _half_factors, _factor_q3_k, _offsets_q3_k),
    layouts.Q4K: (_four_q4_k, _head_q4_k, _turned_factors, _factor_q4_k, _offsets_q4_k),
    layouts.Q5K: (_four_q5_k, _head_q5_k, _turned_factors, _factor_q5_k, _offsets_q5_k),
    layouts.Q6K: (_four_q6_k, _head_q6_k, _half_factors, _factor_q6_k, _offsets_q6_k),
}
"""By layout: what stands for `four`, `head`, `factors`, `factor` and `with_offsets`."""

SIZES: dict[type, int] = {
    layouts.Q2K: 84,
    layouts.Q3K: 110,
    layouts.Q4K: 144,
    layouts.Q5K: 176,
    layouts.Q6K: 210,
}
"""Bytes of a block."""

ORDERS: dict[type, int] = {
    layouts.Q2K: BY_UNITS,
    layouts.Q3K: BY_UNITS,
    layouts.Q4K: BY_TURNS,
    layouts.Q5K: BY_TURNS,
    layouts.Q6K: BY_UNITS,
}
"""In which order numbers are written that codes are multiplied with, see `written`."""

SMALL = frozenset({layouts.Q2K, layouts.Q3K, layouts.Q4K, layouts.Q5K})
"""Of which the products of 32 codes, factors and numbers of two digits have room in 32 bits together."""


def _size_of(parts: Any) -> Callable[[Any], int]:
    size = SIZES[parts.instance_class]

    def constant(parts: Any) -> int:  # noqa: ARG001  # numba looks at names
        return size

    return constant


def _four_of(parts: Any, row: int, block: int, half: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][0]


def _head_of(parts: Any, row: int, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][1]


def _factors_of(parts: Any, found: Any) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][2]


def _factor_of(parts: Any, row: int, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][3]


def _offsets_of(
    parts: Any, row: int, block: int, found: Any, x: Any, offset: Any  # noqa: ARG001
) -> Callable[..., Any]:  # fmt: skip
    return CODES[parts.instance_class][4]


overload(bytes_of_a_block)(_size_of)
overload(four)(_four_of)
overload(head)(_head_of)
overload(factors)(_factors_of)
overload(factor)(_factor_of)
overload(with_offsets)(_offsets_of)
