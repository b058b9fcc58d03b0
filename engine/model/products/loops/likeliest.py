"""The likeliest of a vocabulary by logits, with the logarithms of their probabilities, in one thread for each row."""

from typing import Any

import numba
import numpy as np

from engine.model.products.addresses import floats, integers
from engine.model.products.compiling import compiled
from engine.model.products.layouts import Array
from engine.model.products.loops import between
from engine.model.products.vectors import exponential, minus, numbers, plus, splat, total

LOGITS, IS_NARROW, LISTED, VOCABULARY, WIDTH, TOKENS, LOG_PROBS = range(7)  # what it is told, int64: see `find`
TOLD = 7

LANES = 8


@compiled
def find(place: int, begin: int, end: int) -> None:
    """Write for rows [begin, end) of logits [rows, listed], float32 or bfloat16, the `WIDTH` likeliest tokens.

    Only those below `VOCABULARY` are found; all that are listed have a part in the probabilities. Tokens int64 and
    logarithms float32 [rows, width], the likeliest first, of two alike the lower one. Where no probabilities can be
    told, as of logits that are no numbers, all are -inf.
    """
    told = numba.carray(integers(place), TOLD)
    listed, width, row_bytes = told[LISTED], told[WIDTH], (2 if told[IS_NARROW] else 4) * told[LISTED]
    wide = np.empty(listed if told[IS_NARROW] else 0, np.float32)
    for row in range(begin, end):
        here = told[LOGITS] + row_bytes * row
        if told[IS_NARROW]:
            between.widen(here, wide.ctypes.data, listed)
            here = wide.ctypes.data
        line = numba.carray(floats(here), listed)
        tokens = numba.carray(integers(told[TOKENS] + 8 * width * row), width)
        found = numba.carray(floats(told[LOG_PROBS] + 4 * width * row), width)
        _list(line, told[VOCABULARY], tokens, found)
        most = found[0]
        for at in range(told[VOCABULARY], listed):
            most = max(most, line[at])
        whole = _sum_of_exponentials(line, most)
        if np.isfinite(most) and np.isfinite(whole) and not _holds_others(line):
            less = np.float64(most) + np.log(np.float64(whole))
            for at in range(width):
                found[at] = found[at] - less
        else:
            found[:] = -np.inf


@compiled
def _list(line: Array, vocabulary: int, tokens: Array, found: Array) -> None:
    """The largest numbers among the first, and where they are."""
    count, width = 0, len(tokens)
    least = np.float32(-np.inf)
    for at in range(vocabulary):
        number = line[at]
        if count == width and not number > least:
            continue
        place = count if count < width else width - 1
        while place > 0 and not found[place - 1] >= number:
            found[place], tokens[place] = found[place - 1], tokens[place - 1]
            place -= 1
        found[place], tokens[place] = number, at
        count += count < width
        least = found[width - 1]


@compiled
def _sum_of_exponentials(line: Array, most: float) -> Any:
    """Of all numbers less the largest."""
    a = b = splat(np.float32(0))
    less, end = splat(np.float32(most)), len(line) // (2 * LANES) * (2 * LANES)
    for i in range(0, end, 2 * LANES):
        a = plus(a, exponential(minus(numbers(line, i), less)))
        b = plus(b, exponential(minus(numbers(line, i + LANES), less)))
    whole = total(plus(a, b))
    for i in range(end, len(line)):
        whole += np.exp(line[i] - most)
    return whole


@compiled
def _holds_others(line: Array) -> bool:
    """Whether something is no number: of such a one `exponential` makes anything."""
    count = 0
    for i in range(len(line)):
        count += line[i] != line[i]
    return count > 0
