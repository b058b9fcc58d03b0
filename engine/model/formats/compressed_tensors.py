"""compressed-tensors: integers packed in words or in bytes, FP8, and NVFP4 or MXFP4, mixed at will.

What a layer holds, and the shapes of its scales, tell how it is packed; config.json adds what they leave open. So its
`targets`, which are regular expressions of strangers, are never run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.model.decoding.chunks import in_chunks
from engine.model.decoding.grouped import as_matrix, scale_groups
from engine.model.formats import fp8
from engine.model.formats.faults import damaged, unknown_packing
from engine.model.formats.nvfp4 import float4_weight
from engine.model.formats.packed import PackedWeight
from engine.model.formats.packed_integers import BITS, CODES, ORDER, SCALES, WORD_BITS, ZEROS, PackedIntegers, words_for
from engine.model.formats.stored import FLOATS, LARGEST_GROUP, check_part, of_method, read_small
from engine.model.products.product import Stored, decoded, integers
from engine.model.safetensors_header import TensorInfo
from engine.protocol.sentences import say

KNOWN = frozenset({
    "dense",
    "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized",
    "mxfp4-pack-quantized", "mxfp8-quantized", "mixed-precision",
})  # fmt: skip
SHAPE_BYTES = 16  # two numbers of 64 bits


@dataclass(frozen=True, slots=True)
class Integers8:
    """`codes` int8 [rows, columns], less `zeros` int8 where they are, times `scales`: [rows or 1, groups]."""

    @property
    def name(self) -> str:
        """See `PackedFormat.name`."""
        return "INT8"

    def decode(self, parts: Mapping[str, Tensor], out: Tensor) -> None:
        """See `PackedFormat.decode`."""
        if decoded(lambda: self.product(parts, (out.shape[0], out.shape[1])), out):
            return
        scales = as_matrix(parts[SCALES], len(out))
        zeros = as_matrix(parts[ZEROS], len(out)) if ZEROS in parts else None

        def decode(rows: slice) -> None:
            own = None if zeros is None else zeros[rows].float()
            out[rows].copy_(scale_groups(parts[CODES][rows].float(), scales[rows].float(), own, None))

        in_chunks(decode, len(out), out.shape[1], out.device)

    def product(self, parts: Mapping[str, Tensor], shape: tuple[int, int]) -> Stored | None:
        """See `PackedFormat.product`."""
        scales = parts[SCALES].reshape(-1)
        if ZEROS in parts or len(scales) not in {1, shape[0]}:
            return None
        return integers(parts[CODES], scales.float().expand(shape[0]).contiguous(), 1.0)


@dataclass(frozen=True, slots=True)
class _Scheme:
    """What config.json says of the weights of some layers; `group` 0: it names no size, `block`: rows and columns."""

    bits: int
    group: int
    block: tuple[int, int] | None


def find(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> dict[str, PackedWeight]:
    """All layers' weights that are packed; raises `ModelError` for those that do not fit, and unknown packing."""
    _require_known(name, packing, tensors)
    schemes = list(_schemes(packing))
    found = {}
    for stem in of_method(tensors, ".weight_packed"):
        codes = tensors[f"{stem}.weight_packed"]
        found[f"{stem}.weight"] = (
            _find_packed(name, stem, tensors, schemes)
            if codes.dtype == "I32"
            else float4_weight(
                name, tensors, stem, f"{stem}.weight_packed", f"{stem}.weight_global_scale", divides=True
            )
        )
    for stem in of_method(tensors, ".weight_scale"):
        if f"{stem}.weight_packed" not in tensors:
            found[f"{stem}.weight"] = _find_bytes(name, stem, tensors, schemes)
    return found


def _require_known(name: str, packing: Mapping[str, object], tensors: Mapping[str, TensorInfo]) -> None:
    formats = [packing.get("format"), *(group.get("format") for group in _groups(packing))]
    unknown = next(
        (str(form) for form in formats if not (form is None or (isinstance(form, str) and form in KNOWN))), None
    )
    if unknown is None and packing.get("transform_config"):
        unknown = "transform_config"  # rotates activations, too
    if unknown is None and any(tensor.endswith(".bitmask") for tensor in tensors):
        unknown = "sparse-bitmask"
    if unknown is not None:
        raise unknown_packing(name, "compressed-tensors", unknown)


def _groups(packing: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    groups = packing.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict):
            yield group


def _schemes(packing: Mapping[str, object]) -> Iterator[_Scheme]:
    for group in _groups(packing):
        weights = group.get("weights")
        if isinstance(weights, dict):
            bits, size, block = (weights.get(key) for key in ("num_bits", "group_size", "block_structure"))
            yield _Scheme(
                bits=bits if type(bits) is int else 0,
                group=size if type(size) is int and 0 < size <= LARGEST_GROUP else 0,
                block=(block[0], block[1]) if isinstance(block, list) and _are_sides(block) else None,
            )


def _are_sides(block: list[object]) -> bool:
    return len(block) == 2 and all(type(size) is int and 0 < size <= LARGEST_GROUP for size in block)


def _find_packed(name: str, stem: str, tensors: Mapping[str, TensorInfo], schemes: list[_Scheme]) -> PackedWeight:
    """Integers in words."""
    codes, scales = tensors[f"{stem}.weight_packed"], tensors.get(f"{stem}.weight_scale")
    weight = f"{stem}.weight"
    if scales is None or scales.dtype not in FLOATS:
        raise damaged(name, weight, say("has no scales"))
    shape = check_part(name, tensors, f"{stem}.weight_shape", ("I64", "I32"), (2,))
    fitting = _fitting(codes, scales, _read_shape(shape), schemes)
    if fitting is None:
        shapes = list(scales.shape), list(codes.shape)
        raise damaged(
            name, weight, say("has scales of the shape {scales} for {shape}", scales=shapes[0], shape=shapes[1])
        )
    bits, columns, group = fitting
    rows, groups = codes.shape[0], scales.shape[-1] if len(scales.shape) == 2 else 1
    parts = {CODES: codes, SCALES: scales, "shape": shape}
    zeros, order = f"{stem}.weight_zero_point", f"{stem}.weight_g_idx"
    if zeros in tensors:
        packed = tensors[zeros].dtype == "I32"
        parts[ZEROS] = (
            check_part(name, tensors, zeros, ("I32",), (words_for(rows, bits), groups))
            if packed
            else check_part(name, tensors, zeros, ("I8",), scales.shape)
        )
    if order in tensors:
        parts[ORDER] = check_part(name, tensors, order, ("I32", "I64"), (columns,))
    return PackedWeight(weight, (rows, columns), parts, PackedIntegers("INT", bits, group))


def _fitting(
    codes: TensorInfo, scales: TensorInfo, shape: tuple[int, int] | None, schemes: list[_Scheme]
) -> tuple[int, int, int] | None:
    """Bits, columns and group size that agree with what is stored; the first that config.json names, None if none."""
    if len(codes.shape) != 2 or not codes.elements or not scales.elements:
        return None
    rows, words = codes.shape
    for scheme in schemes:
        if scheme.bits not in BITS:
            continue
        columns = words * WORD_BITS // scheme.bits if shape is None else shape[1]
        group = scheme.group or columns
        whole = scales.shape == (rows, columns // group) or (group == columns and scales.shape in {(rows,), (1,), ()})
        fits = columns > 0 and columns % group == 0 and words_for(columns, scheme.bits) == words
        if fits and whole and (shape is None or shape[0] == rows):
            return scheme.bits, columns, group
    return None


def _read_shape(info: TensorInfo) -> tuple[int, int] | None:
    """Rows and columns that are stored as two numbers; None where a file holds no data but its table."""
    content = read_small(info, SHAPE_BYTES)
    if content is None:
        return None
    half = len(content) // 2
    return int.from_bytes(content[:half], "little", signed=True), int.from_bytes(content[half:], "little", signed=True)


def _find_bytes(name: str, stem: str, tensors: Mapping[str, TensorInfo], schemes: list[_Scheme]) -> PackedWeight:
    """Integers or FP8, a byte each."""
    codes, scales, weight = tensors.get(f"{stem}.weight"), tensors[f"{stem}.weight_scale"], f"{stem}.weight"
    if codes is None or codes.dtype not in {"I8", "F8_E4M3"} or len(codes.shape) != 2 or not codes.elements:
        raise damaged(name, weight, say("is no matrix of 8 bits"))
    (rows, columns), zeros = codes.shape, f"{stem}.weight_zero_point"
    if codes.dtype == "F8_E4M3":
        block = _block(codes.shape, scales, schemes)
        if block is not None:
            return PackedWeight(weight, codes.shape, {fp8.WEIGHT: codes, fp8.SCALE: scales}, fp8.Fp8(*block))
    elif scales.dtype in FLOATS and _grouping(codes.shape, scales.shape):
        parts = {CODES: codes, SCALES: scales}
        if zeros in tensors:
            parts[ZEROS] = check_part(name, tensors, zeros, ("I8",), scales.shape)
        return PackedWeight(weight, codes.shape, parts, Integers8())
    shapes = list(scales.shape), [rows, columns]
    raise damaged(name, weight, say("has scales of the shape {scales} for {shape}", scales=shapes[0], shape=shapes[1]))


def _grouping(shape: tuple[int, ...], scales: tuple[int, ...]) -> tuple[int, int] | None:
    """Rows and columns that share a scale: all, those of a row, or a part of them; None if the shapes do not fit."""
    rows, columns = shape
    if scales in {(), (1,), (1, 1)}:
        return rows, columns
    if scales == (rows,):
        return 1, columns
    if len(scales) == 2 and scales[0] == rows and scales[1] and columns % scales[1] == 0:
        return 1, columns // scales[1]
    return None


def _block(shape: tuple[int, ...], scales: TensorInfo, schemes: list[_Scheme]) -> tuple[int, int] | None:
    """Of FP8, rows and columns that share a scale: the blocks that config.json names, or what the shapes tell."""
    if scales.dtype not in fp8.SCALES:
        return None
    for scheme in schemes:
        if scheme.block and scales.shape == tuple(
            -(-size // side) for size, side in zip(shape, scheme.block, strict=True)
        ):
            return scheme.block
    return _grouping(shape, scales.shape)
