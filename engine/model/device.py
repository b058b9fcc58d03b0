"""On which device, and in which number type, a model's weights are held."""

import torch

from engine.errors import InputError, ModelError
from engine.model.checkpoint import Checkpoint
from engine.model.safetensors_header import TensorInfo

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# As safetensors calls them.
STORED_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16,
    "U32": torch.uint32, "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64,
}  # fmt: skip
FLOAT32_ON_CPU_BYTES = 2 << 30  # up to this size a CPU runs float32, exact and as fast as bfloat16


def choose_device(name: str) -> torch.device:
    """The device called `auto`, `cpu` or `cuda`; raises `InputError` if it is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "There is no CUDA device that torch can use.",
            "Choose device 'cpu', or install an NVIDIA driver and a CUDA build of torch.",
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def choose_dtype(weights: str, checkpoint: Checkpoint, device: torch.device) -> torch.dtype:
    """The number type called `weights`; `auto` is the checkpoint's own, but float32 for small models on a CPU."""
    if weights != "auto":
        return DTYPES[weights]
    if device.type == "cpu" and checkpoint.parameters * 4 <= FLOAT32_ON_CPU_BYTES:
        return torch.float32
    return own_dtype(checkpoint)


def own_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """The number type that config.json names, of those that are computed in; else bfloat16."""
    own = str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype"))
    return DTYPES.get(own, torch.bfloat16)


def stored_dtype(info: TensorInfo) -> torch.dtype:
    """The torch type of the numbers as they are stored; raises `ModelError` for one that torch does not have."""
    if info.dtype not in STORED_DTYPES:
        raise ModelError(
            f"{info.shard} holds numbers of the type {info.dtype}, which cannot be used.", "Choose another."
        )
    return STORED_DTYPES[info.dtype]
