"""Blocks of GGUF files whose types the `gguf` package only decodes: nearest codes, without a search for scales."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.model.decoding.tables import NUMBERS

Array = NDArray[Any]
LEVELS = np.array(NUMBERS["iq4"], np.float32)


def _halves(numbers: Array) -> Array:
    return numbers.astype(np.float16).view(np.uint8)


def _divided(numbers: Array, by: Array) -> Array:
    return np.divide(numbers, by, out=np.zeros_like(numbers), where=by != 0)


def _rounded(wanted: Array, most: int) -> tuple[Array, Array]:
    """Numbers from 0 on, [blocks, groups], as a float16 of each block times codes up to `most`."""
    unit = (wanted.max(-1, keepdims=True) / most).astype(np.float16).astype(np.float32)
    return unit, _divided(wanted, np.broadcast_to(unit, wanted.shape)).round().clip(0, most)


def _stretched(blocks: Array, width: int, most: int, scale_most: int) -> tuple[list[Array], list[Array], Array]:
    """Units of factors and floors, codes of both, and those of the numbers, [blocks, groups, width]."""
    groups = blocks.reshape(len(blocks), -1, width)
    floors = np.maximum(0, -groups.min(-1))
    found = [_rounded(part, scale_most) for part in ((groups.max(-1) + floors) / most, floors)]
    step, floor = (unit * codes for unit, codes in found)
    codes = _divided(groups + floor[..., None], np.broadcast_to(step[..., None], groups.shape))
    return (
        [unit for unit, _ in found],
        [part.astype(np.uint8) for _, part in found],
        codes.round().clip(0, most).astype(np.uint8),
    )


def _planes(codes: Array, bits: int) -> Array:
    """Codes [blocks, 256]: of every run of bytes, 32 numbers in the lowest bits, the next 32 above them, and so on."""
    runs = codes.reshape(len(codes), -1, 8 // bits, 32)
    packed: Array = np.bitwise_or.reduce([runs[:, :, each] << bits * each for each in range(8 // bits)])
    return packed.reshape(len(codes), -1)


def _scales_k4(scales: list[Array]) -> list[Array]:
    first = [part[:, :4] | ((part[:, 4:] >> 4) << 6) for part in scales]
    return [*first, (scales[0][:, 4:] & 15) | ((scales[1][:, 4:] & 15) << 4)]


def _q2_k(blocks: Array) -> Array:
    units, scales, codes = _stretched(blocks, 16, 3, 15)
    parts = [scales[0] | scales[1] << 4, _planes(codes.reshape(-1, 256), 2), *map(_halves, units)]
    return np.concatenate(parts, axis=1)


def _q3_k(blocks: Array) -> Array:
    groups = blocks.reshape(-1, 16, 16)
    unit, scales = _rounded(np.abs(groups).max(-1) / 4, 31)
    step = np.broadcast_to((unit * scales)[..., None], groups.shape)
    codes = (_divided(groups, step).round().clip(-4, 3) + 4).astype(np.uint8).reshape(-1, 256)
    third = np.bitwise_or.reduce([(codes.reshape(-1, 8, 32)[:, each] >> 2) << each for each in range(8)])
    six = (scales + 32).astype(np.uint8)
    low = (six[:, :8] & 15) | ((six[:, 8:] & 15) << 4)
    high = np.bitwise_or.reduce([(six.reshape(-1, 4, 4)[:, each] >> 4) << 2 * each for each in range(4)])
    return np.concatenate([third, _planes(codes & 3, 2), low, high, _halves(unit)], axis=1)


def _q4_k(blocks: Array) -> Array:
    units, scales, codes = _stretched(blocks, 32, 15, 63)
    parts = [*map(_halves, units), *_scales_k4(scales), _planes(codes.reshape(-1, 256), 4)]
    return np.concatenate(parts, axis=1)


def _q5_k(blocks: Array) -> Array:
    units, scales, codes = _stretched(blocks, 32, 31, 63)
    fifth = np.bitwise_or.reduce([(codes[:, each] >> 4) << each for each in range(8)])
    low = _planes((codes & 15).reshape(-1, 256), 4)
    return np.concatenate([*map(_halves, units), *_scales_k4(scales), fifth, low], axis=1)


def _q6_k(blocks: Array) -> Array:
    groups = blocks.reshape(-1, 16, 16)
    unit, scales = _rounded(np.abs(groups).max(-1) / 31, 127)
    step = np.broadcast_to((unit * scales)[..., None], groups.shape)
    codes = (_divided(groups, step).round().clip(-32, 31) + 32).astype(np.uint8)
    parts = codes.reshape(-1, 2, 4, 32)  # 128 numbers of four rows of 32
    low = (parts[:, :, :2] & 15) | ((parts[:, :, 2:] & 15) << 4)
    high = _planes((codes >> 4).reshape(-1, 256), 2)
    return np.concatenate([low.reshape(-1, 128), high, scales.astype(np.uint8), _halves(unit)], axis=1)


def _nearest(numbers: Array) -> Array:
    """Codes of levels, of numbers in blocks of 32, as bytes: the first half low, the other one high."""
    codes = np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, numbers).astype(np.uint8)
    packed: Array = codes[..., :16] | codes[..., 16:] << 4
    return packed


def _iq4_nl(blocks: Array) -> Array:
    unit = (np.abs(blocks).max(-1, keepdims=True) / 113).astype(np.float16)
    numbers = _divided(blocks, np.broadcast_to(unit.astype(np.float32), blocks.shape))
    return np.concatenate([_halves(unit), _nearest(numbers)], axis=1)


def _iq4_xs(blocks: Array) -> Array:
    groups = blocks.reshape(-1, 8, 32)
    unit, scales = _rounded(np.abs(groups).max(-1) / 113, 31)
    numbers = _divided(groups, np.broadcast_to((unit * scales)[..., None], groups.shape))
    six = (scales + 32).astype(np.uint16)
    high = np.bitwise_or.reduce([(six[:, [each]] >> 4) << 2 * each for each in range(8)])
    low = ((six[:, ::2] & 15) | ((six[:, 1::2] & 15) << 4)).astype(np.uint8)
    return np.concatenate([_halves(unit), high.view(np.uint8), low, _nearest(numbers).reshape(-1, 128)], axis=1)


ENCODERS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "Q2_K": (256, _q2_k),
    "Q3_K": (256, _q3_k),
    "Q4_K": (256, _q4_k),
    "Q5_K": (256, _q5_k),
    "Q6_K": (256, _q6_k),
    "IQ4_NL": (32, _iq4_nl),
    "IQ4_XS": (256, _iq4_xs),
}
"""Numbers that share a block, and what makes blocks uint8 [count, bytes] of them, float32 [count, numbers]."""
