"""Packs matrices as the programs do that publish packed weights, and says what numbers they stand for.

bitsandbytes and compressed-tensors pack with their own code. AutoAWQ and GPTQ have no package that installs here: their
layouts are written down below bit by bit.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight outputs lies in each half byte of a word, lowest first
E2M1 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@dataclass(frozen=True)
class Packed:
    """The tensors of one layer by the ends of their names, and the float32 numbers that they stand for."""

    tensors: dict[str, Tensor]
    weight: Tensor


Packer = Callable[[Tensor], Packed]
"""Packs a float32 matrix, [outputs, inputs]."""


def pack_words(codes: Tensor, bits: int) -> Tensor:
    """Codes [n, m] as int32 [n * bits / 32, m]: the bits of a column one behind the other, lowest first."""
    stream = ((codes[:, None].long() >> torch.arange(bits)[:, None]) & 1).flatten(0, 1)
    stream = torch.nn.functional.pad(stream, (0, 0, 0, -len(stream) % 32)).view(-1, 32, codes.shape[1])
    return (stream << torch.arange(32)[:, None]).sum(dim=1).to(torch.int32)


def pack_awq_words(codes: Tensor) -> Tensor:
    """Codes of 4 bits [n, m] as int32 [n, m / 8], in AutoAWQ's order."""
    eights = codes.long().view(len(codes), -1, 8)
    return sum(eights[:, :, output] << 4 * place for place, output in enumerate(AWQ_ORDER)).to(torch.int32)  # type: ignore[union-attr]


def quantise(weight: Tensor, bits: int, group_of: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Round to `bits`: codes [rows, columns], scales float16 and zero points [rows, groups]."""
    most = (1 << bits) - 1
    lowest, highest = (torch.zeros(len(weight), groups) for _ in range(2))
    index = group_of.expand(len(weight), -1)
    lowest.scatter_reduce_(1, index, weight, "amin")
    highest.scatter_reduce_(1, index, weight, "amax")
    scales = ((highest - lowest) / most).clamp(min=1e-4).half()
    zeros = (-lowest / scales).round().clamp(0, most)
    codes = (weight / scales[:, group_of] + zeros[:, group_of]).round().clamp(0, most)
    return codes.int(), scales, zeros.int()


def gptq(bits: int = 4, group: int = 32, version: int = 1, order: str = "none") -> Packer:
    """GPTQ; `order`: inputs lie in groups in turn, are `shuffled` over them, or there is no `g_idx` at all."""

    def pack(weight: Tensor) -> Packed:
        columns = weight.shape[1]
        group_of = torch.arange(columns) // group
        if order == "shuffled":
            group_of = group_of[torch.randperm(columns)]
        codes, scales, zeros = quantise(weight, bits, group_of, -(-columns // group))
        stored = zeros - 1 & (1 << bits) - 1 if version == 1 else zeros
        tensors = {
            "qweight": pack_words(codes.t(), bits),
            "qzeros": pack_words(stored, bits).t().contiguous(),
            "scales": scales.t().contiguous(),
            "g_idx": group_of.int(),
        }
        if order == "missing":
            del tensors["g_idx"]
        return Packed(tensors, (codes - zeros[:, group_of]) * scales[:, group_of].float())

    return pack


def awq(group: int = 32, zero_point: bool = True) -> Packer:
    """AutoAWQ's GEMM layout."""

    def pack(weight: Tensor) -> Packed:
        group_of = torch.arange(weight.shape[1]) // group
        codes, scales, zeros = quantise(weight, 4, group_of, weight.shape[1] // group)
        tensors = {"qweight": pack_awq_words(codes.t()), "scales": scales.t().contiguous()}
        if zero_point:
            tensors["qzeros"] = pack_awq_words(zeros.t())
        else:
            zeros = torch.full_like(zeros, 8)
        return Packed(tensors, (codes - zeros[:, group_of]) * scales[:, group_of].float())

    return pack


def awq_gemv(group: int = 32) -> Packer:
    """AutoAWQ's GEMV layout: words of eight inputs, and scales and zero points of groups that are not there."""

    def pack(weight: Tensor) -> Packed:
        group_of = torch.arange(weight.shape[1]) // group
        groups, at_a_time = weight.shape[1] // group, {32: 4, 64: 2}.get(group, 1)
        words = math.ceil(math.ceil(groups / 8) / at_a_time) * at_a_time
        codes, scales, zeros = quantise(weight, 4, group_of, groups)
        room = torch.nn.functional.pad(zeros, (0, 8 * words - groups))
        tensors = {
            "qweight": pack_words(codes.t(), 4).t().contiguous(),
            "qzeros": pack_words(room.t(), 4).t().contiguous(),
            "scales": torch.nn.functional.pad(scales, (0, 8 * words - groups)),
        }
        return Packed(tensors, (codes - zeros[:, group_of]) * scales[:, group_of].float())

    return pack


def bitsandbytes_4bit(kind: str = "nf4", nested: bool = True, block: int = 64) -> Packer:
    """bitsandbytes' own tensors and numbers."""

    def pack(weight: Tensor) -> Packed:
        functional = pytest.importorskip(
            "bitsandbytes.functional", reason="bitsandbytes has no build for this platform"
        )
        # In two rows: blocks do not end with rows, and odd rows would be compiled first, for half a minute.
        two = weight.view(2, -1)
        codes, state = functional.quantize_4bit(two, blocksize=block, compress_statistics=nested, quant_type=kind)
        numbers, state.shape = functional.dequantize_4bit(codes, state).view_as(weight), weight.shape
        if kind == "fp4":  # whose negative zero the kernel for AVX-512 gives without its sign, unlike the others
            each = torch.stack([codes.view(-1) >> 4, codes.view(-1) & 15], dim=1).view_as(weight)
            numbers[each == 8] = -0.0
        tensors = {"weight": codes} | {f"weight.{name}": part for name, part in state.as_dict(packed=True).items()}
        return Packed(tensors, numbers)

    return pack


def bitsandbytes_8bit(weight: Tensor) -> Packed:
    """LLM.int8()."""
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes has no build for this platform")
    codes, absmax, _ = functional.int8_vectorwise_quant(weight.half())
    tensors = {"weight": codes, "SCB": absmax, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return Packed(tensors, functional.int8_vectorwise_dequant(codes, absmax))


def compressed_tensors(form: str, scale_type: torch.dtype = torch.float32, **weights: Any) -> Packer:
    """The tensors of compressed-tensors' own compressors, and what they give back of scales in float32."""

    def pack(weight: Tensor) -> Packed:
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

        args = QuantizationArgs(**weights)
        scheme = QuantizationScheme(targets=["Linear"], weights=args)
        compressor: Any = BaseCompressor.get_value_from_registry(form)
        scale, zero = _scales(weight, args)
        plain = {"weight": weight, "weight_scale": scale.to(scale_type)}
        if not args.symmetric:
            plain["weight_zero_point"] = zero
        tensors = compressor.compress(plain, scheme)
        wide = {name: part.float() if name == "weight_scale" else part for name, part in tensors.items()}
        if form == "mxfp8-quantized":
            wide["weight_scale"] = tensors["weight_scale"]
        return Packed(tensors, compressor.decompress(wide, scheme)["weight"].float())

    return pack


def _scales(weight: Tensor, args: Any) -> tuple[Tensor, Tensor]:
    """Scales as an observer finds them, in the shape of the strategy, and zero points."""
    rows, columns = weight.shape
    shapes = {"tensor": (1, 1, rows, columns), "channel": (rows, 1, 1, columns), "block": (0, 0, 0, 0)}
    if args.strategy == "group":
        shapes["group"] = (rows, columns // args.group_size, 1, args.group_size)
    if args.strategy == "block":
        height, width = args.block_structure
        weight = torch.nn.functional.pad(weight, (0, -columns % width, 0, -rows % height))
        shapes["block"] = (weight.shape[0] // height, weight.shape[1] // width, height, width)
    down, across, height, width = shapes[args.strategy]
    blocks = weight.view(down, height, across, width)
    most = 448.0 if args.type == "float" else float((1 << args.num_bits - 1) - 1)
    if args.scale_dtype is not None:
        scale = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax(dim=(1, 3)) / most)))
    else:
        scale = (blocks.abs().amax(dim=(1, 3)) / most).clamp(min=1e-6)
    zero = torch.randint(-3, 4, scale.shape, dtype=torch.int8)
    shape = (1,) if args.strategy == "tensor" else scale.shape
    return scale.view(shape), zero.view(shape)


def float4(form: str) -> Packer:
    """4-bit floating point: `modelopt`, or `nvfp4` or `mxfp4` as compressed-tensors have them and give them back."""

    def pack(weight: Tensor) -> Packed:
        rows, columns = weight.shape
        group = 32 if form == "mxfp4" else 16
        groups = weight.view(rows, -1, group)
        whole = torch.tensor([groups.abs().max().item() / (448 * 6)])
        absmax = groups.abs().amax(dim=2) / 6
        if form == "mxfp4":
            exponents = absmax.log2().ceil()
            stored, scale = (exponents + 127).to(torch.uint8), exponents.exp2()
        else:
            stored = (absmax / whole).to(torch.float8_e4m3fn)
            scale = stored.float() * whole
        codes = ((groups / scale[:, :, None])[..., None] - E2M1).abs().argmin(dim=3).view(rows, -1, 2)
        packed = (codes[:, :, 0] | codes[:, :, 1] << 4).to(torch.uint8)
        if form == "modelopt":
            numbers = (E2M1[codes].view(rows, -1, group) * scale[:, :, None]).view(rows, columns)
            extra = {"weight_scale_2": whole.view(()), "input_scale": torch.tensor(0.01)}
            return Packed({"weight": packed, "weight_scale": stored, **extra}, numbers)
        tensors = {"weight_packed": packed, "weight_scale": stored}
        if form == "nvfp4":
            tensors["weight_global_scale"] = 1 / whole
        return Packed(tensors, _decompressed(tensors, group))

    return pack


def _decompressed(tensors: Mapping[str, Tensor], group: int) -> Tensor:
    """What compressed-tensors makes of 4-bit floating-point numbers, in float32."""
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    codes, scale, whole = (tensors.get(name) for name in ("weight_packed", "weight_scale", "weight_global_scale"))
    assert codes is not None
    assert scale is not None
    args = QuantizationArgs(num_bits=4, type="float", strategy="group", group_size=group)
    numbers = unpack_fp4_from_uint8(codes, len(codes), 2 * codes.shape[1], dtype=torch.float32)
    scale = decompress_mx_scale(scale).float() if scale.dtype == torch.uint8 else scale.float()
    found: Tensor = dequantize(numbers, scale, args=args, global_scale=whole, dtype=torch.float32)
    return found


def modelopt_fp8(weight: Tensor) -> Packed:
    """ModelOpt's FP8: one scale for the weight."""
    scale = weight.abs().max() / 448
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return Packed({"weight": codes, "weight_scale": scale, "input_scale": torch.tensor(0.01)}, codes.float() * scale)
