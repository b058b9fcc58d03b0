"""Weights stored as they are; what every other codec does with the tensors that it leaves alone."""

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.protocol.sentences import say
from engine.weights.codecs.compressible import require_finite, stored_tensor

NUMBER_TYPES = (torch.float32, torch.bfloat16, torch.float16)


class Plain:
    """Stores a weight under its own name, with its own numbers."""

    name = "plain"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        if dtype not in NUMBER_TYPES:
            raise ModelError(
                say(
                    "The weight '{tensor}' holds numbers of type {kind}.",
                    tensor=name,
                    kind=str(dtype).removeprefix("torch."),
                ),
                say("Take a checkpoint in float32, bfloat16 or float16."),
            )
        return {name: torch.empty(shape, dtype=dtype, device="meta")}

    def encode(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """See `Codec.encode`. What need not change comes back as it came, not as a copy."""
        stored = self.outline(name, tuple(tensor.shape), tensor.dtype)[name]
        narrowed = tensor.to(stored.dtype).contiguous()
        require_finite(name, narrowed)
        return {name: narrowed}

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Codec.decode`."""
        out.copy_(stored_tensor(stored, name, tuple(out.shape)))
