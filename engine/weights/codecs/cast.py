"""Weights stored in 16 bits and used in another number type."""

import torch
from torch import Tensor

from engine.weights.codecs.compressible import is_compressible
from engine.weights.codecs.plain import Plain


class Cast(Plain):
    """Stores float32 matrices as bfloat16 (its range is float32's own); 16-bit weights and small tensors stay."""

    name = "cast"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        narrow = dtype == torch.float32 and is_compressible(name, shape)
        return super().outline(name, shape, torch.bfloat16 if narrow else dtype)
