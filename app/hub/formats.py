"""In which formats a model's weights are stored, told from what the hub and its config.json say of it."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.system.json_text import text

GGUF, PLAIN, FLOAT32 = "GGUF", "safetensors 16-bit", "safetensors 32-bit"
PYTORCH = "PyTorch"  # pickles, which are never opened
_FP8, _MXFP4, _NVFP4, _AWQ, _GPTQ = "FP8", "MXFP4", "NVFP4", "AWQ", "GPTQ"
_COMPRESSED, _AUTO_ROUND = "compressed-tensors", "AutoRound"
_BNB_4BIT, _BNB_8BIT, _MIXED = "bnb-4bit", "bnb-8bit", "ModelOpt mixed"
OPENED = frozenset({
    PLAIN, FLOAT32, _FP8, _MXFP4, _NVFP4, _AWQ, _GPTQ, _COMPRESSED, _AUTO_ROUND, _BNB_4BIT, _BNB_8BIT, _MIXED,
})  # fmt: skip
"""What safetensors files are opened for; the engine says the rest."""

_METHODS = {
    "fp8": _FP8, "fbgemm_fp8": _FP8, "mxfp4": _MXFP4, "mxfp8": "MXFP8", "awq": _AWQ, "gptq": _GPTQ,
    "auto-round": _AUTO_ROUND, "intel/auto-round": _AUTO_ROUND,
    "compressed-tensors": _COMPRESSED, "exl2": "EXL2", "exl3": "EXL3", "hqq": "HQQ", "torchao": "torchao",
}  # fmt: skip
_TAGS = ("compressed-tensors", "auto-round", "awq", "gptq", "fp8", "mxfp4", "exl2", "exl3", "hqq", "torchao")
_BITS_IN_NAME = re.compile(r"(?:Q|MXFP|NVFP)(\d)", re.ASCII)
_BITS = {
    FLOAT32: 32.0, _FP8: 8.0, _AWQ: 4.0, _GPTQ: 4.0, _COMPRESSED: 4.0, _AUTO_ROUND: 4.0, _BNB_4BIT: 4.0,
    _BNB_8BIT: 8.0, _MIXED: 4.0,
}  # fmt: skip
_SCALE_BITS = 0.6  # what the scales of small groups add, and layers that are kept finer
_MLX, _ONNX = "MLX", "ONNX"


def formats_of(tags: Collection[str], config: object, number_types: Sequence[str], is_gguf: bool) -> tuple[str, ...]:
    """The formats of a repository, as people call them.

    `tags`: the hub's; `config`: what it kept of config.json; `number_types`: those of its safetensors files, the
    most frequent one first.
    """
    known = {tag.casefold() for tag in tags}
    found = []
    if "safetensors" in known or number_types:
        described = config.get("quantization_config") if isinstance(config, dict) else None
        named = stored_format(described) if isinstance(described, dict) else ""
        found.append(_MLX if "mlx" in known else named or _tagged(known, number_types) or _by_numbers(number_types))
    if "gguf" in known or is_gguf:
        found.append(GGUF)
    if "onnx" in known:
        found.append(_ONNX)
    return tuple(found)


def stored_format(described: Mapping[str, Any]) -> str:
    """The format that a `quantization_config` describes; what nobody here knows is called as it calls itself.

    ModelOpt's own files have no method, but an entry of their own.
    """
    own = described.get("quantization")
    if isinstance(own, dict) and "quant_method" not in described:
        described = {**own, "quant_method": "modelopt"}
    method = text(described.get("quant_method"), 40).casefold()
    if method == "bitsandbytes" or "load_in_4bit" in described:
        return _BNB_8BIT if described.get("load_in_8bit") is True else _BNB_4BIT
    if method == "modelopt":
        algorithm = text(described.get("quant_algo"), 40).upper()
        if algorithm == "MIXED_PRECISION":
            return _MIXED
        return _NVFP4 if "NVFP4" in algorithm else _FP8 if "FP8" in algorithm else algorithm or method
    if method == "compressed-tensors" and "nvfp4" in text(described.get("format"), 60).casefold():
        return _NVFP4
    return _METHODS.get(method, method)


def parameters_in(size: int, stored: str) -> int:
    """About how many parameters so many bytes of weights hold, by the format that they are stored in."""
    match = _BITS_IN_NAME.search(stored)
    bits = float(match[1]) if match else _BITS.get(stored, 16.0)
    return round(8 * size / (bits + _SCALE_BITS if bits < 16 else bits))


def _tagged(tags: Collection[str], number_types: Sequence[str]) -> str:
    if "nvfp4" in tags or "modelopt" in tags:
        has_four_bits = "nvfp4" in tags or "U8" in number_types or not number_types
        return _NVFP4 if has_four_bits else _by_numbers(number_types)
    if "bitsandbytes" in tags:
        return _BNB_8BIT if "8-bit" in tags else _BNB_4BIT
    return next((_METHODS[tag] for tag in _TAGS if tag in tags), "")


def _by_numbers(number_types: Sequence[str]) -> str:
    if any(each.startswith(("F8_E4M3", "F8_E5M2")) for each in number_types):
        return _FP8
    return FLOAT32 if number_types and number_types[0] == "F32" else PLAIN
