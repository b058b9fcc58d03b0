"""AWQ, as AutoAWQ stores it: 4 bits, groups of inputs; eight outputs to a word (GEMM), or eight inputs (GEMV).

Lin et al. 2023, "AWQ: Activation-aware Weight Quantization", arXiv 2306.00978. Layouts that are woven for one kernel
(GEMV fast, Marlin) are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.grouped import in_rows, scale_groups
from engine.model.decoding.lookup import unpack
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_integers import CODES, SCALES, UNIT_PLACES, ZEROS
from engine.model.formats.stored import FLOATS, check_part, group_size, of_method
from engine.model.products.arranged import outputs
from engine.model.products.arrays import array, scales
from engine.model.products.layouts import GroupsWithOwnZeros, Outputs, OutputsWithZeros, places
from engine.model.products.product import Stored, decoded, stored
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

PER_WORD = 8
NO_ZERO = 8.0  # the zero point where none are stored
PLACES = (0, 16, 4, 20, 8, 24, 12, 28)  # where in a word, in bits, its eight outputs lie
CODES_OF_4_BITS = " ".join(map(str, range(16)))

GEMV_INPUTS = 128  # that the kernel reads at a time: its rows have words for all groups of so many
GEMV_GROUPS = (32, 64)  # the smaller ones of which it knows


@dataclass(frozen=True, slots=True)
class Awq:
    """Codes less zero points times scales, all stored inputs first.

    `codes` int32 [columns, rows / 8], `scales` [groups, rows], `zeros` int32 [groups, rows / 8]; without zeros, 8 is
    taken off.
    """

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "AWQ"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        words, factors = parts[CODES].t(), parts[SCALES].t()
        zeros = parts[ZEROS].t() if ZEROS in parts else None

        bits = torch.tensor(PLACES, dtype=torch.int32, device=out.device)[:, None]

        def decode(rows: slice) -> None:
            some = slice(rows.start // PER_WORD, rows.stop // PER_WORD)
            own = None if zeros is None else in_rows(zeros[some])
            out[rows].copy_(fused(_scaled, out.device)(in_rows(words[some]), bits, factors[rows].float(), own))

        in_chunks(decode, len(out), out.shape[1], out.device, multiple=PER_WORD)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        codes, found, zeros = parts[CODES], parts[SCALES], parts.get(ZEROS)
        group = shape[1] // len(found)
        if zeros is None:
            return outputs(lambda: Outputs(array(codes), scales(found), group), shape, group, codes, found)

        def make() -> OutputsWithZeros:
            return OutputsWithZeros(array(codes), scales(found), group, array(zeros))

        return outputs(make, shape, group, codes, found, zeros)


def _scaled(words: Tensor, places: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    """Codes of words int32 [rows / 8, columns] less zero points times scales [rows, groups]."""
    numbers = _outputs(words, places)
    own = torch.full_like(scales, NO_ZERO) if zeros is None else _outputs(zeros, places)
    return scale_groups(numbers, scales, own, None)


@dataclass(frozen=True, slots=True)
class AwqGemv:
    """Codes less zero points times scales, all stored outputs first, inputs and groups in order.

    `codes` int32 [rows, columns / 8], `scales` [rows, 8 x words] and `zeros` int32 [rows, words], where the last words
    may be for groups that do not exist.
    """

    group: int

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "AWQ"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        groups = out.shape[1] // self.group

        def decode(rows: slice) -> None:
            codes, zeros = (in_rows(parts[role][rows]).view(torch.uint8) for role in (CODES, ZEROS))
            out[rows].copy_(fused(_scaled_inputs, out.device)(codes, parts[SCALES][rows, :groups].float(), zeros))

        in_chunks(decode, len(out), out.shape[1], out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        codes, found, zeros, group = parts[CODES], parts[SCALES], parts[ZEROS], places(self.group)
        if group is None or group < UNIT_PLACES:
            return None

        def make() -> GroupsWithOwnZeros:
            return GroupsWithOwnZeros(array(codes.view(torch.uint8)), scales(found), group, array(zeros))

        return stored(make, shape, codes, found, zeros)


def _scaled_inputs(codes: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """Codes, two to a byte, less zero points, two to a byte, times scales [rows, groups]."""
    return scale_groups(
        unpack(codes, CODES_OF_4_BITS), scales, unpack(zeros, CODES_OF_4_BITS)[:, : scales.shape[1]], None
    )


def _outputs(words: Tensor, places: Tensor) -> Tensor:
    """Codes of all outputs: words int32 [rows / 8, n] become float32 [rows, n]."""
    codes = (words[:, None] >> places).bitwise_and_(15)
    return codes.float().view(-1, words.shape[1])


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All `*.qweight` with their scales and zero points; raises `ModelError` for those that do not fit."""
    stated = (packing.get(key) for key in ("version", "checkpoint_format", "format"))
    version = str(next(filter(None, stated), "gemm")).lower()
    if version not in ("gemm", "gemv") or packing.get("bits", 4) != 4:
        raise unknown_packing(name, "awq", version, packing.get("bits"))
    group = group_size(name, packing.get("group_size"))
    if version == "gemv":
        return {f"{stem}.weight": _find_gemv(name, stem, tensors, group) for stem in of_method(tensors, ".qweight")}
    return {
        f"{stem}.weight": _find_one(name, stem, tensors, group, bool(packing.get("zero_point", True)))
        for stem in of_method(tensors, ".qweight")
    }


def _find_one(name: str, stem: str, tensors: Mapping[str, TensorInfo], group: int, zeros: bool) -> PackedWeight:
    codes = _codes(name, stem, tensors)
    columns, rows = codes.shape[0], codes.shape[1] * PER_WORD
    groups = columns // _group_of(name, stem, columns, group)
    parts = {
        CODES: codes,
        SCALES: check_part(name, tensors, f"{stem}.scales", FLOATS, (groups, rows)),
    }
    if zeros or f"{stem}.qzeros" in tensors:
        parts[ZEROS] = check_part(name, tensors, f"{stem}.qzeros", ("I32",), (groups, rows // PER_WORD))
    return PackedWeight(f"{stem}.weight", (rows, columns), parts, Awq())


def _find_gemv(name: str, stem: str, tensors: Mapping[str, TensorInfo], group: int) -> PackedWeight:
    codes = _codes(name, stem, tensors)
    rows, columns = codes.shape[0], codes.shape[1] * PER_WORD
    group = _group_of(name, stem, columns, group)
    if group < GEMV_INPUTS and group not in GEMV_GROUPS:
        raise unknown_packing(name, "awq", "gemv", "group_size", group)
    at_a_time = max(1, GEMV_INPUTS // group)
    words = -(-columns // group // PER_WORD // at_a_time) * at_a_time
    parts = {
        CODES: codes,
        SCALES: check_part(name, tensors, f"{stem}.scales", FLOATS, (rows, words * PER_WORD)),
        ZEROS: check_part(name, tensors, f"{stem}.qzeros", ("I32",), (rows, words)),
    }
    return PackedWeight(f"{stem}.weight", (rows, columns), parts, AwqGemv(group))


def _codes(name: str, stem: str, tensors: Mapping[str, TensorInfo]) -> TensorInfo:
    """The words of a matrix; raises `ModelError` where they are none."""
    stored, weight = f"{stem}.qweight", f"{stem}.weight"
    if len(tensors[stored].shape) != 2 or not tensors[stored].elements:
        raise damaged(name, weight, say("is no matrix of 4 bits"))
    return check_part(name, tensors, stored, ("I32",), tensors[stored].shape)


def _group_of(name: str, stem: str, columns: int, group: int) -> int:
    """How many inputs share a scale, all of them for 0; raises `ModelError` if that does not divide them."""
    group = group or columns
    if columns % group:
        weight = f"{stem}.weight"
        raise damaged(name, weight, say("has {columns} columns in groups of {group}", columns=columns, group=group))
    return group
