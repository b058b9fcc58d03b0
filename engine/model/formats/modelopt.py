"""NVIDIA's ModelOpt: NVFP4, and FP8 with a scale for the whole weight, a row, or a block; layers may differ.

Its files are called as transformers calls them. Which algorithm was used is said in config.json, or in
hf_quant_config.json beside it; what a layer holds tells how it is packed.
"""

from collections.abc import Mapping

from engine.model.formats import fp8
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.nvfp4 import float4_weight
from engine.model.formats.packed import PackedWeight
from engine.model.formats.stored import FLOATS, of_method
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

ALGORITHMS = frozenset({
    "FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN", "MIXED_PRECISION", "MXFP8", "NVFP4", "NVFP4_AWQ", "W4A16_NVFP4",
})  # fmt: skip
TOUCHED = (".pre_quant_scale", ".svdquant_lora_a")  # of layers whose activations are scaled, or that have a second part
BLOCK, GROUP = 128, 32  # rows and columns that share a scale, and with MXFP8 the columns: ModelOpt has no others


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All weights in 4 bits and in FP8; raises `ModelError` for those that do not fit, and for unknown algorithms."""
    algorithm = packing.get("quant_algo")
    if algorithm is None:  # only the cache is said to be packed
        return {}
    known = isinstance(algorithm, str) and algorithm.upper() in ALGORITHMS
    if not known or any(tensor.endswith(TOUCHED) for tensor in tensors):
        raise unknown_packing(name, "modelopt", algorithm)
    found = {}
    for stem in of_method(tensors, ".weight_scale"):
        weight = f"{stem}.weight"
        codes = tensors.get(weight)
        if codes is not None and codes.dtype == "F8_E4M3":
            found[weight] = _find_fp8(name, stem, codes, tensors[f"{stem}.weight_scale"])
        else:
            found[weight] = float4_weight(name, tensors, stem, weight, f"{stem}.weight_scale_2")
    return found


def _find_fp8(name: str, stem: str, codes: TensorInfo, scales: TensorInfo) -> PackedWeight:
    weight = f"{stem}.weight"
    if len(codes.shape) != 2 or not codes.elements:
        raise damaged(name, weight, say("is no matrix of 8 bits"))
    form = _format(codes.shape, scales)
    if form is None:
        shapes = list(scales.shape), list(codes.shape)
        raise damaged(
            name, weight, say("has scales of the shape {scales} for {shape}", scales=shapes[0], shape=shapes[1])
        )
    return PackedWeight(weight, codes.shape, {fp8.WEIGHT: codes, fp8.SCALE: scales}, form)


def _format(shape: tuple[int, ...], scales: TensorInfo) -> fp8.Fp8 | None:
    """Which part of a matrix each scale is for, told from their shape; None if they fit none."""
    rows, columns = shape
    if scales.dtype == "U8":
        return fp8.Fp8(1, GROUP) if scales.shape == (rows, -(-columns // GROUP)) else None
    if scales.dtype not in FLOATS:
        return None
    if scales.shape in {(), (1,)}:
        return fp8.Fp8(rows, columns)
    if scales.shape in {(rows,), (rows, 1)}:
        return fp8.Fp8(1, columns)
    down, across = -(-rows // BLOCK), -(-columns // BLOCK)
    return fp8.Fp8(BLOCK, BLOCK) if scales.shape in {(down, across), (down, 1, across, 1)} else None
