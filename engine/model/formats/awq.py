"""AWQ, as AutoAWQ stores it for its GEMM kernels: 4 bits, groups of inputs, eight outputs to a word.

Lin et al. 2023, "AWQ: Activation-aware Weight Quantization", arXiv 2306.00978.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.compiled import fused
from engine.model.decoding.grouped import in_rows, scale_groups
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_integers import CODES, SCALES, ZEROS
from engine.model.formats.stored import FLOATS, check_part, group_size, of_method
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

PER_WORD = 8
NO_ZERO = 8.0  # the zero point where none are stored
PLACES = (0, 16, 4, 20, 8, 24, 12, 28)  # where in a word, in bits, its eight outputs lie


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
        words, scales = parts[CODES].t(), parts[SCALES].t()
        zeros = parts[ZEROS].t() if ZEROS in parts else None

        places = torch.tensor(PLACES, dtype=torch.int32, device=out.device)[:, None]

        def decode(rows: slice) -> None:
            some = slice(rows.start // PER_WORD, rows.stop // PER_WORD)
            own = None if zeros is None else in_rows(zeros[some])
            out[rows].copy_(fused(_scaled, out.device)(in_rows(words[some]), places, scales[rows].float(), own))

        in_chunks(decode, len(out), out.shape[1], out.device, multiple=PER_WORD)


def _scaled(words: Tensor, places: Tensor, scales: Tensor, zeros: Tensor | None) -> Tensor:
    """Codes of words int32 [rows / 8, columns] less zero points times scales [rows, groups]."""
    numbers = _outputs(words, places)
    own = torch.full_like(scales, NO_ZERO) if zeros is None else _outputs(zeros, places)
    return scale_groups(numbers, scales, own, None)


def _outputs(words: Tensor, places: Tensor) -> Tensor:
    """Codes of all outputs: words int32 [rows / 8, n] become float32 [rows, n]."""
    codes = (words[:, None] >> places).bitwise_and_(15)
    return codes.float().view(-1, words.shape[1])


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All `*.qweight` with their scales and zero points; raises `ModelError` for those that do not fit."""
    version = str(packing.get("version") or packing.get("format") or "gemm").lower()
    if version != "gemm" or packing.get("bits", 4) != 4:
        raise unknown_packing(name, "awq", version, packing.get("bits"))
    group = group_size(name, packing.get("group_size"))
    return {
        f"{stem}.weight": _find_one(name, stem, tensors, group, bool(packing.get("zero_point", True)))
        for stem in of_method(tensors, ".qweight")
    }


def _find_one(name: str, stem: str, tensors: Mapping[str, TensorInfo], group: int, zeros: bool) -> PackedWeight:
    codes = tensors[f"{stem}.qweight"]
    weight = f"{stem}.weight"
    if len(codes.shape) != 2 or not codes.elements:
        raise damaged(name, weight, say("is no matrix of 4 bits"))
    columns, rows = codes.shape[0], codes.shape[1] * PER_WORD
    group = group or columns
    if columns % group:
        raise damaged(name, weight, say("has {columns} columns in groups of {group}", columns=columns, group=group))
    groups = columns // group
    parts = {
        CODES: check_part(name, tensors, f"{stem}.qweight", ("I32",), codes.shape),
        SCALES: check_part(name, tensors, f"{stem}.scales", FLOATS, (groups, rows)),
    }
    if zeros or f"{stem}.qzeros" in tensors:
        parts[ZEROS] = check_part(name, tensors, f"{stem}.qzeros", ("I32",), (groups, rows // PER_WORD))
    return PackedWeight(weight, (rows, columns), parts, Awq())
