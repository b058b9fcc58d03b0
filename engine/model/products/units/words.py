"""Vector operations on codes of eight rows of a matrix at a time, for products with many rows of x in 8 bits.

A word is four codes of a row, one behind the other. Words of eight rows fill a register, and are multiplied with the
same four digits of a row of x: lanes stay apart, so that nothing has to be added up across them at the end. Products
are added in 16 bits, in two lanes for each row, before they are widened. Sums of a unit have room there, or of its half
where codes have six bits, once codes have a sign: what they go through before may overflow, as it does so both ways.
Processors that add four products of bytes to a sum of 32 bits do so instead; whole sums are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.model.products.building import (
    CONTRACTED,
    EIGHT_NUMBERS,
    F32,
    I8,
    I32,
    I64,
    LANES,
    MANY,
    MANY_BYTES,
    chosen,
    constant,
    eight,
    instruction,
    place_of,
    undefined,
)
from engine.model.products.units.digits import PAIR_OF_BYTES, SIXTEEN_SHORTS, TURNS, adds_products, plus_fewer_bytes
from engine.model.products.units.fields import EIGHT_WORDS

ROWS = 8  # of the matrix, whose words fill a register
WORD, WORDS, UNITS = 4, 8, 8  # bytes of a word, words of a unit, units of a block
REGISTER = 32  # bytes
CODES = UNITS * WORDS * REGISTER  # bytes that the codes of eight rows take
GROUPS = 2  # registers of eight rows each that are multiplied with the same digits
SHORTS = SIXTEEN_SHORTS.llvm
_ADD = "llvm.x86.avx2.pmadd.wd"

# Where in what is written of a block of x, see `rounded`, its parts begin, in bytes.
HALF_LANES, UNIT_LANES, UNIT_SUMS, HALF_SUMS, STEP = 256, 320, 352, 384, 448
DIGITS_BY_HALVES, FOLDED_LANES, TURNED_TOTALS, HALF_TOTALS, BLOCK_BYTES = 480, 736, 768, 800, 832  # these for one row


@dataclass(frozen=True, slots=True)
class Shape:
    """What numbers of a layout are: codes without a sign less `zero`, times factors, plus offsets.

    `has_halves`: each half of a unit has a factor of its own. `is_whole`: factors are whole, and a block has one scale
    beside them. `offsets`: how many a block has.
    """

    zero: int
    has_halves: bool
    is_whole: bool
    offsets: int

    @property
    def factors_at(self) -> int:
        """Where the factors of eight rows begin, in bytes: behind their codes."""
        return CODES

    @property
    def offsets_at(self) -> int:
        """Where their offsets do."""
        return CODES + UNITS * REGISTER * (2 if self.has_halves else 1)

    @property
    def scales_at(self) -> int:
        """Where their scales are, if factors are whole."""
        return self.offsets_at + REGISTER * self.offsets

    @property
    def nbytes(self) -> int:
        """How many bytes a block of eight rows takes."""
        return self.scales_at + (UNITS * REGISTER if self.is_whole else 0)


def pointer_to(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """To a byte of an array of such."""
    return place_of(context, builder, kind, (array, index), I8)


def item_at(builder: Any, start: Any, offset: Any, kind: ir.Type, align: int = 1) -> Any:
    """What lies so many bytes behind a place."""
    place = builder.gep(start, [offset if isinstance(offset, ir.Value) else ir.Constant(I64, offset)])
    return builder.load(builder.bitcast(place, kind.as_pointer()), align=align)


def spread_of(builder: Any, one: Any, kind: ir.VectorType) -> Any:
    """One number in all lanes of 32 bits."""
    lanes = ir.VectorType(one.type, LANES)
    first = builder.insert_element(ir.Constant(lanes, ir.Undefined), one, ir.Constant(I32, 0))
    return builder.bitcast(chosen(builder, first, undefined(first), [0] * LANES), kind)


def turned(builder: Any, rows: Sequence[Any]) -> list[Any]:
    """Eight registers of eight words each, turned."""

    def both(a: Any, b: Any, places: list[int]) -> Any:
        return chosen(builder, a, b, places)

    low, high = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
    pairs = [both(rows[at], rows[at + 1], places) for at in range(0, 8, 2) for places in (low, high)]
    first, last = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
    fours = [
        both(pairs[at + which], pairs[at + 2 + which], places)
        for at in (0, 4)
        for which in (0, 1)
        for places in (first, last)
    ]
    begin, end = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
    return [both(fours[at], fours[at + 4], places) for places in (begin, end) for at in range(4)]


def _turn() -> Any:
    def sign(_context: Any, source: Any, _index: Any, _step: Any, target: Any, _place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = pointer_to(context, builder, signature.args[0], values[0], values[1])
            there = pointer_to(context, builder, signature.args[3], values[3], values[4])
            rows = []
            for row in range(ROWS):
                rows.append(item_at(builder, here, builder.mul(values[2], ir.Constant(I64, row)), eight(I32)))
            for word, some in enumerate(turned(builder, rows)):
                place = builder.gep(there, [ir.Constant(I64, REGISTER * word)])
                builder.store(some, builder.bitcast(place, some.type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.none(source, types.intp, types.intp, target, types.intp), generate

    return intrinsic(sign)


turn = _turn()
"""(bytes, index, step, bytes, place): of eight rows, so many bytes one behind the other, eight words each, turned: the
first word of all rows, then the second one."""


def _storing(kind: Any, places: Callable[[Any, Any], list[Any]]) -> Any:
    """(bytes, index, value): write what `places` makes of it one behind the other."""

    def sign(_context: Any, array: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start = pointer_to(context, builder, signature.args[0], values[0], values[1])
            for some in places(builder, values[2]):
                builder.store(some, builder.bitcast(start, some.type.as_pointer()), align=1)
                start = builder.gep(start, [ir.Constant(I64, some.type.count * some.type.element.width // 8)])
            return context.get_dummy_value()

        return types.none(array, types.intp, kind), generate

    return intrinsic(sign)


def _twice(order: Sequence[int]) -> Callable[[Any, Any], list[Any]]:
    def build(builder: Any, some: Any) -> list[Any]:
        twice = [at for at in order for _ in range(2)]
        return [chosen(builder, some, undefined(some), twice[at : at + 16]) for at in range(0, len(twice), 16)]

    return build


store_turned_factors = _storing(SIXTEEN_SHORTS, _twice(TURNS))
"""(bytes, index, factors): those of `digits.turned_factors` in the order of their units, each twice."""
store_half_factors = _storing(SIXTEEN_SHORTS, _twice([half * 8 + unit for unit in range(8) for half in range(2)]))
"""The same of `digits.half_factors`, in the order of halves."""


def _two_stores() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _gap: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start = pointer_to(context, builder, signature.args[0], values[0], values[1])
            for half in range(2):
                some = chosen(builder, values[3], undefined(values[3]), [*range(MANY * half, MANY * (half + 1))])
                place = builder.gep(start, [builder.mul(values[2], ir.Constant(I64, half))])
                builder.store(some, builder.bitcast(place, some.type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, types.intp, PAIR_OF_BYTES), generate

    return intrinsic(sign)


store_two_units = _two_stores()
"""(bytes, index, gap, codes): those of the first unit, and so many bytes behind their begin those of the other one."""


def _four_stores() -> Any:
    def sign(_context: Any, array: Any, _index: Any, _low: Any, _high: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            start = pointer_to(context, builder, signature.args[0], values[0], values[1])
            for unit in range(4):
                places = [half * 64 + 16 * unit + at for half in range(2) for at in range(16)]
                some = chosen(builder, values[2], values[3], places)
                place = builder.gep(start, [ir.Constant(I64, MANY * unit)])
                builder.store(some, builder.bitcast(place, some.type.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.none(array, types.intp, PAIR_OF_BYTES, PAIR_OF_BYTES), generate

    return intrinsic(sign)


store_four_units = _four_stores()
"""(bytes, index, first halves, second halves): the codes of four units in their order."""


@lru_cache
def sums_of(rows: int, is_whole: bool) -> types.Type:
    """The type of the sums of a tile: eight of each row of x and group of rows of the matrix."""
    return types.UniTuple(EIGHT_WORDS if is_whole else EIGHT_NUMBERS, GROUPS * rows)


def no_sums(shape: Shape) -> Any:
    """(rows): zeros for as many rows as a tuple has numbers."""

    def sign(_context: Any, rows: Any) -> Any:
        kind = sums_of(rows.count, shape.is_whole)

        def generate(context: Any, builder: Any, _signature: Any, _values: Any) -> Any:
            zero = constant(kind.dtype.llvm, 0)
            return context.make_tuple(builder, kind, [zero] * kind.count)

        return kind(rows), generate

    return intrinsic(sign)


def multiplied(builder: Any, codes: Any, digits: Any) -> Any:
    """Products of 32 codes without a sign and digits, those of two added: in 16 bits."""
    return instruction(builder, "llvm.x86.avx2.pmadd.ub.sw", SHORTS, codes, digits)


def with_unit(shape: Shape) -> Any:
    """(matrix, place, x, index, step, unit, sums): sums with the products of a unit of both groups and all rows of x.

    matrix: bytes, at a place what `turn` made of a block; x: bytes, at an index what is written of the same block of
    the first row, of the next one `step` bytes later.
    """

    def sign(_context: Any, matrix: Any, _place: Any, x: Any, _index: Any, _step: Any, _unit: Any, sums: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = pointer_to(context, builder, signature.args[0], values[0], values[1])
            there = pointer_to(context, builder, signature.args[2], values[2], values[3])
            old = [builder.extract_value(values[6], at) for at in range(sums.count)]
            found = _Unit(builder, shape, here, there, values[4], values[5], old).sums()
            return context.make_tuple(builder, signature.return_type, found)

        return sums(matrix, types.intp, x, types.intp, types.intp, types.intp, sums), generate

    return intrinsic(sign)


class _Unit:
    """Builds the products of a unit."""

    def __init__(self, builder: Any, shape: Shape, here: Any, there: Any, step: Any, unit: Any, old: list[Any]) -> None:
        self._builder, self._shape, self._old, self._unit = builder, shape, old, unit
        self._rows = [
            builder.gep(there, [builder.mul(step, ir.Constant(I64, row))]) for row in range(len(old) // GROUPS)
        ]
        self._groups = [builder.gep(here, [ir.Constant(I64, shape.nbytes * group)]) for group in range(GROUPS)]

    def _of(self, size: int, offset: int) -> Any:
        """An offset in bytes, and so many for each unit before this one."""
        by_units = self._builder.mul(self._unit, ir.Constant(I64, size))
        return self._builder.add(by_units, ir.Constant(I64, offset))

    def sums(self) -> list[Any]:
        found, parts = self._old, 2 if self._shape.has_halves else 1
        for part in range(parts):
            words = range(WORDS // parts * part, WORDS // parts * (part + 1))
            some = self._with_words(self._zeros(part), words)
            factors = [self._factors(group, part) for group in range(GROUPS)]
            found = [
                self._with_factors(old, each, factors[at % GROUPS])
                for at, (old, each) in enumerate(zip(found, some, strict=True))
            ]
        return found

    def _with_words(self, found: list[Any], words: range) -> list[Any]:
        """Sums of each row and group, and the products of some words."""
        builder, add = self._builder, plus_fewer_bytes if adds_products() else _plus_shorts
        for word in words:
            place = self._of(WORDS * REGISTER, REGISTER * word)
            codes = [item_at(builder, group, place, MANY_BYTES.llvm, REGISTER) for group in self._groups]
            for row, start in enumerate(self._rows):
                one = item_at(builder, start, self._of(WORDS * WORD, WORD * word), I32)
                digits = spread_of(builder, one, MANY_BYTES.llvm)
                for group, some in enumerate(codes):
                    at = GROUPS * row + group
                    found[at] = add(builder, found[at], some, digits)
        return found

    def _zeros(self, part: int) -> list[Any]:
        """Of each row and group what sums begin with: what is taken from them as codes have no sign.

        Sixteen in 16 bits, or eight in 32 where the processor adds to these.
        """
        builder, shape, found = self._builder, self._shape, []
        if not shape.zero:
            return [constant(eight(I32) if adds_products() else SHORTS, 0)] * len(self._old)
        place = self._of(2 * WORD, HALF_LANES + WORD * part) if shape.has_halves else self._of(WORD, UNIT_LANES)
        less = constant(SHORTS, -shape.zero)
        for start in self._rows:
            lanes = spread_of(builder, item_at(builder, start, place, I32), SHORTS)
            each = instruction(builder, _ADD, eight(I32), lanes, less) if adds_products() else builder.mul(lanes, less)
            found += [each] * GROUPS
        return found

    def _factors(self, group: int, part: int) -> Any:
        """Whole ones in 16 bits, each twice, or in 32; or scales."""
        builder, shape = self._builder, self._shape
        place = self._of(REGISTER * (2 if shape.has_halves else 1), shape.factors_at + REGISTER * part)
        if not shape.is_whole:
            return item_at(builder, self._groups[group], place, eight(F32), REGISTER)
        if not adds_products():
            return item_at(builder, self._groups[group], place, SHORTS, REGISTER)
        both = item_at(builder, self._groups[group], place, eight(I32), REGISTER)
        return builder.ashr(both, constant(both.type, 16))

    def _with_factors(self, old: Any, sums: Any, factors: Any) -> Any:
        """`old`, and sums times factors."""
        builder, is_short = self._builder, sums.type == SHORTS
        if self._shape.is_whole:
            some = instruction(builder, _ADD, eight(I32), sums, factors) if is_short else builder.mul(sums, factors)
            return builder.add(old, some)
        whole = instruction(builder, _ADD, eight(I32), sums, constant(SHORTS, 1)) if is_short else sums
        some = builder.fmul(builder.sitofp(whole, eight(F32)), factors, flags=CONTRACTED)
        return builder.fadd(some, old, flags=CONTRACTED)


def _plus_shorts(builder: Any, sums: Any, codes: Any, digits: Any) -> Any:
    """Sixteen sums, and the products of two codes without a sign and digits with one, each."""
    return builder.add(sums, multiplied(builder, codes, digits))


def add_block(shape: Shape) -> Any:
    """(matrix, place, x, index, step, y, at, sums): y with a block's sums, and its offsets.

    y: float32, at an index sixteen numbers of the first row, of the next ones behind them.
    """

    def sign(
        _context: Any, matrix: Any, _place: Any, x: Any, _index: Any, _step: Any, y: Any, _begin: Any, sums: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            here = pointer_to(context, builder, signature.args[0], values[0], values[1])
            there = pointer_to(context, builder, signature.args[2], values[2], values[3])
            out = place_of(context, builder, signature.args[5], values[5:7], eight(F32))
            for row in range(sums.count // GROUPS):
                start = builder.gep(there, [builder.mul(values[4], ir.Constant(I64, row))])
                for group in range(GROUPS):
                    at = GROUPS * row + group
                    matrix_ = builder.gep(here, [ir.Constant(I64, shape.nbytes * group)])
                    place = builder.gep(out, [ir.Constant(I64, at)])
                    some = scaled(builder, shape, matrix_, start, builder.extract_value(values[7], at))
                    found = builder.fadd(some, builder.load(place, align=4), flags=CONTRACTED)
                    builder.store(with_offsets(builder, shape, matrix_, start, found), place, align=4)
            return context.get_dummy_value()

        integer = types.intp
        return types.none(matrix, integer, x, integer, integer, y, integer, sums), generate

    return intrinsic(sign)


def scaled(builder: Any, shape: Shape, matrix: Any, x: Any, sums: Any) -> Any:
    """Sums of a block of eight rows as float32."""
    step = spread_of(builder, item_at(builder, x, STEP, F32, 4), eight(F32))
    if not shape.is_whole:
        return builder.fmul(sums, step, flags=CONTRACTED)
    scale = builder.fmul(item_at(builder, matrix, shape.scales_at, eight(F32), REGISTER), step)
    return builder.fmul(builder.sitofp(sums, eight(F32)), scale, flags=CONTRACTED)


def with_offsets(builder: Any, shape: Shape, matrix: Any, x: Any, found: Any) -> Any:
    """These, and the offsets of the block times the sums of x."""
    begin = HALF_SUMS if shape.offsets > UNITS else UNIT_SUMS
    for each in range(shape.offsets):
        offset = item_at(builder, matrix, shape.offsets_at + REGISTER * each, eight(F32), REGISTER)
        total = spread_of(builder, item_at(builder, x, begin + 4 * each, F32, 4), eight(F32))
        found = builder.fadd(builder.fmul(offset, total, flags=CONTRACTED), found, flags=CONTRACTED)
    return found


def folded(builder: Any, sums: Sequence[Any]) -> Any:
    """Four registers of two units' sums each as one: two of each unit in 16 bits, or one in 32.

    Those of the even units, and then those of the odd ones.
    """
    name = "llvm.x86.avx2.phadd.w" if sums[0].type == SHORTS else "llvm.x86.avx2.phadd.d"
    while len(sums) > 1:
        sums = [instruction(builder, name, sums[0].type, *sums[at : at + 2]) for at in range(0, len(sums), 2)]
    return sums[0]
