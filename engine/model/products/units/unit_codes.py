"""Codes of four units at a time where each unit has scales of its own, for products in whole numbers.

A number is a code without a sign times a scale, plus an offset: one that codes whose sign was taken from them have, or
their own. Rows are read in blocks of eight units; a last one that is shorter is copied first, zeros behind it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.units.digits import adds_products
from engine.model.products.units.digits import joined as either_bits
from engine.model.products.units.fields import as_numbers, fields, joined, short_at, word_at
from engine.model.products.units.fours import (
    copy_bytes,
    e2m1_codes,
    eight_half_powers,
    eight_halves,
    fifth_bits,
    first_halves,
    first_scales,
    four_of,
    high_codes,
    iq4_codes,
    last_halves,
    last_scales,
    low_codes,
    scales_of_halves,
    sixty_four,
)
from engine.model.products.units.several import with_sums
from engine.model.products.units.sixteen import first_eight, last_eight, many_splat, many_times
from engine.model.products.units.written import BY_HALVES, WOVEN
from engine.model.products.vectors import minus, splat, spread_half, times

UNITS = 8  # of a block

Codes = tuple[Any, Any]
"""Of 64 bytes the codes in the lower halves and in the upper ones, as other bytes."""
Line = tuple[Array, Array]
"""A row's codes, and where those lie elsewhere its scales."""


def line_of(parts: Any, row: int) -> Line:
    """A row's bytes."""
    raise NotImplementedError


def bytes_of_a_block(parts: Any) -> int:
    """Without scales that lie elsewhere."""
    raise NotImplementedError


def whole_blocks(parts: Any) -> int:
    """How many full ones a row has."""
    raise NotImplementedError


def room_for(parts: Any, rows: int) -> Line:
    """Zeros for one block of so many rows."""
    raise NotImplementedError


def copy_rest(parts: Any, row: int, block: int, rests: Line, at: int) -> None:
    """Copy what a row has from a block on, which is less than one, to one of these rows."""
    raise NotImplementedError


@compiled
def rest_of(rests: Line, at: int) -> Line:
    """One of these rows."""
    return rests[0][at], rests[1][at]


def codes(parts: Any, line: Line, four: int) -> Codes:
    """Those of four units."""
    raise NotImplementedError


def scales(parts: Any, line: Line, block: int) -> Any:
    """Those of the eight units of a block, or of the sixteen halves of these."""
    raise NotImplementedError


def first_four(parts: Any, found: Any) -> Any:
    """Of these the scales of what the first four units' bytes are multiplied by, sixteen."""
    raise NotImplementedError


def last_four(parts: Any, found: Any) -> Any:
    """And of the last four ones."""
    raise NotImplementedError


def with_offsets(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:
    """`offset`, eight numbers of each row of x, and what the offsets of a block's units times its sums come to.

    x: see `whole_numbers.Rows`; `at`: which of its blocks.
    """
    raise NotImplementedError


_halves_q4_0, _four_q4_0 = eight_halves(18, 0), four_of(18, 2)
_halves_q4_1, offsets_q4_1, _four_q4_1 = eight_halves(20, 0), eight_halves(20, 2), four_of(20, 4)
_halves_q5_0, _four_q5_0 = eight_halves(22, 0), four_of(22, 6)
_first_fifths_q5_0, _last_fifths_q5_0 = fifth_bits(22, 2, 0), fifth_bits(22, 2, 1)
_halves_q5_1, offsets_q5_1, _four_q5_1 = eight_halves(24, 0), eight_halves(24, 2), four_of(24, 8)
_first_fifths_q5_1, _last_fifths_q5_1 = fifth_bits(24, 4, 0), fifth_bits(24, 4, 1)
_powers_mxfp4, _four_mxfp4 = eight_half_powers(17), four_of(17, 1)


@compiled
def _both(found: Any) -> Codes:
    return low_codes(found), high_codes(found)


@compiled
def _constant(found: Any, number: float, x: Any, at: int, offset: Any) -> Any:
    """Offsets that are a number times the scales."""
    return with_sums(times(found, splat(np.float32(number))), x[2], UNITS * len(x[3]) * at, offset, x[3])


def _codes_q4_0(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001  # numba looks at names
    return _both(_four_q4_0(line[0], 72 * four))


def _scales_q4_0(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    return _halves_q4_0(line[0], 144 * block)


def _with_q4_0(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return _constant(found, -8, x, at, offset)


def _codes_q4_1(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    return _both(_four_q4_1(line[0], 80 * four))


def _scales_q4_1(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    return _halves_q4_1(line[0], 160 * block)


def _with_q4_1(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return with_sums(offsets_q4_1(line[0], 160 * block), x[2], UNITS * len(x[3]) * at, offset, x[3])


def _codes_q5_0(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(_four_q5_0(line[0], 88 * four))
    first, last = _first_fifths_q5_0(line[0], 88 * four), _last_fifths_q5_0(line[0], 88 * four)
    return either_bits(low, first), either_bits(high, last)


def _scales_q5_0(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    return _halves_q5_0(line[0], 176 * block)


def _with_q5_0(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return _constant(found, -16, x, at, offset)


def _codes_q5_1(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(_four_q5_1(line[0], 96 * four))
    first, last = _first_fifths_q5_1(line[0], 96 * four), _last_fifths_q5_1(line[0], 96 * four)
    return either_bits(low, first), either_bits(high, last)


def _scales_q5_1(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    return _halves_q5_1(line[0], 192 * block)


def _with_q5_1(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return with_sums(offsets_q5_1(line[0], 192 * block), x[2], UNITS * len(x[3]) * at, offset, x[3])


def _codes_mxfp4(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(_four_mxfp4(line[0], 68 * four))
    return e2m1_codes(low), e2m1_codes(high)


def _scales_mxfp4(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    return _powers_mxfp4(line[0], 136 * block)


def _with_mxfp4(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return _constant(found, -12, x, at, offset)


def _codes_iq4_nl(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(_four_q4_0(line[0], 72 * four))
    return iq4_codes(low), iq4_codes(high)


def _with_iq4(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    return _constant(found, -127, x, at, offset)


def _codes_iq4_xs(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(sixty_four(line[0], 136 * (four >> 1) + 8 + 64 * (four & 1)))
    return iq4_codes(low), iq4_codes(high)


def _scales_iq4_xs(parts: Any, line: Line, block: int) -> Any:  # noqa: ARG001
    row, i = line[0], 136 * block
    factors = joined(fields(word_at(row, i + 4), 4, 15), fields(short_at(row, i + 2), 2, 3), 4)
    return times(minus(as_numbers(factors), splat(np.float32(32))), spread_half(row, i))


def _codes_levels(parts: Any, line: Line, four: int) -> Codes:  # noqa: ARG001
    low, high = _both(sixty_four(line[0], 64 * four))
    return e2m1_codes(low), e2m1_codes(high)


def _scales_levels(parts: Any, line: Line, block: int) -> Any:
    found = scales_of_halves(parts.steps, line[1], (256 * block) >> parts.group, parts.group)
    return many_times(found, many_splat(np.float32(0.5)))


def _with_levels(parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any) -> Any:  # noqa: ARG001
    less, rows = splat(np.float32(-12)), len(x[3])
    i = len(x[2]) // 3 + 2 * UNITS * rows * at
    offset = with_sums(times(first_eight(found), less), x[2], i, offset, x[3])
    return with_sums(times(last_eight(found), less), x[2], i + UNITS * rows, offset, x[3])


CODES: dict[type, tuple[Callable[..., Any], ...]] = {
    layouts.Q40: (_codes_q4_0, _scales_q4_0, _with_q4_0),
    layouts.Q41: (_codes_q4_1, _scales_q4_1, _with_q4_1),
    layouts.Q50: (_codes_q5_0, _scales_q5_0, _with_q5_0),
    layouts.Q51: (_codes_q5_1, _scales_q5_1, _with_q5_1),
    layouts.Mxfp4: (_codes_mxfp4, _scales_mxfp4, _with_mxfp4),
    layouts.Iq4Nl: (_codes_iq4_nl, _scales_q4_0, _with_iq4),
    layouts.Iq4Xs: (_codes_iq4_xs, _scales_iq4_xs, _with_iq4),
    layouts.ScaledLevels: (_codes_levels, _scales_levels, _with_levels),
}
"""By layout: what stands for `codes`, `scales` and `with_offsets`."""

SIZES: dict[type, int] = {
    layouts.Q40: 144,
    layouts.Q41: 160,
    layouts.Q50: 176,
    layouts.Q51: 192,
    layouts.Mxfp4: 136,
    layouts.Iq4Nl: 144,
    layouts.Iq4Xs: 136,
    layouts.ScaledLevels: 128,
}
"""Bytes of a block, without scales that lie elsewhere."""

WIDE = frozenset({layouts.Iq4Nl, layouts.Iq4Xs})
"""Whose codes take up to 8 bits."""


def order_of(parts: Any) -> int | None:
    """In which order x is written for such a matrix, see `written`; None if it is none of these, on this processor."""
    if type(parts) not in CODES or (type(parts) in WIDE and not adds_products()):
        return None
    if not isinstance(parts, layouts.ScaledLevels):
        return BY_HALVES
    return WOVEN if parts.levels is layouts.levels("e2m1") else None


def _bytes_of(parts: Any, row: int) -> Line:
    return parts.blocks[row], parts.blocks[row]


def _codes_and_scales_of(parts: Any, row: int) -> Line:
    return parts.codes[row], parts.scales[row]


def _constant_of(size: int) -> Callable[[Any], int]:
    def constant(parts: Any) -> int:  # noqa: ARG001
        return size

    return constant


def _whole_of(size: int) -> Callable[[Any], int]:
    def whole(parts: Any) -> int:
        return parts[0].shape[1] // size  # type: ignore[no-any-return]

    return whole


def _room_for_blocks(size: int) -> Callable[..., Line]:
    def room(parts: Any, rows: int) -> Line:  # noqa: ARG001
        made = np.zeros((rows, size), np.uint8)
        return made, made

    return room


def _room_for_levels(parts: Any, rows: int) -> Line:  # noqa: ARG001
    return np.zeros((rows, 128), np.uint8), np.zeros((rows, 16), np.uint8)


def _copying_blocks(size: int) -> Callable[..., None]:
    def copying(parts: Any, row: int, block: int, rests: Line, at: int) -> None:
        line = parts.blocks[row]
        copy_bytes(line, size * block, rests[0][at], len(line) - size * block)

    return copying


def _copy_levels(parts: Any, row: int, block: int, rests: Line, at: int) -> None:
    codes, scales, begin = parts.codes[row], parts.scales[row], (256 * block) >> parts.group
    copy_bytes(codes, 128 * block, rests[0][at], len(codes) - 128 * block)
    copy_bytes(scales, begin, rests[1][at], len(scales) - begin)


def _first_of_units(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return first_scales(found)


def _last_of_units(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return last_scales(found)


def _first_of_halves(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return first_halves(found)


def _last_of_halves(parts: Any, found: Any) -> Any:  # noqa: ARG001
    return last_halves(found)


def _has_scales_apart(parts: Any) -> bool:
    return parts.instance_class is layouts.ScaledLevels


def _line_of(parts: Any, row: int) -> Callable[..., Line]:  # noqa: ARG001
    return _codes_and_scales_of if _has_scales_apart(parts) else _bytes_of


def _bytes_of_a_block_of(parts: Any) -> Callable[[Any], int]:
    return _constant_of(SIZES[parts.instance_class])


def _whole_blocks_of(parts: Any) -> Callable[[Any], int]:
    return _whole_of(SIZES[parts.instance_class])


def _room_of(parts: Any, rows: int) -> Callable[..., Line]:  # noqa: ARG001
    return _room_for_levels if _has_scales_apart(parts) else _room_for_blocks(SIZES[parts.instance_class])


def _copying(parts: Any, row: int, block: int, rests: Line, at: int) -> Callable[..., None]:  # noqa: ARG001
    return _copy_levels if _has_scales_apart(parts) else _copying_blocks(SIZES[parts.instance_class])


def _codes_of(parts: Any, line: Line, four: int) -> Callable[..., Codes]:  # noqa: ARG001
    return CODES[parts.instance_class][0]


def _scales_of(parts: Any, line: Line, block: int) -> Callable[..., Any]:  # noqa: ARG001
    return CODES[parts.instance_class][1]


def _with_offsets_of(
    parts: Any, line: Line, block: int, found: Any, x: Any, at: int, offset: Any  # noqa: ARG001
) -> Callable[..., Any]:  # fmt: skip
    return CODES[parts.instance_class][2]


def _first_four_of(parts: Any, found: Any) -> Callable[..., Any]:  # noqa: ARG001
    return _first_of_halves if _has_scales_apart(parts) else _first_of_units


def _last_four_of(parts: Any, found: Any) -> Callable[..., Any]:  # noqa: ARG001
    return _last_of_halves if _has_scales_apart(parts) else _last_of_units


overload(line_of)(_line_of)
overload(bytes_of_a_block)(_bytes_of_a_block_of)
overload(whole_blocks)(_whole_blocks_of)
overload(room_for)(_room_of)
overload(copy_rest)(_copying)
overload(codes)(_codes_of)
overload(scales)(_scales_of)
overload(with_offsets)(_with_offsets_of)
overload(first_four)(_first_four_of)
overload(last_four)(_last_four_of)
