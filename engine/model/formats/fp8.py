"""FP8: numbers of 8 bits with a scale for each block of them, as DeepSeek, Qwen, MiniMax and Mistral publish weights.

transformers' `FineGrainedFP8Config`: `weight` in e4m3 beside `weight_scale_inv` for blocks (128 x 128 nearly always),
for the whole tensor, or for each row. Weights whose sizes are no multiples of the block's have smaller blocks at their
ends. Scales of activations are of no use here: nothing is ever computed in 8 bits. DeepSeek V4's experts have 4 bits
beside those: MXFP4, two numbers in a byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.float8 import BIAS, has_bits_of_float16, lessened, widened
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.mxfp4 import powers_of_two
from engine.model.formats.nvfp4 import CODES, EXPONENTS, MXFP4_GROUP, Float4
from engine.model.formats.nvfp4 import SCALES as SCALES_OF_GROUPS
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_integers import UNIT_PLACES
from engine.model.products.arrays import array
from engine.model.products.layouts import Bytes, places
from engine.model.products.product import Stored, decoded, stored
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

STORED = ("F8_E4M3", "F8_E5M2")
SCALES = ("F32", "BF16", "F16", "F8_E8M0", "U8")  # bytes are exponents, as e8m0 has them
LARGEST_BLOCK = 1 << 16
ONE_BLOCK = 62  # of so many numbers, as a power of two
LARGEST_SCALE = 1e36  # times `BIAS` it is still a number

WEIGHT, SCALE = "weight", "scale"
BYTES, MXFP4 = ("I8", "U8"), Float4("MXFP4")


@dataclass(frozen=True, slots=True)
class Fp8:
    """`weight` [..., rows, columns] and `scale` [..., grid rows, grid columns]: each scale is for one block.

    A block has `block_rows` times `block_columns` numbers; the last ones of a row or column may have fewer.
    """

    block_rows: int
    block_columns: int

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "FP8"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`: number times scale."""
        weight = parts[WEIGHT]
        rows, columns = weight.shape[-2:]
        if decoded(lambda: self.product(parts, (rows, columns)), out):
            return
        grid = -(-rows // self.block_rows), -(-columns // self.block_columns)
        matrices, scales = weight.view(-1, rows, columns), _numbers(parts[SCALE]).view(-1, *grid)
        widen = widened
        if has_bits_of_float16(weight) and bool((scales.abs() < LARGEST_SCALE).all()):
            widen, scales = lessened, scales * BIAS  # the same products: both are exact
        for matrix, scale, target in zip(matrices, scales, out if out.ndim > 2 else [out], strict=True):

            def decode(part: slice, matrix: Tensor = matrix, scale: Tensor = scale, target: Tensor = target) -> None:
                own = torch.arange(part.start, part.stop, device=out.device).div_(
                    self.block_rows, rounding_mode="floor"
                )
                target[part].copy_(self._scaled(widen(matrix[part]), scale[own]))

            in_chunks(decode, rows, columns, out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        weight, (rows, columns) = parts[WEIGHT], shape
        sides = self._side(self.block_rows, rows), self._side(self.block_columns, columns)
        if weight.dtype != torch.float8_e4m3fn or weight.shape != shape or sides[0] is None or sides[1] is None:
            return None
        if sides[1] < UNIT_PLACES:  # loops find one scale for that many columns
            return None
        scales = _numbers(parts[SCALE]).reshape(-(-rows // self.block_rows), -1)
        if not bool((scales.abs() < LARGEST_SCALE).all()):
            return None
        block = sides[0], sides[1]
        return stored(lambda: Bytes(array(weight), array(scales * BIAS), *block), shape, weight)

    @staticmethod
    def _side(size: int, whole: int) -> int | None:
        """Which power of two a side of a block is; one beyond all columns where there is but one block."""
        return ONE_BLOCK if size >= whole else places(size)

    def _scaled(self, numbers: Tensor, scale: Tensor) -> Tensor:
        """`numbers` float32 [rows, columns] times `scale` [rows, grid columns], in place."""
        width = self.block_columns
        whole = numbers.shape[1] // width * width
        if whole:
            numbers[:, :whole].view(len(numbers), -1, width).mul_(scale[:, : whole // width, None])
        if whole < numbers.shape[1]:
            numbers[:, whole:].mul_(scale[:, whole // width :])
        return numbers


def _numbers(scale: Tensor) -> Tensor:
    return powers_of_two(scale) if scale.dtype == torch.uint8 else scale.float()


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All tensors of 8 bits, with their scales; raises `ModelError` for scales that are missing or do not fit."""
    block = _block_size(name, packing)
    found = {}
    for tensor, info in tensors.items():
        if info.dtype in STORED and len(info.shape) > 1:
            scale = next((other for other in _scales_of(tensor) if other in tensors), None)
            if scale is None:
                raise damaged(name, tensor, say("has no scales"))
            form = _format(info, tensors[scale], block)
            if form is None:
                shapes = list(tensors[scale].shape), list(info.shape)
                raise damaged(
                    name, tensor, say("has scales of the shape {scales} for {shape}", scales=shapes[0], shape=shapes[1])
                )
            found[tensor] = PackedWeight(tensor, info.shape, {WEIGHT: info, SCALE: tensors[scale]}, form)
        elif info.dtype in BYTES and len(info.shape) == 2:
            scale = next((other for other in _scales_of(tensor) if other in tensors), None)
            if scale is not None and info.elements and _is_of_groups(info, tensors[scale]):
                shape = info.shape[0], 2 * info.shape[1]
                found[tensor] = PackedWeight(tensor, shape, {CODES: info, SCALES_OF_GROUPS: tensors[scale]}, MXFP4)
    return found


def _is_of_groups(codes: TensorInfo, scale: TensorInfo) -> bool:
    """Whether these are exponents of the groups of MXFP4 in bytes of two numbers."""
    rows, columns = codes.shape
    groups = 2 * columns // MXFP4_GROUP
    return scale.dtype in EXPONENTS and scale.shape == (rows, groups) and groups * MXFP4_GROUP == 2 * columns


def _block_size(name: str, packing: Mapping[str, object]) -> tuple[int, int] | None:
    size = packing.get("weight_block_size")
    if size is None:
        return None
    if isinstance(size, list) and len(size) == 2 and all(type(n) is int and 0 < n <= LARGEST_BLOCK for n in size):
        return size[0], size[1]
    raise unknown_packing(name, "fp8", "weight_block_size", size)


def _scales_of(tensor: str) -> tuple[str, ...]:
    """What the scales of a tensor may be called; the last two are DeepSeek's and Mistral's own."""
    stem = tensor.removesuffix(".weight")
    return f"{tensor}_scale_inv", f"{tensor}_scale", f"{stem}.scale", f"{stem}.qscale_weight"


def _format(weight: TensorInfo, scale: TensorInfo, block: tuple[int, int] | None) -> Fp8 | None:
    """Which blocks the scales are for, told from their shapes; None if they fit none."""
    rows, columns = weight.shape[-2:]
    if len(weight.shape) > 3 or not weight.elements or scale.dtype not in SCALES:
        return None
    stack = weight.shape[:-2]
    if scale.shape in {stack, (*stack, 1), (*stack, 1, 1)}:
        return Fp8(rows, columns)
    if scale.shape in {(*stack, rows), (*stack, rows, 1)}:
        return Fp8(1, columns)
    if block and scale.shape == (*stack, -(-rows // block[0]), -(-columns // block[1])):
        return Fp8(*block)
    return None
