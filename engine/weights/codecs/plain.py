"""Weights stored as they are or in 16 bits, and the rules that all codecs share: what is compressed, in what chunks."""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.model.products.product import Product, plain
from engine.number_types import computed_types, name_of
from engine.own_thread import threads_allowed
from engine.protocol.sentences import say

SMALLEST = 4096  # elements; below this, scales and alignment take what compression saves
ROUTERS = frozenset({"gate", "router", "shared_expert_gate"})
TABLES = torch.int64  # of whole numbers, that few networks look up in (Qwen4-Exp: how n-grams are hashed)
CHUNK_WEIGHTS = 1 << 17  # per CPU thread: the temporaries of one chunk stay in the second-level cache
CHUNK_WEIGHTS_CUDA = 1 << 24  # few launches, and still no more than 128 MiB of temporaries


class Plain:
    """Stores a weight under its own name, with its own numbers."""

    name = "plain"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        if dtype not in {*computed_types().values(), TABLES}:
            raise ModelError(
                say(
                    "The weight '{tensor}' holds numbers of type {kind}.",
                    tensor=name,
                    kind=name_of(dtype),
                ),
                say("Take a checkpoint in float32, bfloat16 or float16."),
            )
        return {name: torch.empty(shape, dtype=dtype, device="meta")}

    def encode(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """See `Codec.encode`. A tensor that need not change is returned itself, not a copy."""
        stored = self.outline(name, tuple(tensor.shape), tensor.dtype)[name]
        narrowed = tensor.to(stored.dtype).contiguous()
        require_finite(name, narrowed)
        return {name: narrowed}

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Codec.decode`."""
        out.copy_(stored_tensor(stored, name, tuple(out.shape)))

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`."""
        if turned:
            return None
        return plain(stored_tensor(stored, name, shape))


class Cast(Plain):
    """Stores float32 matrices as bfloat16 (its range is float32's own); 16-bit weights and small tensors stay."""

    name = "cast"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        narrow = dtype == torch.float32 and is_compressible(name, shape)
        return super().outline(name, shape, torch.bfloat16 if narrow else dtype)


def is_compressible(name: str, shape: tuple[int, ...], block: int = 1) -> bool:
    """Whether a weight is a matrix, or a stack of them, worth compressing in blocks along its last dimension.

    Norms, biases and sinks are too small to matter; a router is left alone because rounding it would send tokens to
    other experts.
    """
    path = name.split(".")
    if len(shape) < 2 or path[-1].endswith("bias") or not ROUTERS.isdisjoint(path):
        return False
    return prod(shape) >= SMALLEST and shape[-1] % block == 0


def require_finite(name: str, values: Tensor) -> None:
    """Raise `ModelError` if the weight `name`, or the magnitudes taken of it, hold a NaN or an infinity."""
    if values.numel() and not bool(torch.stack(torch.aminmax(values)).isfinite().all()):  # one pass, no temporaries
        raise ModelError(
            say("The weight '{tensor}' holds a number that is not finite.", tensor=name),
            say(
                "The checkpoint is damaged, or its numbers are too large for 16 bits: download it again, or "
                "take another."
            ),
        )


def stored_tensor(stored: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> Tensor:
    """The stored tensor called `name`; raises `ModelError` if it is missing or of another shape."""
    tensor = stored.get(name)
    if tensor is None or tuple(tensor.shape) != shape:
        found = (
            say("is missing")
            if tensor is None
            else say("has the shape {shape} and not {wanted}", shape=tuple(tensor.shape), wanted=shape)
        )
        raise ModelError(
            say("The stored tensor '{tensor}' {fault}.", tensor=name, fault=found),
            say("The prepared model is damaged: prepare it again."),
        )
    return tensor


def chunk_weights(device: torch.device) -> int:
    """How many weights are processed at a time; results never depend on it."""
    return CHUNK_WEIGHTS_CUDA if device.type == "cuda" else CHUNK_WEIGHTS * threads_allowed()
