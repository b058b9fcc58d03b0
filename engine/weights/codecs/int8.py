"""8 bits a weight: one scale per row, the bytes and scales of bitsandbytes' `int8_vectorwise_quant`.

Dettmers et al. 2022, "LLM.int8()", arXiv 2208.07339; without outlier columns, which only matter for activations.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from engine.model.formats.bitsandbytes import PER_LEVEL
from engine.model.products.product import Product, decoded, integers
from engine.weights.codecs.plain import Plain, chunk_weights, is_compressible, require_finite, stored_tensor

LEVELS = 127.0
SMALLEST_ABSMAX = 1e-36  # keeps 127 / absmax finite; a row of zeros stays zero
CODES, ABSMAX = ".int8", ".absmax"


class Int8(Plain):
    """Stores [..., rows, columns] as int8 of the same shape and float32 `absmax` of shape [..., rows]."""

    name = "int8"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        plain = super().outline(name, shape, dtype)
        if not is_compressible(name, shape):
            return plain
        return {
            name + CODES: torch.empty(shape, dtype=torch.int8, device="meta"),
            name + ABSMAX: torch.empty(shape[:-1], dtype=torch.float32, device="meta"),
        }

    def encode(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """See `Codec.encode`."""
        outline = self.outline(name, tuple(tensor.shape), tensor.dtype)
        if name in outline:
            return super().encode(name, tensor)
        stored = {part: torch.empty_like(meta, device=tensor.device) for part, meta in outline.items()}
        weights = tensor.reshape(-1, tensor.shape[-1])
        codes, absmax = stored[name + CODES].view(weights.shape), stored[name + ABSMAX].view(-1, 1)
        for rows in _row_slices(weights):
            chunk = weights[rows].float()
            absmax[rows] = chunk.abs().amax(dim=1, keepdim=True)
            codes[rows] = (chunk * (LEVELS / absmax[rows].clamp(min=SMALLEST_ABSMAX))).round_()
        require_finite(name, absmax * LEVELS)  # decoding goes through this product
        return stored

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Codec.decode`."""
        if name in stored:
            return super().decode(stored, name, out)
        weights = out.view(-1, out.shape[-1])
        codes = stored_tensor(stored, name + CODES, tuple(out.shape)).view(weights.shape)
        absmax = stored_tensor(stored, name + ABSMAX, tuple(out.shape[:-1])).view(-1, 1)
        if decoded(lambda: integers(codes, absmax.view(-1), PER_LEVEL), weights):
            return None
        for rows in _row_slices(weights):
            torch.mul(codes[rows] * absmax[rows], PER_LEVEL, out=weights[rows])
        return None

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`."""
        if turned:
            return None
        if name in stored:
            return super().product(stored, name, shape)
        codes, absmax = (stored_tensor(stored, name + CODES, shape), stored_tensor(stored, name + ABSMAX, shape[:1]))
        return integers(codes, absmax, PER_LEVEL)


def _row_slices(weights: Tensor) -> Iterator[slice]:
    """Slices of whole rows that hold about one chunk of weights each."""
    rows, columns = weights.shape
    step = max(1, chunk_weights(weights.device) // columns)
    return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))
