"""GPTQ, as AutoGPTQ and GPTQModel store it: 2, 3, 4 or 8 bits, groups of inputs, in the order of activations or not.

Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization", arXiv 2210.17323. The first version of the format
keeps zero points less one, the second one (`checkpoint_format: gptq_v2`) as they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_integers import (
    BITS,
    CODES,
    ORDER,
    SCALES,
    WORD_BITS,
    ZEROS,
    PackedIntegers,
    words_for,
)
from engine.model.formats.stored import FLOATS, check_part, group_size, of_method
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

ZERO_OFFSETS = {"gptq": 1, "gptq_v2": 0}
OVERRIDES = ("dynamic", "extra_config")  # where GPTQModel and AutoRound say which layers differ


@dataclass(frozen=True, slots=True)
class _Stated:
    """What config.json says of all layers, and whether some `differ`."""

    bits: int
    group: int
    differ: bool


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All `*.qweight` with their scales and zero points; raises `ModelError` for those that do not fit."""
    version = packing.get("checkpoint_format") or packing.get("format") or "gptq"
    if packing.get("is_marlin_format"):  # as AutoGPTQ says it
        version = "marlin"
    offset = ZERO_OFFSETS.get(version) if isinstance(version, str) else None
    if offset is None:
        raise unknown_packing(name, "gptq", version)
    bits, group = packing.get("bits"), group_size(name, packing.get("group_size"))
    stated = _Stated(bits if type(bits) is int else 0, group, any(packing.get(key) for key in OVERRIDES))
    return {f"{stem}.weight": _find_one(name, stem, tensors, stated, offset) for stem in of_method(tensors, ".qweight")}


def _bits(stated: _Stated, codes: TensorInfo, columns: int | None, zeros: TensorInfo | None, groups: int) -> int | None:
    """Those of one layer, which may be others than config.json states; None if they cannot be told.

    The order of the inputs tells how many there are. Without it, where layers are said to differ, the words that zero
    points take do, if as many groups are there as inputs need.
    """
    (words, rows), usual = codes.shape, stated.bits if stated.bits in BITS else None
    if columns is not None:
        return next((bits for bits in BITS if columns * bits == words * WORD_BITS), None)
    if usual is None or not stated.differ or zeros is None or len(zeros.shape) != 2:
        return usual
    for bits in (usual, *BITS):
        columns = words * WORD_BITS // bits
        if words_for(rows, bits) == zeros.shape[1] and -(-columns // (stated.group or columns)) == groups:
            return bits
    return usual


def _find_one(name: str, stem: str, tensors: Mapping[str, TensorInfo], stated: _Stated, offset: int) -> PackedWeight:
    codes, order, scales = (tensors.get(f"{stem}.{part}") for part in ("qweight", "g_idx", "scales"))
    weight = f"{stem}.weight"
    if (
        codes is None
        or scales is None
        or len(codes.shape) != 2
        or len(scales.shape) != 2
        or not codes.elements
        or not scales.elements
    ):
        raise damaged(name, weight, say("has no scales"))
    (words, rows), groups = codes.shape, scales.shape[0]
    columns = order.shape[0] if order is not None and len(order.shape) == 1 else None
    bits = _bits(stated, codes, columns, tensors.get(f"{stem}.qzeros"), groups)
    if bits is None:
        raise unknown_packing(name, "gptq", "bits", stated.bits)
    columns = words * WORD_BITS // bits if columns is None else columns
    group = stated.group or columns
    if -(-columns // group) != groups:
        group = -(-columns // groups)
    parts = {
        CODES: check_part(name, tensors, f"{stem}.qweight", ("I32",), (words_for(columns, bits), rows)),
        SCALES: check_part(name, tensors, f"{stem}.scales", FLOATS, (-(-columns // group), rows)),
        ZEROS: check_part(name, tensors, f"{stem}.qzeros", ("I32",), (groups, words_for(rows, bits))),
    }
    if order is not None:
        parts[ORDER] = check_part(name, tensors, f"{stem}.g_idx", ("I32", "I64"), (columns,))
    form = PackedIntegers("GPTQ", bits, group, turned=True, zero_offset=offset)
    return PackedWeight(weight, (rows, columns), parts, form)
