"""AutoRound: rounding learned by gradient descent, in weights that lie as GPTQ or AutoAWQ have them, and as those of
compressed-tensors where they are 4-bit or 8-bit floating-point numbers.

Cheng et al. 2023, "Optimize Weight Rounding via Signed Gradient Descent for the Quantization of LLMs", arXiv
2309.05516. Layers may have other bits than config.json states first: those of GPTQ tell theirs by their shapes.
"""

from collections.abc import Mapping

from engine.model.formats import awq, compressed_tensors, gptq
from engine.model.formats.faults import unknown_packing
from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo

OWN = "auto_round"  # before the kind of packing; what stands behind that is the kernel
USUAL = "auto_gptq"  # where nothing is said
# "auto_gptq" keeps zero points less one, as GPTQ's first version; AutoRound's own packing keeps them as they are.
GPTQ = {"gptq": "gptq", "auto_gptq": "gptq", "gptqmodel": "gptq_v2", OWN: "gptq_v2"}
AWQ = frozenset({"awq", "auto_awq"})
FLOATS = "llm_compressor"
ROTATED = ("rotation_config", "spinquant_config")  # activations are rotated, too


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All weights that are packed; raises `ModelError` for those that do not fit, and unknown packing."""
    stated = packing.get("packing_format") or packing.get("backend") or USUAL
    kind = _kind(stated)
    rotated = next((key for key in ROTATED if packing.get(key)), None)
    if kind is None or rotated:
        raise unknown_packing(name, "auto-round", rotated or stated)
    if kind == FLOATS:
        return compressed_tensors.find(name, {}, tensors)
    if any(tensor.endswith(".act_scale") for tensor in tensors):  # codes in 4 bits of numbers that had 8
        raise unknown_packing(name, "auto-round", stated, "act_bits", packing.get("act_bits"))
    if kind in AWQ:
        return awq.find(name, {"bits": packing.get("bits", 4), "group_size": packing.get("group_size")}, tensors)
    return gptq.find(name, {**packing, "checkpoint_format": GPTQ[kind]}, tensors)


def _kind(stated: object) -> str | None:
    """Of "auto_round:auto_gptq:exllamav2" the middle; None for what is not known."""
    if not isinstance(stated, str):
        return None
    first, *others = stated.split(":")
    if first == "auto":
        return USUAL
    kind = others[0] if others and first == OWN else first
    return kind if kind in GPTQ or kind in AWQ or kind == FLOATS else None
