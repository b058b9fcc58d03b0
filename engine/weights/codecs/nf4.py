"""4.13 bits a weight: NormalFloat4 in blocks of 64, the bytes of bitsandbytes' `quantize_4bit`.

Dettmers et al. 2023, "QLoRA", arXiv 2305.14314. Transport compression only: nothing is ever computed in 4 bits. The
absmax of every block takes 8 bits instead of 32 (section 3, bitsandbytes' `compress_statistics=True`): the mean is
taken off and kept, the rest is rounded to Dettmers' dynamic 8-bit numbers (arXiv 1511.04561), 256 to a scale.

Codes become weights by table on any device, by bitsandbytes' kernel on CUDA, with the same bits either way.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import pad

from engine.model.decoding.tables import NUMBERS
from engine.model.formats.four_bits import unpacking_for
from engine.model.products.arrays import array
from engine.model.products.layouts import NestedLevels, levels
from engine.model.products.product import Product, Stored, decoded
from engine.model.products.product import stored as stored_matrix
from engine.weights.codecs.plain import Plain, chunk_weights, is_compressible, require_finite, stored_tensor

BLOCK = 64  # weights that share an absmax
LEVELS = torch.tensor(NUMBERS["nf4"])
MIDPOINTS = ((LEVELS[:-1] + LEVELS[1:]) / 2).tolist()
TINY = 1e-38  # an absmax or a scale of which 1 / x is finite; a block of zeros stays zero
CODES, ABSMAX, SCALES, OFFSET = ".nf4", ".absmax", ".absmax_scale", ".absmax_offset"
GROUP = 256  # absmax values that share a scale
GRID = 65535  # bitsandbytes rounds to this many steps of [-1, 1] first and looks the rest up; so must we


class Nf4(Plain):
    """Stores [..., rows, columns] as codes, int16 [..., rows, columns / 4]: two bytes of two codes, the first one high.

    The bytes are bitsandbytes'; as int16 they are aligned to be read two at a time. Beside them the blocks' absmax in
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
            require_finite(name, exact.sum())  # an upper bound of all that is computed from them
            for part, values in zip((absmax, scales, offset), compress_absmax(exact), strict=True):
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
        shape = (out.shape[-2], out.shape[-1])
        unpack = unpacking_for(self.name, out.device)
        step = len(matrices) if out.is_cuda else 1  # few launches there, small temporaries here
        for begin in range(0, len(matrices), step):
            some = slice(begin, begin + step)
            if decoded(lambda: _matrix(codes[begin], statistics, begin, shape), matrices[begin].view(shape)):  # noqa: B023
                continue
            pairs, absmax = codes[some].view(torch.uint8).view(-1), restore_absmax(*(part[some] for part in statistics))
            unpack(self.name, BLOCK, pairs, absmax, matrices[some].view(-1))
        return None

    def product(
        self, stored: Mapping[str, Tensor], name: str, shape: tuple[int, int], turned: bool = False
    ) -> Product | None:
        """See `Decoder.product`."""
        if turned:
            return None
        if name in stored:
            return super().product(stored, name, shape)
        codes, *statistics = (stored_tensor(stored, part, sizes) for part, (sizes, _) in _parts(name, shape).items())
        return _matrix(codes, [part.view(1, -1) for part in statistics], 0, shape)


def _matrix(codes: Tensor, statistics: Sequence[Tensor], number: int, shape: tuple[int, int]) -> Stored | None:
    """One matrix of a stack as it is stored, for compiled loops; None if there are none."""
    absmax, scales, offset = (part[number] for part in statistics)

    def make() -> NestedLevels:
        return NestedLevels(
            codes=array(codes.view(torch.uint8).view(shape[0], -1)),
            absmax=array(absmax),
            block=BLOCK.bit_length() - 1,
            levels=levels("nf4"),
            steps=array(_dynamic_numbers(codes.device)),
            scales=array(scales),
            group=GROUP.bit_length() - 1,
            offset=array(offset)[0],
        )

    return stored_matrix(make, shape, codes, absmax, scales)


def _compressed_outline(name: str, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """The four tensors that hold a compressed weight, on the meta device."""
    return {
        part: torch.empty(sizes, dtype=dtype, device="meta") for part, (sizes, dtype) in _parts(name, shape).items()
    }


def _parts(name: str, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Their shapes and number types."""
    stack, blocks = shape[:-2], prod(shape[-2:]) // BLOCK
    return {
        name + CODES: ((*shape[:-1], shape[-1] // 4), torch.int16),
        name + ABSMAX: ((*stack, blocks), torch.uint8),
        name + SCALES: ((*stack, groups_of(blocks)), torch.float32),
        name + OFFSET: ((*stack, 1), torch.float32),
    }


def _quantise(weights: Tensor, codes: Tensor) -> Tensor:
    """Write the codes of a flat matrix, uint8 [weights / 2], and return its blocks' absmax, float32 [blocks]."""
    absmax = torch.empty(len(weights) // BLOCK, device=weights.device)
    step = chunk_weights(weights.device)
    for begin in range(0, len(weights), step):
        chunk = weights[begin : begin + step].float().view(-1, BLOCK)
        largest = chunk.abs().amax(dim=1)
        absmax[begin // BLOCK :][: len(largest)] = largest
        unit = (chunk * (1 / largest.clamp(min=TINY))[:, None]).view(-1)
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


def groups_of(blocks: int) -> int:
    """How many scales `blocks` absmax values need."""
    return -(-blocks // GROUP)


def compress_absmax(absmax: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Round the block absmax of one matrix, float32 [blocks], to 8 bits.

    Returns, on the CPU: codes uint8 [blocks], scales float32 [groups], offset float32 [1]. Bytes are the same
    whatever the device and the number of threads.
    """
    absmax = absmax.cpu()
    offset = absmax.expand(2, -1).mean(dim=1)[:1]  # a sum to one number is split among threads, a row's sum is not
    groups = pad(absmax - offset, (0, -len(absmax) % GROUP)).view(-1, GROUP)
    scales = groups.abs().amax(dim=1, keepdim=True)
    unit = (groups * (1 / scales.clamp(min=TINY))).clamp_(-1, 1)
    steps = ((unit + 1) * 0.5 * GRID + 0.5).to(torch.int32)
    codes = _dynamic_codes().index_select(0, steps.view(-1)).view_as(groups)
    codes.masked_fill_(scales == 0, 0)
    return codes.view(-1)[: len(absmax)], scales.view(-1), offset


def restore_absmax(codes: Tensor, scales: Tensor, offset: Tensor) -> Tensor:
    """Undo `compress_absmax` for a stack of matrices: codes [matrices, blocks], scales [matrices, groups], offset
    [matrices, 1]; returns float32 [matrices * blocks] on the same device.
    """
    values = _dynamic_numbers(codes.device).index_select(0, codes.reshape(-1).int()).view(codes.shape)
    spread = scales[:, :, None].expand(-1, -1, GROUP).reshape(len(codes), -1)
    return values.mul_(spread[:, : codes.shape[1]]).add_(offset).view(-1)


@lru_cache
def _dynamic_numbers(device: torch.device) -> Tensor:
    """The 256 dynamic numbers in ascending order: seven decades, each with twice as many steps as the one below."""
    numbers = [0.0, 1.0]
    for doublings in range(7):
        edges = torch.linspace(0.1, 1, 2**doublings + 1)
        middles = 10 ** (doublings - 6) * ((edges[:-1] + edges[1:]) / 2)
        numbers += middles.tolist() + (-middles).tolist()
    return torch.tensor(sorted(numbers), device=device)


@lru_cache(maxsize=1)
def _dynamic_codes() -> Tensor:
    """For every step of the grid, which dynamic number is the nearest; uint8 [65536]."""
    numbers = _dynamic_numbers(torch.device("cpu"))
    steps = -1 + 2.0 * torch.arange(GRID + 1, dtype=torch.float32) / GRID
    return torch.bucketize(steps, (numbers[:-1] + numbers[1:]) * 0.5).to(torch.uint8)
