"""4.13 bits a weight: NormalFloat4 in blocks of 64, the bytes of bitsandbytes' `quantize_4bit`.

Dettmers et al. 2023, "QLoRA", arXiv 2305.14314. Transport compression only: nothing is ever computed in 4 bits.
"""

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor

from engine.weights.codecs.compressible import chunk_weights, is_compressible, require_finite, stored_tensor
from engine.weights.codecs.double_quantisation import compress, groups_of, restore
from engine.weights.codecs.nf4_unpacking import BLOCK, LEVELS, unpacking_for
from engine.weights.codecs.plain import Plain

MIDPOINTS = ((LEVELS[:-1] + LEVELS[1:]) / 2).tolist()
SMALLEST_ABSMAX = 1e-38  # keeps 1 / absmax finite; a block of zeros stays zero
CODES, ABSMAX, SCALES, OFFSET = ".nf4", ".absmax", ".absmax_scale", ".absmax_offset"


class Nf4(Plain):
    """Stores [..., rows, columns] as codes, int16 [..., rows, columns / 4]: two bytes of two codes, the first one high.

    The bytes are bitsandbytes'; as int16 they lie where they can be read by twos. Beside them the blocks' absmax in
    8 bits, with its scales and its mean. Each matrix of a stack, such as each expert of [experts, rows, columns], is
    compressed on its own: its slice of all four tensors can be decoded alone.
    """

    name = "nf4"

    def outline(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
        """See `Codec.outline`."""
        plain = super().outline(name, shape, dtype)
        return _compressed_outline(name, shape) if is_compressible(name, shape, BLOCK) else plain

    def encode(self, name: str, tensor: Tensor) -> dict[str, Tensor]:
        """See `Codec.encode`."""
        outline = self.outline(name, tuple(tensor.shape), tensor.dtype)
        if name in outline:
            return super().encode(name, tensor)
        stored = {part: torch.empty_like(meta, device=tensor.device) for part, meta in outline.items()}
        matrices = tensor.reshape(-1, *tensor.shape[-2:])
        parts = zip(*(stored[part].view(len(matrices), -1) for part in outline), strict=True)
        for matrix, (codes, absmax, scales, offset) in zip(matrices, parts, strict=True):
            exact = _quantise(matrix.reshape(-1), codes.view(torch.uint8))
            require_finite(name, exact.sum())  # as large as anything that is taken of them
            for part, values in zip((absmax, scales, offset), compress(exact), strict=True):
                part.copy_(values)
        return stored

    def decode(self, stored: Mapping[str, Tensor], name: str, out: Tensor) -> None:
        """See `Codec.decode`."""
        if name in stored:
            return super().decode(stored, name, out)
        outline = _compressed_outline(name, tuple(out.shape))
        tensors = [stored_tensor(stored, part, tuple(meta.shape)) for part, meta in outline.items()]
        matrices = out.view(-1, prod(out.shape[-2:]))
        codes, *statistics = (tensor.view(len(matrices), -1) for tensor in tensors)
        unpack = unpacking_for(out.device)
        step = len(matrices) if out.is_cuda else 1  # few launches there, small temporaries here
        for begin in range(0, len(matrices), step):
            some = slice(begin, begin + step)
            unpack(codes[some].view(-1), restore(*(part[some] for part in statistics)), matrices[some].view(-1))
        return None


def _compressed_outline(name: str, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """The four tensors that hold a compressed weight, on the meta device."""
    stack, blocks = shape[:-2], prod(shape[-2:]) // BLOCK
    return {
        name + CODES: torch.empty(*shape[:-1], shape[-1] // 4, dtype=torch.int16, device="meta"),
        name + ABSMAX: torch.empty(*stack, blocks, dtype=torch.uint8, device="meta"),
        name + SCALES: torch.empty(*stack, groups_of(blocks), dtype=torch.float32, device="meta"),
        name + OFFSET: torch.empty(*stack, 1, dtype=torch.float32, device="meta"),
    }


def _quantise(weights: Tensor, codes: Tensor) -> Tensor:
    """Write the codes of a flat matrix, uint8 [weights / 2], and return its blocks' absmax, float32 [blocks]."""
    absmax = torch.empty(len(weights) // BLOCK, device=weights.device)
    step = chunk_weights(weights.device)
    for begin in range(0, len(weights), step):
        chunk = weights[begin : begin + step].float().view(-1, BLOCK)
        largest = chunk.abs().amax(dim=1)
        absmax[begin // BLOCK :][: len(largest)] = largest
        unit = (chunk * (1 / largest.clamp(min=SMALLEST_ABSMAX))[:, None]).view(-1)
        first, second = _nearest_level(unit).view(-1, 2).unbind(dim=1)
        codes[begin // 2 :][: len(first)] = (first << 4) | second
    return absmax


def _nearest_level(unit: Tensor) -> Tensor:
    """The index of the level nearest to each number, uint8: how many midpoints lie below it.

    Fifteen vectorised comparisons are several times as fast as a binary search that is not.
    """
    count, above = torch.zeros_like(unit), torch.empty_like(unit)
    for midpoint in MIDPOINTS:
        count += torch.gt(unit, midpoint, out=above)
    return count.to(torch.uint8)
