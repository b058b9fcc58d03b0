"""bitsandbytes: NF4 and FP4 in blocks along the whole weight, and LLM.int8() with a scale for each row.

Dettmers et al. 2023, "QLoRA", arXiv 2305.14314; Dettmers et al. 2022, "LLM.int8()", arXiv 2208.07339. A weight in
4 bits is stored flat; its shape, and what its blocks are like, lie in a small JSON text beside it.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.four_bits import KINDS, unpacking_for
from engine.model.formats.packed import PackedWeight
from engine.model.formats.stored import check_part, is_here, of_method, read_small
from engine.model.products.arrays import array
from engine.model.products.layouts import Levels, NestedLevels, levels, places
from engine.model.products.product import Stored, decoded, integers, stored
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

PER_LEVEL = 7.874015718698502e-3  # 1 / 127 as bitsandbytes has it: float32 products agree to the last bit
BLOCKS = frozenset(1 << power for power in range(5, 13))
LARGEST_OFFSET = 1e38  # of float32
LONGEST_STATE = 4096  # bytes of JSON; it takes about 200
STATE = ".quant_state.bitsandbytes__"
ROW_MAJOR = b"\0"  # other arrangements of 8-bit weights served kernels of the past

CODES, ABSMAX, GROUP_ABSMAX, GROUP_LEVELS = "codes", "absmax", "group_absmax", "group_levels"


@dataclass(frozen=True, slots=True)
class FourBits:
    """A level times the absmax of its block of `block` numbers, which run on across rows.

    `codes`: bytes of two numbers, the first one high; `absmax` float32 [blocks], or, where `group` is not 0, uint8:
    `group_levels` float32 [256] says what it stands for, times `group_absmax` [groups] of `group` blocks, plus
    `offset`.
    """

    kind: str
    block: int
    group: int = 0
    offset: float = 0.0

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return f"bitsandbytes {self.kind.upper()}"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        codes, columns, block = parts[CODES].reshape(-1).view(torch.uint8), out.shape[1], self.block
        unpack = unpacking_for(self.kind, out.device)

        def decode(rows: slice) -> None:
            begin, end = rows.start * columns, rows.stop * columns
            blocks = slice(begin // block, -(-end // block))
            some = codes[blocks.start * block // 2 : blocks.stop * block // 2]
            whole = (blocks.stop - blocks.start) * block
            if len(some) < whole // 2:  # the last block may have fewer numbers
                some = torch.nn.functional.pad(some, (0, whole // 2 - len(some)))
            is_whole = whole == end - begin and out.is_contiguous()
            numbers = out[rows].view(-1) if is_whole else out.new_empty(whole)
            unpack(self.kind, block, some, self._absmax(parts, blocks), numbers)
            if not is_whole:
                first = begin - blocks.start * block
                out[rows].copy_(numbers[first : first + end - begin].view(-1, columns))

        in_chunks(decode, len(out), columns, out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        absmax, block, group = parts[ABSMAX].reshape(-1), places(self.block), places(self.group)
        codes = parts[CODES].reshape(-1).view(torch.uint8)
        if block is None or shape[1] % self.block or codes.numel() * 2 != shape[0] * shape[1]:
            return None
        packed = codes.view(shape[0], -1)
        if not self.group:
            if absmax.dtype != torch.float32:
                return None
            return stored(lambda: Levels(array(packed), array(absmax), block, levels(self.kind)), shape, packed, absmax)
        if group is None:
            return None
        steps, scales = parts[GROUP_LEVELS].reshape(-1), parts[GROUP_ABSMAX].reshape(-1)
        make = partial(
            NestedLevels, array(packed), array(absmax), block, levels(self.kind), array(steps), array(scales), group
        )
        return stored(lambda: make(np.float32(self.offset)), shape, packed, absmax, steps, scales)

    def _absmax(self, parts: Mapping[str, Tensor], blocks: slice) -> Tensor:
        """Of some blocks, in float32."""
        absmax = parts[ABSMAX].reshape(-1)[blocks]
        if not self.group:
            return absmax.float()
        groups = torch.arange(blocks.start, blocks.stop, device=absmax.device).div_(self.group, rounding_mode="floor")
        values = parts[GROUP_LEVELS].reshape(-1).index_select(0, absmax.to(torch.int32))
        return values.mul_(parts[GROUP_ABSMAX].reshape(-1).index_select(0, groups)).add_(self.offset)


@dataclass(frozen=True, slots=True)
class EightBits:
    """`codes` int8 [rows, columns] times `absmax` float32 [rows], by 127."""

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "bitsandbytes INT8"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        codes, absmax = parts[CODES], parts[ABSMAX].reshape(-1, 1)

        def decode(rows: slice) -> None:
            out[rows].copy_(codes[rows].float().mul_(absmax[rows]).mul_(PER_LEVEL))

        in_chunks(decode, len(out), out.shape[1], out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        del shape
        return integers(parts[CODES], parts[ABSMAX].reshape(-1), PER_LEVEL)


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All weights with a quantisation state or row scales; raises `ModelError` for those that do not fit."""
    del packing  # the weights say themselves how they are packed
    found = {}
    for kind in KINDS:
        for weight in of_method(tensors, STATE + kind):
            found[weight] = _find_four_bits(name, weight, kind, tensors)
    for stem in of_method(tensors, ".SCB"):
        found[f"{stem}.weight"] = _find_eight_bits(name, stem, tensors)
    return found


@dataclass(frozen=True, slots=True)
class _State:
    """What the JSON text says, checked; `group` is 0 where blocks' absmax are stored in float32."""

    shape: tuple[int, ...]
    block: int
    group: int
    offset: float


def _find_four_bits(name: str, weight: str, kind: str, tensors: Mapping[str, TensorInfo]) -> PackedWeight:
    text, codes = tensors[f"{weight}{STATE}{kind}"], tensors.get(weight)
    state = _read_state(name, weight, text) if is_here(text) else _deduced_state(name, weight, tensors)
    elements = math.prod(state.shape)
    blocks = -(-elements // state.block)
    if codes is None or codes.nbytes != -(-elements // 2):
        raise damaged(name, weight, say("has not as many bytes as its shape asks for"))
    parts = {
        CODES: codes,
        ABSMAX: check_part(name, tensors, f"{weight}.absmax", ("U8",) if state.group else ("F32",), (blocks,)),
        "levels": check_part(name, tensors, f"{weight}.quant_map", ("F32",), (16,)),
        "state": text,
    }
    if state.group:
        groups = -(-blocks // state.group)
        parts[GROUP_ABSMAX] = check_part(name, tensors, f"{weight}.nested_absmax", ("F32",), (groups,))
        parts[GROUP_LEVELS] = check_part(name, tensors, f"{weight}.nested_quant_map", ("F32",), (256,))
    return PackedWeight(weight, state.shape, parts, FourBits(kind, state.block, state.group, state.offset))


def _read_state(name: str, weight: str, text: TensorInfo) -> _State:
    """The shape and the blocks that the JSON text gives."""
    content = read_small(text, LONGEST_STATE)
    try:
        state = json.loads(content.decode("utf-8")) if content is not None else None
    except (ValueError, RecursionError):
        state = None
    if not isinstance(state, dict):
        raise damaged(name, weight, say("does not say its shape"))
    shape, block, group = state.get("shape"), state.get("blocksize"), state.get("nested_blocksize", 0)
    offset = state.get("nested_offset", 0.0)
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or not all(type(size) is int and 0 < size < 1 << 31 for size in shape)
        or not _is_block(block)
        or not (group == 0 or _is_block(group))
        or not isinstance(offset, float)
        or not abs(offset) < LARGEST_OFFSET
    ):
        raise damaged(name, weight, say("does not say its shape"))
    return _State((shape[0], shape[1]), block, group, float(offset))


def _deduced_state(name: str, weight: str, tensors: Mapping[str, TensorInfo]) -> _State:
    """What the sizes of the stored tensors tell, where the text is not here: all but the shape."""
    codes, absmax = (tensors.get(part) for part in (weight, f"{weight}.absmax"))
    elements = 2 * codes.nbytes if codes else 0
    block = _fitting_block(elements, absmax)
    nested = tensors.get(f"{weight}.nested_absmax")
    group = _fitting_block(absmax.elements, nested) if absmax and absmax.dtype == "U8" else 0
    if not block or group is None:
        raise damaged(name, weight, say("does not say its shape"))
    return _State((elements,), block, group, 0.0)


def _fitting_block(elements: int, absmax: TensorInfo | None) -> int | None:
    """The smallest block of which so many numbers have as many as there are absmax; None if none has."""
    blocks = absmax.elements if absmax else 0
    return next((block for block in sorted(BLOCKS) if blocks and -(-elements // block) == blocks), None)


def _is_block(size: object) -> TypeGuard[int]:
    return type(size) is int and size in BLOCKS


def _find_eight_bits(name: str, stem: str, tensors: Mapping[str, TensorInfo]) -> PackedWeight:
    weight, order = f"{stem}.weight", tensors.get(f"{stem}.weight_format")
    codes = tensors.get(weight)
    if codes is None or codes.dtype != "I8" or len(codes.shape) != 2:
        raise damaged(name, weight, say("is no matrix of 8 bits"))
    parts = {CODES: codes, ABSMAX: check_part(name, tensors, f"{stem}.SCB", ("F32",), codes.shape[:1])}
    if order is not None:
        parts["order"] = check_part(name, tensors, f"{stem}.weight_format", ("U8",), (), (1,))
        if read_small(order, 1) not in {None, ROW_MAJOR}:
            raise unknown_packing(name, "bitsandbytes", "weight_format")
    return PackedWeight(weight, codes.shape, parts, EightBits())
