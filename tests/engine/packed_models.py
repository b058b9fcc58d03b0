"""Tiny checkpoints with packed weights, and what they mean: the same ones unpacked."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.model.checkpoint import Checkpoint, open_checkpoint
from tests.engine.made_once import copy_made_once
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import save_tiny_model

Packed = tuple[dict[str, Tensor], Tensor]
"""What is stored of a weight, by the suffixes of its name, and what it means in float32."""
FILE = "model.safetensors"
LARGEST = 448.0  # of e4m3


def blocks(rows: int, columns: int) -> Callable[[Tensor], Packed]:
    """Packs matrices in FP8 with a scale for every block of this size."""

    def pack(weight: Tensor) -> Packed:
        bands = [torch.split(band, columns, 1) for band in torch.split(weight, rows)]
        grid = torch.stack([torch.stack([block.abs().max() for block in band]) for band in bands]) / LARGEST
        each = grid.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[: weight.shape[0], : weight.shape[1]]
        codes = (weight / each).to(torch.float8_e4m3fn)
        return {"": codes, "_scale_inv": grid}, codes.float() * each

    return pack


def per_tensor(weight: Tensor) -> Packed:
    """FP8 with one scale, in bfloat16, and one for activations that nobody needs."""
    scale = (weight.abs().max() / LARGEST).bfloat16()
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"": codes, "_scale_inv": scale}, codes.float() * scale.float()


def per_row(weight: Tensor) -> Packed:
    """FP8 with a scale for each row, called as compressed-tensors calls it."""
    scale = weight.abs().amax(1, keepdim=True) / LARGEST
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"": codes, "_scale": scale}, codes.float() * scale


def mxfp4(weight: Tensor) -> Packed:
    """MXFP4 of [experts, in, out]: the nearest of its 16 numbers."""
    turned = weight.transpose(1, 2).contiguous()
    grouped = turned.view(*turned.shape[:2], -1, 32)
    exponents = (grouped.abs().amax(-1) / 6).log2().ceil().clamp(-127, 127)
    levels = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = (grouped[..., None] / exponents.exp2()[..., None, None] - levels).abs().argmin(-1)
    meant = levels[codes] * exponents.exp2()[..., None]
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    stored = {"_blocks": pairs.to(torch.uint8), "_scales": (exponents + 127).to(torch.uint8)}
    return stored, meant.view(turned.shape).transpose(1, 2).contiguous()


FP8: dict[str, tuple[Callable[[Tensor], Packed], dict[str, Any]]] = {
    "blocks": (blocks(8, 16), {"weight_block_size": [8, 16], "activation_scheme": "dynamic"}),
    "cut off": (blocks(40, 40), {"weight_block_size": [40, 40], "activation_scheme": "dynamic"}),
    "tensor": (per_tensor, {"weight_block_size": None, "activation_scheme": "static"}),
    "row": (per_row, {"activation_scheme": "dynamic"}),
}
"""How FP8 is packed, and what config.json says of it."""


def edit_json(path: Path, **entries: object) -> None:
    """Set entries of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **entries}), encoding="utf-8")


def pack(
    plain: Path,
    packed: Path,
    packer: Callable[[Tensor], Packed],
    packing: dict[str, Any],
    chosen: Callable[[str], bool],
) -> tuple[Checkpoint, Checkpoint]:
    """Copy the model in `plain`, its `chosen` weights, by their stored names, packed; `plain` becomes what it means.

    The first of the two is the packed one.
    """
    shutil.copytree(plain, packed)
    tensors = read_tensors(plain / FILE)
    stored, meant = dict(tensors), dict(tensors)
    for name in filter(chosen, tensors):
        parts, meaning = packer(stored.pop(name).float())
        meant[name] = meaning.to(tensors[name].dtype)
        stored |= {name + suffix: part for suffix, part in parts.items()}
        if packing.get("activation_scheme") == "static":
            stored[f"{name.removesuffix('.weight')}.input_scale"] = torch.tensor(0.5)
    save_file(stored, packed / FILE, {"format": "pt"})
    save_file(meant, plain / FILE, {"format": "pt"})
    edit_json(packed / "config.json", quantization_config=packing)
    return open_checkpoint(str(packed)), open_checkpoint(str(plain))


def is_linear(name: str) -> bool:
    """A matrix of a layer, but not the router, which nobody packs."""
    return ".layers." in name and name.endswith("proj.weight")


def fp8(kind: str) -> tuple[Callable[[Tensor], Packed], dict[str, Any]]:
    """The packer, and what config.json says, of one kind of `FP8`."""
    packer, packing = FP8[kind]
    return packer, {"quant_method": "fp8", **packing}


def fp8_model(
    folder: Path, family: str, kind: str, chosen: Callable[[str], bool] = is_linear
) -> tuple[Checkpoint, Checkpoint]:
    """A tiny checkpoint in FP8, as `FP8` calls the kinds, and the same one unpacked."""
    save_tiny_model(family, folder / "plain")
    return pack(folder / "plain", folder / "packed", *fp8(kind), chosen)


def mxfp4_model(folder: Path) -> tuple[Checkpoint, Checkpoint]:
    """gpt-oss as it is published, and the same one unpacked."""

    def is_stack(name: str) -> bool:
        return name.endswith(("gate_up_proj", "down_proj"))

    save_tiny_model("gpt_oss", folder / "plain")
    return pack(folder / "plain", folder / "packed", mxfp4, {"quant_method": "mxfp4"}, is_stack)


def packed_model(folder: Path, family: str, kind: str) -> tuple[Checkpoint, Checkpoint]:
    """`kind`: of FP8, or `mxfp4`. Made once for all tests: for each a copy."""

    def make(made: Path) -> object:
        return mxfp4_model(made) if kind == "mxfp4" else fp8_model(made, family, kind)

    copy_made_once(("packed", family, kind), make, folder)
    return open_checkpoint(str(folder / "packed")), open_checkpoint(str(folder / "plain"))
