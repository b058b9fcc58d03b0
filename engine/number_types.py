"""The types of tensors' numbers: their names in safetensors files, their sizes, and torch's own types.

torch is imported only by those who ask for its types: tables of files are read without it.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Name in safetensors: bits a number, and the name in torch ("" where torch has no such type).
_TYPES = {
    "BOOL": (8, "bool"),
    "U8": (8, "uint8"), "U16": (16, "uint16"), "U32": (32, "uint32"), "U64": (64, "uint64"),
    "I8": (8, "int8"), "I16": (16, "int16"), "I32": (32, "int32"), "I64": (64, "int64"),
    "F4": (4, ""), "F6_E2M3": (6, ""), "F6_E3M2": (6, ""),
    "F8_E4M3": (8, "float8_e4m3fn"), "F8_E5M2": (8, "float8_e5m2"), "F8_E8M0": (8, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": (8, "float8_e4m3fnuz"), "F8_E5M2FNUZ": (8, "float8_e5m2fnuz"),
    "F16": (16, "float16"), "BF16": (16, "bfloat16"), "F32": (32, "float32"), "F64": (64, "float64"),
    "C64": (64, "complex64"),
}  # fmt: skip

BITS = {name: bits for name, (bits, _) in _TYPES.items()}
"""Bits a number by the type's name in safetensors."""

COMPUTED = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
"""The types that networks compute in: as configurations and torch call them, and their names in safetensors."""


@cache
def torch_types() -> "dict[str, torch.dtype]":
    """Torch's types by their names in safetensors."""
    import torch  # noqa: PLC0415

    return {name: getattr(torch, own) for name, (_, own) in _TYPES.items() if own}


@cache
def safetensors_names() -> "dict[torch.dtype, str]":
    """The other way round."""
    return {dtype: name for name, dtype in torch_types().items()}


@cache
def computed_types() -> "dict[str, torch.dtype]":
    """Torch's types that networks compute in, by the names that configurations use."""
    import torch  # noqa: PLC0415

    return {name: getattr(torch, name) for name in COMPUTED}


def name_of(dtype: "torch.dtype") -> str:
    """As configurations and people call it."""
    return str(dtype).removeprefix("torch.")
