"""On which device, and in which number type, a model's weights are held."""

import torch

from engine.errors import InputError
from engine.model.checkpoint import Checkpoint
from engine.number_types import computed_types
from engine.protocol.sentences import say

FLOAT32_ON_CPU_BYTES = 2 << 30  # up to this size a CPU runs float32, exact and as fast as bfloat16


def choose_device(name: str) -> torch.device:
    """The device called `auto`, `cpu` or `cuda`; raises `InputError` if it is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError(
            say("There is no CUDA device that torch can use."),
            say("Choose device 'cpu', or install an NVIDIA driver and a CUDA build of torch."),
        )
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def choose_dtype(
    weights: str, checkpoint: Checkpoint, device: torch.device, fastest: torch.dtype | None = None
) -> torch.dtype:
    """The number type called `weights`; `auto` is the checkpoint's own, but float32 for small models on a CPU.

    `fastest`: which the CPU computes fastest in, where that was measured; float32 is taken for larger models as well.
    """
    if weights != "auto":
        return computed_types()[weights]
    if device.type == "cpu" and checkpoint.parameters * 4 <= FLOAT32_ON_CPU_BYTES:
        return torch.float32
    return exact_if_faster(own_dtype(checkpoint), device, fastest)


def exact_if_faster(own: torch.dtype, device: torch.device, fastest: torch.dtype | None) -> torch.dtype:
    """A model's own number type, or float32 on a CPU that is faster in it."""
    return torch.float32 if device.type == "cpu" and fastest == torch.float32 else own


def own_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """The number type that config.json names, of those that are computed in; else bfloat16."""
    own = str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype"))
    return computed_types().get(own, torch.bfloat16)
