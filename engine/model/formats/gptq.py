"""GPTQ, as AutoGPTQ and GPTQModel store it: 2, 3, 4 or 8 bits, groups of inputs, in the order of activations or not.

Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization", arXiv 2210.17323. The first version of the format
keeps zero points less one, the second one (`checkpoint_format: gptq_v2`) as they are.
"""

from collections.abc import Mapping

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


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All `*.qweight` with their scales and zero points; raises `ModelError` for those that do not fit."""
    version = packing.get("checkpoint_format") or packing.get("format") or "gptq"
    offset = ZERO_OFFSETS.get(version) if isinstance(version, str) else None
    if offset is None:
        raise unknown_packing(name, "gptq", version)
    group = group_size(name, packing.get("group_size"))
    return {
        f"{stem}.weight": _find_one(name, stem, tensors, packing.get("bits"), group, offset)
        for stem in of_method(tensors, ".qweight")
    }


def _find_one(
    name: str, stem: str, tensors: Mapping[str, TensorInfo], stated_bits: object, group: int, offset: int
) -> PackedWeight:
    codes, order, scales = (tensors.get(f"{stem}.{part}") for part in ("qweight", "g_idx", "scales"))
    weight = f"{stem}.weight"
    if codes is None or scales is None or len(codes.shape) != 2 or len(scales.shape) != 2 or not scales.elements:
        raise damaged(name, weight, say("has no scales"))
    (words, rows), groups = codes.shape, scales.shape[0]
    # Single layers may have other bits and groups than config.json states: the order tells how many inputs there are.
    columns = order.shape[0] if order is not None and len(order.shape) == 1 else None
    bits = stated_bits if columns is None else next((b for b in BITS if columns * b == words * WORD_BITS), None)
    if type(bits) is not int or bits not in BITS:
        raise unknown_packing(name, "gptq", "bits", stated_bits)
    columns = words * WORD_BITS // bits if columns is None else columns
    group = group or columns
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
