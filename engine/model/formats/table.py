"""The formats of packed weights by the name that config.json gives them, and what every one of them must hold to."""

from collections import Counter
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType

from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.packed import PackedWeight
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

Finder = Callable[[str, Mapping[str, object], Mapping[str, TensorInfo]], dict[str, PackedWeight]]
"""(model's name, `quantization_config`, stored tensors) to packed weights by their names; raises `ModelError`."""

FINDERS = {
    "auto-round": "engine.model.formats.auto_round",
    "awq": "engine.model.formats.awq",
    "bitsandbytes": "engine.model.formats.bitsandbytes",
    "compressed-tensors": "engine.model.formats.compressed_tensors",
    "fp8": "engine.model.formats.fp8",
    "gptq": "engine.model.formats.gptq",
    "modelopt": "engine.model.formats.modelopt",
    "mxfp4": "engine.model.formats.mxfp4",
}
"""The module whose `find` it is, by `quant_method`: none is imported, and torch with it, unless it is asked for."""

ALIASES = {"intel/auto-round": "auto-round"}  # as it was called first

NOTHING: Mapping[str, PackedWeight] = MappingProxyType({})
ACTIVATIONS = (
    "input_scale", "activation_scale", "input_global_scale", "input_zero_point", ".output_scale",
    ".k_scale", ".v_scale", ".q_scale",
)  # fmt: skip
NARROW = ("F8_E4M3", "F8_E5M2")
DENSEST = 8  # numbers in a byte: no format has more, so that a small file never becomes a huge weight


def find_packed(
    name: str, config: Mapping[str, object], tensors: Mapping[str, TensorInfo]
) -> Mapping[str, PackedWeight]:
    """The packed weights of a checkpoint called `name`, by their names; the other tensors are weights as they are.

    `config` is the parsed config.json. Raises `ModelError` for packing that is not known, and for weights whose stored
    tensors are missing, or do not fit them.
    """
    packing = _packing(config)
    if not packing:
        return NOTHING
    method = str(packing.get("quant_method")) if isinstance(packing, Mapping) else str(packing)
    method = ALIASES.get(method, method)
    if method not in FINDERS or not isinstance(packing, Mapping):
        raise unknown_packing(name, method)
    find: Finder = import_module(FINDERS[method]).find
    found = find(name, packing, tensors)
    for weight in found.values():
        _check(name, weight, tensors)
    _require_used_once(name, found)
    _require_scaled(name, found, tensors)
    return MappingProxyType(found)


def is_described(config: Mapping[str, object]) -> bool:
    """Whether config.json itself says how the weights are packed."""
    return bool(_packing(config))


def is_for_activations(tensor: str) -> bool:
    """Whether a tensor of a packed checkpoint scales activations or the cache: both have 16 bits and more here."""
    return tensor.endswith(ACTIVATIONS)


def _packing(config: Mapping[str, object]) -> object:
    """What config.json says of the packing; of a model in parts, that of the language model."""
    text = config.get("text_config")
    places = (config, text if isinstance(text, dict) else {})
    keys = ("quantization_config", "compression_config")
    found = next((place[key] for place in places for key in keys if place.get(key)), None)
    own = found.get("quantization") if isinstance(found, dict) and "quant_method" not in found else None
    # ModelOpt's own form of it, which names no method.
    return {**own, "quant_method": "modelopt"} if isinstance(own, dict) and "quant_algo" in own else found


def _check(name: str, weight: PackedWeight, tensors: Mapping[str, TensorInfo]) -> None:
    if not all(type(size) is int and size > 0 for size in weight.shape) or not weight.parts:
        raise damaged(name, weight.name, say("holds no numbers"))
    if weight.elements > DENSEST * weight.nbytes:
        raise damaged(name, weight.name, say("claims more numbers than its bytes can hold"))
    if weight.name in tensors and tensors[weight.name] not in weight.parts.values():
        raise damaged(name, weight.name, say("is stored twice"))


def _require_used_once(name: str, found: Mapping[str, PackedWeight]) -> None:
    uses = Counter(part.place for weight in found.values() for part in weight.parts.values())
    for weight in found.values():
        for part in weight.parts.values():
            if part.nbytes and uses[part.place] > 1:
                raise damaged(name, weight.name, say("shares its bytes with another one"))


def _require_scaled(name: str, found: Mapping[str, PackedWeight], tensors: Mapping[str, TensorInfo]) -> None:
    """Refuse matrices of 8-bit numbers whose scales have another name: without them they would be other weights."""
    places = {part.place for weight in found.values() for part in weight.parts.values()}
    for tensor, info in tensors.items():
        if info.dtype in NARROW and len(info.shape) > 1 and info.place not in places and not is_for_activations(tensor):
            raise damaged(name, tensor, say("has no scales"))
