"""Units written as 32 numbers of bfloat16, sixteen at a time: what products of tiles and of pairs are made of.

Codes of 4 bits with one factor for sixteen numbers or more become numbers in one look-up: the sixteen that they can
stand for are computed and rounded once. Where that is not so units are decoded as for products in float32. The bits are
those of the decoded numbers, rounded to the nearest, ties to even.

Needs AVX-512 with its instructions for bfloat16, which every processor with a unit for tiles has, too.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import overload

from engine.model.products import building, layouts
from engine.model.products.building import (
    BYTES,
    EIGHT_NUMBERS,
    F16,
    I8,
    I16,
    I32,
    MANY,
    chosen,
    constant,
    instruction,
    load,
    operation,
    undefined,
)
from engine.model.products.compiling import compiled
from engine.model.products.layouts import UNIT, Array
from engine.model.products.units import by_layout, k_blocks, k_codes
from engine.model.products.units.blocks import HIGH
from engine.model.products.units.digits import (
    MANY_SHORTS,
    PAIR_OF_BYTES,
    SIXTEEN_SHORTS,
)
from engine.model.products.units.fields import byte_at
from engine.model.products.units.k_blocks import OFFSETS, codes_at
from engine.model.products.units.sixteen import (
    SIXTEEN_NUMBERS,
    many_fused,
    many_splat,
    many_times,
    sixteen_numbers,
)
from engine.model.products.vectors import first_high, last_high, number, sixteen, splat, spread_half, store, times

_WIDE = SIXTEEN_NUMBERS.llvm


class Bfloat(ir.types._BaseFloatType):  # type: ignore[misc]  # llvmlite has no types, nor this one of LLVM's
    """LLVM's bfloat."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"


Bfloat._create_instance()


def _rounded(builder: Any, numbers: Any) -> Any:
    name, kind = "llvm.x86.avx512bf16.cvtneps2bf16.512", ir.VectorType(Bfloat(), BYTES)
    return builder.bitcast(instruction(builder, name, kind, numbers), SIXTEEN_SHORTS.llvm)


def _both_rounded(builder: Any, low: Any, high: Any) -> Any:
    name, kind = "llvm.x86.avx512bf16.cvtne2ps2bf16.512", ir.VectorType(Bfloat(), MANY)
    return builder.bitcast(instruction(builder, name, kind, high, low), MANY_SHORTS.llvm)


def _added_pairs(builder: Any, first: Any, second: Any, sums: Any) -> Any:
    kind = ir.VectorType(Bfloat(), MANY)
    factors = [builder.bitcast(each, kind) for each in (first, second)]
    return instruction(builder, "llvm.x86.avx512bf16.dpbf16ps.512", _WIDE, sums, *factors)


def _looked_up(builder: Any, table: Any, codes: Any) -> Any:
    """Of each code the lowest four bits count."""
    return instruction(builder, "llvm.x86.avx512.permvar.hi.256", SIXTEEN_SHORTS.llvm, table, codes)


def _many_looked_up(builder: Any, table: Any, codes: Any) -> Any:
    """The same of 32 codes, of which the lowest five bits count: so the table is there twice."""
    twice = chosen(builder, table, undefined(table), [*range(BYTES)] * 2)
    return instruction(builder, "llvm.x86.avx512.permvar.hi.512", MANY_SHORTS.llvm, twice, codes)


def _in_turns(first: int, second: int) -> Callable[[Any, Any], Any]:
    """Of sixteen bytes those of 4 bits that begin at a bit, and those at another, in turns: in 16 bits each.

    Above them are other bits, which a look-up does not count.
    """

    def build(builder: Any, loaded: Any) -> Any:
        wide = builder.zext(loaded, ir.VectorType(I32, BYTES))
        low = builder.lshr(wide, constant(wide.type, first))
        found = builder.or_(low, builder.shl(wide, constant(wide.type, 16 - second)))
        return builder.bitcast(found, MANY_SHORTS.llvm)

    return build


def _numbers(builder: Any, loaded: Any) -> Any:
    return builder.sitofp(builder.sext(loaded, ir.VectorType(I32, BYTES)), _WIDE)


def _counted(builder: Any, loaded: Any) -> Any:
    return builder.uitofp(builder.zext(loaded, ir.VectorType(I32, BYTES)), _WIDE)


def _spread_half(builder: Any, bits: Any) -> Any:
    one = builder.insert_element(ir.Constant(SIXTEEN_SHORTS.llvm, ir.Undefined), bits, ir.Constant(I32, 0))
    halves = builder.bitcast(chosen(builder, one, undefined(one), [0] * BYTES), ir.VectorType(F16, BYTES))
    return builder.fpext(halves, _WIDE)


_BYTES = ir.VectorType(I8, BYTES)
_signed = load(SIXTEEN_NUMBERS, _BYTES, _numbers)
_unsigned = load(SIXTEEN_NUMBERS, _BYTES, _counted)
_half = load(SIXTEEN_NUMBERS, I16, _spread_half)
_shorts = load(SIXTEEN_SHORTS, _BYTES, lambda builder, loaded: builder.zext(loaded, SIXTEEN_SHORTS.llvm))
_low_first, _high_first = (load(MANY_SHORTS, _BYTES, _in_turns(*places)) for places in ((0, 4), (4, 0)))
bfloats_at = load(MANY_SHORTS, MANY_SHORTS.llvm, lambda _, loaded: loaded)
"""Thirty-two numbers of bfloat16, as bits."""
_upper = operation(
    SIXTEEN_SHORTS, (SIXTEEN_SHORTS,), lambda builder, codes: builder.lshr(codes, constant(codes.type, 4))
)
_table = operation(SIXTEEN_SHORTS, (SIXTEEN_NUMBERS,), _rounded)
bfloats_of = operation(MANY_SHORTS, (SIXTEEN_NUMBERS,) * 2, _both_rounded)
"""Thirty-two numbers, rounded to bfloat16."""
_found = operation(SIXTEEN_SHORTS, (SIXTEEN_SHORTS,) * 2, _looked_up)
_all_found = operation(MANY_SHORTS, (SIXTEEN_SHORTS, MANY_SHORTS), _many_looked_up)
_joined = operation(
    SIXTEEN_NUMBERS, (EIGHT_NUMBERS,) * 2, lambda builder, low, high: chosen(builder, low, high, [*range(BYTES)])
)
added_pairs = operation(SIXTEEN_NUMBERS, (MANY_SHORTS, MANY_SHORTS, SIXTEEN_NUMBERS), _added_pairs)
"""(bfloat16, bfloat16, sums): products of 32 numbers with as many, those of two beside each other added to a sum."""
_store_sixteen, store_bfloats, _store_pair = map(building.store, (SIXTEEN_SHORTS, MANY_SHORTS, PAIR_OF_BYTES))

WHOLE = np.arange(-15, 16, dtype=np.float32)
"""Whole numbers: from `15 - zero` on sixteen of them are what codes of 4 bits are less a zero point."""


def write_units(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> None:
    """Write the numbers of the columns [32 x begin, 32 x end) as bfloat16 into out, from i on.

    `begin`: a multiple of 8, as many units as have their factors found together, see `find_factors`.
    """
    raise NotImplementedError


def find_factors(parts: Any, row: int, at: int, scales: Array) -> None:
    """Write what the units of 256 columns share into `scales`, of `by_layout.SHARED` numbers."""
    raise NotImplementedError


@compiled
def _write_halves(line: Array, place: int, table: Any, out: Array, i: int) -> None:
    """Sixteen bytes at a place: the lower four bits of all are codes of the first columns, the upper four of others."""
    codes = _shorts(line, place)
    _store_sixteen(out, i, _found(table, codes))
    _store_sixteen(out, i + 16, _found(table, _upper(codes)))


def _q4_0(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001  # numba looks at names
    line, place = parts.blocks[row], 18 * at
    table = _table(many_times(sixteen_numbers(WHOLE, 7), _half(line, place)))
    _write_halves(line, place + 2, table, out, i)


def _q4_1(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    line, place = parts.blocks[row], 20 * at
    table = _table(many_fused(sixteen_numbers(WHOLE, 15), _half(line, place), _half(line, place + 2)))
    _write_halves(line, place + 4, table, out, i)


def _q8_0(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    line, place = parts.blocks[row], 34 * at
    scale = _half(line, place)
    low, high = many_times(_signed(line, place + 2), scale), many_times(_signed(line, place + 18), scale)
    store_bfloats(out, i, bfloats_of(low, high))


def _iq4_nl(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    line, place = parts.blocks[row], 18 * at
    table = _table(many_times(sixteen_numbers(parts.levels, 0), _half(line, place)))
    _write_halves(line, place + 2, table, out, i)


def _mxfp4(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    line, place = parts.blocks[row], 17 * at
    step = many_splat(parts.steps[byte_at(line, place)])
    _write_halves(line, place + 1, _table(many_times(sixteen_numbers(parts.levels, 0), step)), out, i)


def _iq4_xs(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:
    group = at & 7
    table = _table(many_times(sixteen_numbers(parts.levels, 0), many_splat(scales[group])))
    _write_halves(parts.blocks[row], 136 * (at >> 3) + 8 + 16 * group, table, out, i)


def _scales_of_q4_k(parts: Any, row: int, at: int, scales: Array) -> None:
    k_blocks.scales_k4(parts.blocks[row], 144 * (at >> 3), scales, 0)


@compiled
def _write_nibbles(line: Array, place: int, scales: Array, group: int, out: Array, i: int) -> None:
    """Two units, whose codes are the lower and the upper halves of the same bytes."""
    begin, end = _shorts(line, place), _shorts(line, place + 16)
    first = _stretched(scales, group)
    _store_sixteen(out, i, _found(first, begin))
    _store_sixteen(out, i + 16, _found(first, end))
    second = _stretched(scales, group + 1)
    _store_sixteen(out, i + 32, _found(second, _upper(begin)))
    _store_sixteen(out, i + 48, _found(second, _upper(end)))


@compiled
def _stretched(scales: Array, group: int) -> Any:
    return _table(
        many_fused(sixteen_numbers(WHOLE, 15), many_splat(scales[group]), many_splat(scales[group + OFFSETS]))
    )


def _q4_k(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    """A whole block, without a branch: behind each numba would count references of all arrays, which takes longer."""
    line, place = parts.blocks[row], 144 * (begin >> 3) + 16
    _write_nibbles(line, place, scales, 0, out, i)
    _write_nibbles(line, place + 32, scales, 2, out, i + 64)
    _write_nibbles(line, place + 64, scales, 4, out, i + 128)
    _write_nibbles(line, place + 96, scales, 6, out, i + 192)


def _scales_of_q5_k(parts: Any, row: int, at: int, scales: Array) -> None:
    k_blocks.scales_k4(parts.blocks[row], 176 * (at >> 3), scales, 0)


def _scales_of_q6_k(parts: Any, row: int, at: int, scales: Array) -> None:
    line, i = parts.blocks[row], 210 * (at >> 3)
    both, scale = sixteen(line, i + 192), times(spread_half(line, i + 208), splat(HIGH))
    _with_offsets(times(first_high(both), scale), scales, 0, -32)
    _with_offsets(times(last_high(both), scale), scales, 8, -32)


@compiled
def _with_offsets(factors: Any, scales: Array, at: int, less: int) -> None:
    """Eight factors, and these times what codes are less: exact, as both are short."""
    store(scales, at, factors)
    store(scales, at + OFFSETS, times(factors, splat(np.float32(less))))


@compiled
def _write_pair(found: Any, scales: Array, group: int, gap: int, factors: int, out: Array, i: int) -> None:
    """A unit of a block and one so many behind it, from their 64 codes, each with one or two `factors` and offsets.

    The block is written from i on.
    """
    place = codes_at(0, group)
    _store_pair(scales, place, found)
    for unit in range(2):
        at = group + gap * unit
        first = at * factors
        last, codes = first + factors - 1, place + 8 * unit
        low = many_fused(_unsigned(scales, codes), many_splat(scales[first]), many_splat(scales[first + OFFSETS]))
        high = many_fused(_unsigned(scales, codes + 4), many_splat(scales[last]), many_splat(scales[last + OFFSETS]))
        store_bfloats(out, i + UNIT * at, bfloats_of(low, high))


@compiled
def _write_block(parts: Any, row: int, begin: int, scales: Array, gap: int, factors: int, out: Array, i: int) -> None:
    """Eight units, whose codes come in pairs so far apart: without a branch, see `_q4_k`."""
    block, other = begin >> 3, 3 - gap
    first, second = k_codes.four(parts, row, block, 0)
    _write_pair(first, scales, 0, gap, factors, out, i)
    _write_pair(second, scales, other, gap, factors, out, i)
    first, second = k_codes.four(parts, row, block, 1)
    _write_pair(first, scales, 4, gap, factors, out, i)
    _write_pair(second, scales, 4 + other, gap, factors, out, i)


def _q5_k(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    _write_block(parts, row, begin, scales, 2, 1, out, i)


def _q6_k(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    _write_block(parts, row, begin, scales, 1, 2, out, i)


def _levels(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    factor = many_splat(parts.absmax[(row * 2 * parts.codes.shape[1] + 32 * at) >> parts.block])
    table = _table(many_times(sixteen_numbers(parts.levels, 0), factor))
    store_bfloats(out, i, _all_found(table, _high_first(parts.codes[row], 16 * at)))


def _nested_levels(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    block = (row * 2 * parts.codes.shape[1] + 32 * at) >> parts.block
    factor = parts.steps[parts.absmax[block]] * parts.scales[block >> parts.group] + parts.offset
    table = _table(many_times(sixteen_numbers(parts.levels, 0), many_splat(factor)))
    store_bfloats(out, i, _all_found(table, _high_first(parts.codes[row], 16 * at)))


@compiled
def _write_less(parts: Any, row: int, at: int, zero: int, factor: float, out: Array, i: int) -> None:
    """Codes of 4 bits, the first one low, less a zero point, times a scale."""
    table = _table(many_times(sixteen_numbers(WHOLE, 15 - zero), many_splat(factor)))
    store_bfloats(out, i, _all_found(table, _low_first(parts.codes[row], 16 * at)))


def _groups(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    _write_less(parts, row, at, 8, number(parts.scales[row], 32 * at >> parts.group), out, i)


def _groups_with_zeros(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    group = 32 * at >> parts.group
    zero = (parts.zeros[row >> 3, group] >> 4 * (row & 7)) + parts.offset & 15
    _write_less(parts, row, at, zero, number(parts.scales[row], group), out, i)


def _groups_with_own_zeros(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    group = 32 * at >> parts.group
    zero = parts.zeros[row, group >> 3] >> 4 * (group & 7) & 15
    _write_less(parts, row, at, zero, number(parts.scales[row], group), out, i)


def _copied(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:  # noqa: ARG001
    store_bfloats(out, i, bfloats_at(parts.numbers[row], 32 * at))


def _decoded(parts: Any, row: int, at: int, scales: Array, out: Array, i: int) -> None:
    four = by_layout.unit(parts, row, at, scales, 0)
    store_bfloats(out, i, bfloats_of(_joined(four[0], four[1]), _joined(four[2], four[3])))


def _scales_of_any(parts: Any, row: int, at: int, scales: Array) -> None:
    by_layout.find_scales(parts, row, at, scales, 0)


WRITERS: dict[type, Callable[..., None]] = {
    layouts.Bfloats: _copied,
    layouts.Groups: _groups,
    layouts.GroupsWithZeros: _groups_with_zeros,
    layouts.GroupsWithOwnZeros: _groups_with_own_zeros,
    layouts.Levels: _levels,
    layouts.NestedLevels: _nested_levels,
    layouts.Q40: _q4_0,
    layouts.Q41: _q4_1,
    layouts.Q80: _q8_0,
    layouts.Iq4Nl: _iq4_nl,
    layouts.Iq4Xs: _iq4_xs,
    layouts.Mxfp4: _mxfp4,
}
"""Layouts whose units are written faster than they are decoded, or as they are."""

BLOCKS: dict[type, Callable[..., None]] = {
    layouts.Q4K: _q4_k,
    layouts.Q5K: _q5_k,
    layouts.Q6K: _q6_k,
}
"""The same of layouts of which eight units are written at once."""

FINDERS: dict[type, Callable[..., None]] = {
    layouts.Q4K: _scales_of_q4_k,
    layouts.Q5K: _scales_of_q5_k,
    layouts.Q6K: _scales_of_q6_k,
}
"""What these need, where that is less than decoding needs."""


def _one_by_one(write: Callable[..., None]) -> Callable[..., None]:
    found = compiled(write)

    def units(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> None:
        for at in range(begin, end):
            found(parts, row, at, scales, out, i + UNIT * (at - begin))

    return units


def _writer_of(parts: Any, row: int, begin: int, end: int, scales: Array, out: Array, i: int) -> Callable[..., None]:
    del row, begin, end, scales, out, i  # numba looks at names
    kind = parts.instance_class
    return BLOCKS.get(kind) or _one_by_one(WRITERS.get(kind, _decoded))


def _finder_of(parts: Any, row: int, at: int, scales: Array) -> Callable[..., None]:  # noqa: ARG001
    return FINDERS.get(parts.instance_class, _scales_of_any)


overload(write_units)(_writer_of)
overload(find_factors)(_finder_of)
