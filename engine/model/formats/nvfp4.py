"""NVFP4 and MXFP4 of whole linear layers: 4-bit floating-point numbers, e2m1, in groups along the inputs.

NVIDIA's ModelOpt and compressed-tensors store the same bytes: groups of 16 with a scale in e4m3, and one scale in
float32 for the whole weight, which ModelOpt multiplies by and compressed-tensors divides by. MXFP4 has groups of 32 and
powers of two. Activations' scales are of no use here: nothing is ever computed in 4 bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.float8 import widened
from engine.model.decoding.grouped import scale_groups
from engine.model.decoding.lookup import unpack
from engine.model.formats.faults import damaged
from engine.model.formats.mxfp4 import E2M1
from engine.model.formats.packed import PackedWeight
from engine.model.formats.stored import check_part
from engine.model.products.arrays import array
from engine.model.products.layouts import ScaledLevels, levels, places
from engine.model.products.product import Stored, decoded, stored
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

CODES, SCALES, WHOLE = "codes", "scales", "whole"
NVFP4_GROUP, MXFP4_GROUP = 16, 32
E4M3: tuple[str, ...] = ("F8_E4M3",)
EXPONENTS: tuple[str, ...] = ("U8", "F8_E8M0")


@dataclass(frozen=True, slots=True)
class Float4:
    """`codes` bytes [rows, columns / 2], the first number low, times `scales` [rows, groups].

    Scales are e4m3, times the number in `whole` or by it (`divides`); or bytes that are exponents, as e8m0 has them.
    """

    name: str
    divides: bool = False

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`: level times (scale times or by the weight's scale)."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return

        def decode(rows: slice) -> None:
            scales = parts[SCALES][rows]
            scales = scales.view(torch.float8_e8m0fnu).float() if scales.dtype == torch.uint8 else widened(scales)
            if WHOLE in parts:
                whole = parts[WHOLE].reshape(-1)
                scales = scales / whole if self.divides else scales * whole
            out[rows].copy_(fused(_scaled, out.device)(parts[CODES][rows].view(torch.uint8), scales))

        in_chunks(decode, len(out), out.shape[1], out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        codes, scales = parts[CODES].view(torch.uint8), parts[SCALES]
        steps = _every_scale(scales.dtype == torch.float8_e4m3fn)
        if WHOLE in parts:
            whole = parts[WHOLE].reshape(-1)
            steps = steps / whole if self.divides else steps * whole
        group = places(shape[1] // scales.shape[1])
        if group is None:
            return None
        exponents = scales.view(torch.uint8)
        return stored(
            lambda: ScaledLevels(array(codes), levels(E2M1), array(exponents), array(steps), group),
            shape,
            codes,
            exponents,
        )


@lru_cache
def _every_scale(is_e4m3: bool) -> Tensor:
    """What each byte stands for as a scale, float32 [256]."""
    codes = torch.arange(256, dtype=torch.uint8)
    return codes.view(torch.float8_e4m3fn if is_e4m3 else torch.float8_e8m0fnu).float()


def _scaled(codes: Tensor, scales: Tensor) -> Tensor:
    """Levels of bytes of two codes, [rows, columns / 2], times the scales of their groups."""
    return scale_groups(unpack(codes, E2M1), scales, None, None)


def float4_weight(
    name: str, tensors: Mapping[str, TensorInfo], stem: str, stored: str, whole: str, *, divides: bool = False
) -> PackedWeight:
    """The weight whose codes are called `stored`; with groups of 32 it has no scale called `whole`."""
    weight, codes = f"{stem}.weight", tensors.get(stored)
    if codes is None or codes.dtype != "U8" or len(codes.shape) != 2 or not codes.elements:
        raise damaged(name, weight, say("is no matrix of 4 bits"))
    rows, columns = codes.shape[0], codes.shape[1] * 2
    parts = {CODES: codes}
    form, group, kinds = Float4("MXFP4"), MXFP4_GROUP, EXPONENTS
    if whole in tensors:
        parts[WHOLE] = check_part(name, tensors, whole, ("F32",), (), (1,))
        form, group, kinds = Float4("NVFP4", divides), NVFP4_GROUP, E4M3
    if columns % group:
        raise damaged(name, stored, say("has {columns} columns in groups of {group}", columns=columns, group=group))
    parts[SCALES] = check_part(name, tensors, f"{stem}.weight_scale", kinds, (rows, columns // group))
    return PackedWeight(weight, (rows, columns), parts, form)
