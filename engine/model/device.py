"""On which device, and in which number type, a model's weights are held."""

from dataclasses import dataclass

import torch

from engine import accelerator
from engine.errors import InputError
from engine.model.checkpoint import Checkpoint
from engine.number_types import computed_types
from engine.protocol.sentences import say

SMALLEST = 1 << 25  # parameters of a model for which it matters how its weights are multiplied
FLOAT32_ON_CPU_BYTES = 2 << 30  # up to this size a CPU runs float32, exact and as fast as bfloat16


# Families whose activations leave the range of float16, by the beginnings of their types, after vLLM's list of those
# that it does not run in float16 (_FLOAT16_NOT_SUPPORTED_MODELS in vllm/config/model.py).
TOO_WIDE_FOR_FLOAT16 = ("gemma2", "gemma3", "gemma4", "glm4", "plamo2")


def choose_device(name: str) -> torch.device:
    """The device called `auto`, `cpu` or `cuda`; raises `InputError` if it is not there.

    On CUDA attention is not computed by cuDNN from now on: it plans every new shape, 70 ms on an H100 where a layer of
    1 GB arrives in 20, and trees and texts have a new one in almost every pass.
    """
    found = accelerator.find()
    has_cuda = found is not None and found.type == "cuda"
    if name == "cuda" and not has_cuda:
        raise InputError(
            say("There is no CUDA device that torch can use."),
            say("Choose device 'cpu', or install an NVIDIA driver and a CUDA build of torch."),
        )
    if name == "auto":
        name = "cuda" if has_cuda else "cpu"
    if name == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return torch.device(name)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a processor is fastest with 16-bit weights, as measured.

    `type_name`: the number type that it computes in; `few_rows`: up to so many of float32, weights are multiplied as
    they are; `narrow_rows`: the same of bfloat16, 0 where torch's own products are faster with a row, too.
    """

    type_name: str
    few_rows: int
    narrow_rows: int = 0

    def rows_as_stored(self, dtype: torch.dtype) -> int:
        """Up to how many rows of a number type weights are multiplied as they are."""
        return {torch.float32: self.few_rows, torch.bfloat16: self.narrow_rows}.get(dtype, 0)


def choose_dtype(
    weights: str, checkpoint: Checkpoint, device: torch.device, arithmetic: Arithmetic | None = None
) -> torch.dtype:
    """The number type called `weights`; `auto` is the checkpoint's own, but float32 for small models on a CPU.

    `arithmetic`: what was found to be fastest here, which may be float32 for larger models as well; None for unknown.
    """
    if weights != "auto":
        return computed_types()[weights]
    if device.type == "cpu" and checkpoint.parameters * 4 <= FLOAT32_ON_CPU_BYTES:
        return torch.float32
    return torch.float32 if is_exact_faster(checkpoint, device, arithmetic) else own_dtype_on(device, checkpoint)


def is_exact_faster(checkpoint: Checkpoint, device: torch.device, arithmetic: Arithmetic | None) -> bool:
    """Whether a model in 16 bits is faster in float32, its weights staying as they are; small ones may do as before."""
    if device.type != "cpu" or arithmetic is None or arithmetic.type_name != "float32":
        return False
    return has_narrow_weights(checkpoint)


def has_narrow_weights(checkpoint: Checkpoint) -> bool:
    """Whether it matters how its weights are multiplied: there are many of them, in 16 bits."""
    return own_dtype(checkpoint) != torch.float32 and checkpoint.parameters >= SMALLEST


def own_dtype_on(device: torch.device, checkpoint: Checkpoint) -> torch.dtype:
    """`own_dtype`, but float16 in place of bfloat16 on a device that emulates it, for networks that bear it."""
    own = own_dtype(checkpoint)
    if own != torch.bfloat16 or accelerator.computes_bfloat16(device):
        return own
    return own if str(checkpoint.config.get("model_type")).startswith(TOO_WIDE_FOR_FLOAT16) else torch.float16


def own_dtype(checkpoint: Checkpoint) -> torch.dtype:
    """The number type that config.json names, of those that are computed in; else bfloat16."""
    own = str(checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype"))
    return computed_types().get(own, torch.bfloat16)
