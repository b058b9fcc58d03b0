"""Operations on sixteen float32 numbers: a register of 64 bytes, or two of 32; and on as many as fill a register.

These are sixteen with AVX-512, eight elsewhere, which is known when loops are compiled; their code is kept for each
kind of processor.
"""

from typing import Any

from llvmlite import ir
from numba import types

from engine.model.products import building
from engine.model.products.building import (
    BYTES,
    CONTRACTED,
    EIGHT_NUMBERS,
    F32,
    I32,
    LANES,
    Vector,
    chosen,
    load,
    operation,
    undefined,
)
from engine.model.products.units.digits import features
from engine.model.products.vectors import fused, numbers, store, total

SIXTEEN_NUMBERS = Vector("SixteenNumbers", ir.VectorType(F32, BYTES))


def _splat(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(SIXTEEN_NUMBERS.llvm, ir.Undefined), number, ir.Constant(I32, 0))
    return chosen(builder, one, undefined(one), [0] * BYTES)


def _fused(builder: Any, first: Any, second: Any, third: Any) -> Any:
    return builder.fadd(builder.fmul(first, second, flags=CONTRACTED), third, flags=CONTRACTED)


def _part(builder: Any, vector: Any, begin: int, count: int) -> Any:
    return chosen(builder, vector, undefined(vector), [*range(begin, begin + count)])


def _total(builder: Any, vector: Any) -> Any:
    while vector.type.count > 2:
        half = vector.type.count // 2
        vector = builder.fadd(_part(builder, vector, 0, half), _part(builder, vector, half, half))
    return builder.fadd(*(builder.extract_element(vector, ir.Constant(I32, at)) for at in (0, 1)))


sixteen_numbers = load(SIXTEEN_NUMBERS, SIXTEEN_NUMBERS.llvm, lambda _, loaded: loaded)
"""Sixteen float32 numbers of an array."""
many_store = building.store(SIXTEEN_NUMBERS)
"""Write sixteen numbers into an array of float32, from an index on."""
many_splat = operation(SIXTEEN_NUMBERS, (types.float32,), _splat)
"""One number sixteen times."""
many_times = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 2, lambda builder, a, b: builder.fmul(a, b))
many_fused = operation(SIXTEEN_NUMBERS, (SIXTEEN_NUMBERS,) * 3, _fused)
"""a x b + c, rounded once where the processor can."""
many_total = operation(types.float32, (SIXTEEN_NUMBERS,), _total)
"""The sum of all sixteen, in a fixed order."""
first_eight = operation(EIGHT_NUMBERS, (SIXTEEN_NUMBERS,), lambda builder, some: _part(builder, some, 0, LANES))
last_eight = operation(EIGHT_NUMBERS, (SIXTEEN_NUMBERS,), lambda builder, some: _part(builder, some, LANES, LANES))

WIDE = 16 if "+avx512f" in features() else 8

wide_numbers = sixteen_numbers if WIDE == 16 else numbers
"""Numbers of an array, from an index on."""
wide_store = many_store if WIDE == 16 else store
"""Write them into an array of float32, from an index on."""
wide_fused = many_fused if WIDE == 16 else fused
"""a x b + c, rounded once where the processor can."""
wide_total = many_total if WIDE == 16 else total
"""The sum of all, in a fixed order."""
