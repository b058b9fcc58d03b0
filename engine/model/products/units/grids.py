"""Units of GGUF's blocks of one to three bits a number; offsets as of `block_*` in ggml-common.h.

An index finds four or eight numbers at once in a grid. Signs are applied to all eight by three operations on 64 bits:
two's complement, in which no byte carries into the next, as no number is 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.decoding.tables import DELTA
from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.units.blocks import HIGH
from engine.model.products.units.fields import (
    as_numbers,
    byte_at,
    eight_shorts,
    eight_words,
    fields,
    fields_of,
    half_of,
    long_at,
    odd_words,
    short_at,
    store_long,
    triples,
    word_at,
)
from engine.model.products.units.k_blocks import Prepare, codes_at, signed_by_one, signed_by_two
from engine.model.products.vectors import fused, plus, splat, spread_half, store, times

ONES = 0x0101010101010101  # one in every byte


@compiled
def _with_signs(points: int, negative: int) -> int:
    return (points ^ negative) + (negative & ONES)


@compiled
def _odd(codes: Any, scale: Any) -> Any:
    """(1 + 2 x codes) x a scale. What is rounded here is nothing: there are few bits."""
    return times(fused(as_numbers(codes), splat(np.float32(2)), splat(np.float32(1))), scale)


@compiled
def _by_halves(codes: Any, scale: Any) -> Any:
    """(0.5 + codes) x a scale."""
    return times(plus(as_numbers(codes), splat(np.float32(0.5))), scale)


@compiled
def _scale(line: Array, i: int, part: Any) -> Any:
    return times(spread_half(line, i), splat(HIGH * part))


def _prepare_iq2_xxs(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 66 * (at >> 3)
    store(scales, own, _by_halves(fields_of(odd_words(line, i + 2), 28, 15), _scale(line, i, np.float32(0.25))))
    for group in range(8):
        place = i + 2 + 8 * group
        signs = word_at(line, place + 4)
        for eight in range(4):
            points = long_at(parts.grid, byte_at(line, place + eight))
            negative = long_at(parts.signs, signs >> 7 * eight & 127)
            store_long(scales, codes_at(own, group) + 2 * eight, _with_signs(points, negative))


@compiled
def _store_odd(line: Array, i: int, scale: Any, scales: Array, own: int) -> None:
    """Sixteen factors of four bits each, which begin at a byte."""
    store(scales, own, _odd(fields(word_at(line, i), 4, 15), scale))
    store(scales, own + 8, _odd(fields(word_at(line, i + 4), 4, 15), scale))


def _prepare_iq2_xs(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 74 * (at >> 3)
    _store_odd(line, i + 66, _scale(line, i, np.float32(0.125)), scales, own)
    for eight in range(32):
        packed = short_at(line, i + 2 + 2 * eight)
        points, negative = long_at(parts.grid, packed & 511), long_at(parts.signs, packed >> 9)
        store_long(scales, codes_at(own, 0) + 2 * eight, _with_signs(points, negative))


def _prepare_iq2_s(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 82 * (at >> 3)
    _store_odd(line, i + 74, _scale(line, i, np.float32(0.125)), scales, own)
    for group in range(8):
        high = byte_at(line, i + 66 + group)
        for eight in range(4):
            place = i + 2 + 4 * group + eight
            points = long_at(parts.grid, byte_at(line, place) | (high >> 2 * eight & 3) << 8)
            negative = long_at(parts.signs, byte_at(line, place + 32))
            store_long(scales, codes_at(own, group) + 2 * eight, _with_signs(points, negative))


def _prepare_iq3_xxs(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 98 * (at >> 3)
    store(scales, own, _by_halves(fields_of(eight_words(line, i + 66), 28, 15), _scale(line, i, np.float32(0.5))))
    for group in range(8):
        signs = word_at(line, i + 66 + 4 * group)
        for eight in range(4):
            place = i + 2 + 8 * group + 2 * eight
            points = word_at(parts.grid, byte_at(line, place)) | word_at(parts.grid, byte_at(line, place + 1)) << 32
            negative = long_at(parts.signs, signs >> 7 * eight & 127)
            store_long(scales, codes_at(own, group) + 2 * eight, _with_signs(points, negative))


def _prepare_iq3_s(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 110 * (at >> 3)
    store(scales, own, _odd(fields(word_at(line, i + 106), 4, 15), _scale(line, i, np.float32(1))))
    for group in range(8):
        high = byte_at(line, i + 66 + group)
        for eight in range(4):
            place = i + 2 + 8 * group + 2 * eight
            index = byte_at(line, place) | (high >> 2 * eight & 1) << 8
            other = byte_at(line, place + 1) | (high >> 2 * eight + 1 & 1) << 8
            points = word_at(parts.grid, index) | word_at(parts.grid, other) << 32
            negative = long_at(parts.signs, byte_at(line, i + 74 + 4 * group + eight))
            store_long(scales, codes_at(own, group) + 2 * eight, _with_signs(points, negative))


def _prepare_iq1_s(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 50 * (at >> 3)
    store(scales, own, _odd(fields_of(eight_shorts(line, i + 34), 12, 7), _scale(line, i, np.float32(DELTA))))
    for group in range(8):
        packed = short_at(line, i + 34 + 2 * group)
        moved = packed >> 4 & 2048
        for eight in range(4):
            index = byte_at(line, i + 2 + 4 * group + eight) | (packed >> 3 * eight & 7) << 8 | moved
            store_long(scales, codes_at(own, group) + 2 * eight, long_at(parts.grid, index))


@compiled
def _scales_iq1_m(line: Array, i: int, scales: Array, own: int) -> None:
    """Each of four words has four bits of the block's scale in front of three bits for each of four factors."""
    packed = long_at(line, i)
    whole = packed >> 12 & 15 | packed >> 24 & 0xF0 | packed >> 36 & 0xF00 | packed >> 48 & 0xF000
    scale = times(half_of(whole), splat(HIGH * np.float32(DELTA)))
    store(scales, own, _odd(triples(packed), scale))
    store(scales, own + 8, _odd(triples(packed >> 32), scale))


def _prepare_iq1_m(parts: Any, row: int, at: int, scales: Array, own: int) -> None:
    line, i = parts.blocks[row], 56 * (at >> 3)
    _scales_iq1_m(line, i + 48, scales, own)
    for eight in range(32):
        high = byte_at(line, i + 32 + (eight >> 1)) >> 4 * (eight & 1) & 15
        store_long(scales, codes_at(own, 0) + 2 * eight, long_at(parts.grid, byte_at(line, i + eight) | high << 8))


PREPARE: dict[type, Prepare] = {
    layouts.Iq1S: _prepare_iq1_s,
    layouts.Iq1M: _prepare_iq1_m,
    layouts.Iq2Xxs: _prepare_iq2_xxs,
    layouts.Iq2Xs: _prepare_iq2_xs,
    layouts.Iq2S: _prepare_iq2_s,
    layouts.Iq3Xxs: _prepare_iq3_xxs,
    layouts.Iq3S: _prepare_iq3_s,
}
"""What is done for all 256 numbers of a block."""

SCALED: dict[type, Callable[[Any, int, int, Array, int], Unit]] = {
    layouts.Iq1S: signed_by_one,
    layouts.Iq1M: signed_by_two,
    layouts.Iq2Xxs: signed_by_one,
    layouts.Iq2Xs: signed_by_two,
    layouts.Iq2S: signed_by_two,
    layouts.Iq3Xxs: signed_by_one,
    layouts.Iq3S: signed_by_one,
}
"""Units of such blocks."""
