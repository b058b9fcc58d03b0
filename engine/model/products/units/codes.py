"""Units of numbers in 4 and 8 bits whose scales lie elsewhere: NF4, FP4, MXFP4, NVFP4, FP8, integers in groups."""

from collections.abc import Callable
from typing import Any

import numpy as np

from engine.model.products import layouts
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array, Unit
from engine.model.products.lookups import scaled_levels, scaled_short_levels
from engine.model.products.units.blocks import signed_numbers
from engine.model.products.units.fields import as_numbers, eight_apart, fields_of, words_plus
from engine.model.products.vectors import (
    e4m3,
    less,
    masked,
    number,
    shifted,
    sixteen,
    splat,
    stacked,
    times,
    woven_first,
    woven_last,
)


@compiled
def _levels_high_first(line: Array, at: int, levels: Array, factor: Any) -> Unit:
    codes = sixteen(line, 16 * at)
    high, low = shifted(codes, 4), masked(codes, 15)
    found: Unit = scaled_levels(levels, woven_first(high, low), woven_last(high, low), splat(factor))
    return found


def _levels(parts: Any, row: int, at: int) -> Unit:
    absmax = parts.absmax[(row * 2 * parts.codes.shape[1] + 32 * at) >> parts.block]
    return _levels_high_first(parts.codes[row], at, parts.levels, absmax)


def _nested_levels(parts: Any, row: int, at: int) -> Unit:
    block = (row * 2 * parts.codes.shape[1] + 32 * at) >> parts.block
    absmax = parts.steps[parts.absmax[block]] * parts.scales[block >> parts.group]
    return _levels_high_first(parts.codes[row], at, parts.levels, absmax + parts.offset)


def _scaled_levels(parts: Any, row: int, at: int) -> Unit:
    codes, levels, scales = sixteen(parts.codes[row], 16 * at), parts.levels, parts.scales[row]
    low, high = masked(codes, 15), shifted(codes, 4)
    found = scaled_short_levels(levels, woven_first(low, high), woven_last(low, high), splat(np.float32(1)))
    factor = splat(parts.steps[scales[32 * at >> parts.group]])
    other = splat(parts.steps[scales[32 * at + 16 >> parts.group]])
    return times(found[0], factor), times(found[1], factor), times(found[2], other), times(found[3], other)


def _bytes(parts: Any, row: int, at: int) -> Unit:
    line, i = parts.codes[row], 32 * at
    scale = splat(parts.scales[row >> parts.block_rows, i >> parts.block_columns])
    return (
        times(e4m3(line, i), scale),
        times(e4m3(line, i + 8), scale),
        times(e4m3(line, i + 16), scale),
        times(e4m3(line, i + 24), scale),
    )


@compiled
def _codes_less(codes: Any, zero: int, factor: Any) -> Unit:
    """Codes of 4 bits, the first one low, less a zero point, times a scale."""
    low, high = less(masked(codes, 15), zero), less(shifted(codes, 4), zero)
    return signed_numbers(woven_first(low, high), woven_last(low, high), splat(factor))


def _groups(parts: Any, row: int, at: int) -> Unit:
    factor = number(parts.scales[row], 32 * at >> parts.group)
    return _codes_less(sixteen(parts.codes[row], 16 * at), 8, factor)


def _groups_with_zeros(parts: Any, row: int, at: int) -> Unit:
    group = 32 * at >> parts.group
    zero = (parts.zeros[row >> 3, group] >> 4 * (row & 7)) + parts.offset & 15
    return _codes_less(sixteen(parts.codes[row], 16 * at), zero, number(parts.scales[row], group))


def _groups_with_own_zeros(parts: Any, row: int, at: int) -> Unit:
    group = 32 * at >> parts.group
    zero = parts.zeros[row, group >> 3] >> 4 * (group & 7) & 15
    return _codes_less(sixteen(parts.codes[row], 16 * at), zero, number(parts.scales[row], group))


def _turned_groups(parts: Any, row: int, at: int) -> Unit:
    words, group = parts.words, 32 * at // parts.group
    zero = (parts.zeros[group, row >> 3] >> 4 * (row & 7)) + parts.offset & 15
    codes = stacked(words[4 * at, row], words[4 * at + 1, row], words[4 * at + 2, row], words[4 * at + 3, row])
    return _codes_less(codes, zero, number(parts.scales[group], row))


@compiled
def _eight_outputs(words: Array, row: int, column: int, zero: int, factor: Any) -> Any:
    """Of eight columns the code of a row less a zero point times a scale: a line of the cache for each."""
    some = eight_apart(words, column * words.shape[1] + (row >> 3), words.shape[1])
    return times(as_numbers(words_plus(fields_of(some, _place(row), 15), -zero)), factor)


@compiled
def _place(row: int) -> int:
    """Where in a word of AutoAWQ, in bits, the code of a row lies."""
    return 16 * (row & 1) + 4 * (row >> 1 & 3)


@compiled
def _outputs_less(parts: Any, row: int, at: int, zero: int) -> Unit:
    i, factor = 32 * at, splat(number(parts.scales[32 * at // parts.group], row))
    return (
        _eight_outputs(parts.words, row, i, zero, factor),
        _eight_outputs(parts.words, row, i + 8, zero, factor),
        _eight_outputs(parts.words, row, i + 16, zero, factor),
        _eight_outputs(parts.words, row, i + 24, zero, factor),
    )


def _outputs(parts: Any, row: int, at: int) -> Unit:
    return _outputs_less(parts, row, at, 8)


def _outputs_with_zeros(parts: Any, row: int, at: int) -> Unit:
    zero = parts.zeros[32 * at // parts.group, row >> 3] >> _place(row) & 15
    return _outputs_less(parts, row, at, zero)


UNITS: dict[type, Callable[[Any, int, int], Unit]] = {
    layouts.Levels: _levels,
    layouts.NestedLevels: _nested_levels,
    layouts.ScaledLevels: _scaled_levels,
    layouts.Bytes: _bytes,
    layouts.Groups: _groups,
    layouts.GroupsWithZeros: _groups_with_zeros,
    layouts.GroupsWithOwnZeros: _groups_with_own_zeros,
    layouts.TurnedGroups: _turned_groups,
    layouts.Outputs: _outputs,
    layouts.OutputsWithZeros: _outputs_with_zeros,
}
