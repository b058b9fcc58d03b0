"""Random weights, and the way through a codec and back, for the tests of the codecs."""

import torch
from torch import Tensor

from engine.weights.codecs.codec import Codec

COMPRESSING = ("int8", "nf4")
TYPES = (torch.float32, torch.bfloat16, torch.float16)
WEIGHT = "self_attn.q_proj.weight"


def random_weight(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 0.02


def there_and_back(codec: Codec, weight: Tensor, dtype: torch.dtype | None = None, name: str = WEIGHT) -> Tensor:
    out = torch.full_like(weight, float("nan"), dtype=dtype or weight.dtype)
    codec.decode(codec.encode(name, weight), name, out)
    return out


def relative_error(found: Tensor, weight: Tensor) -> float:
    return float((found.double() - weight.double()).norm() / weight.double().norm())
