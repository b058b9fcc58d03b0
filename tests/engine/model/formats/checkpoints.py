"""Tiny checkpoints in every format that is decoded here, and the same ones unpacked: one function for each format."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from engine.model.checkpoint import Checkpoint, open_checkpoint
from tests.engine.model.formats import packers
from tests.engine.model.formats.packers import Packer
from tests.engine.packed_models import FILE, edit_json, is_linear
from tests.engine.tensor_files import read_tensors
from tests.engine.tiny_models import save_tiny_model

Pair = tuple[Checkpoint, Checkpoint]
"""Packed, and unpacked: the numbers that the packed weights stand for."""


def bitsandbytes(folder: Path, family: str, kind: str = "nf4") -> Pair:
    """`kind`: `nf4` or `fp4`, whose blocks' absmax are packed too, `nf4 flat`, where they are not, or `int8`."""
    four = kind != "int8"
    packer = (
        packers.bitsandbytes_4bit(kind.partition(" ")[0], nested=" " not in kind) if four else packers.bitsandbytes_8bit
    )
    return _write(folder, family, {"quant_method": "bitsandbytes", "load_in_4bit": four}, packer)


def awq(folder: Path, family: str) -> Pair:
    """AutoAWQ, groups of 16."""
    packing = {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True, "version": "gemm"}
    return _write(folder, family, packing, packers.awq(16))


def gptq(folder: Path, family: str, bits: int = 4, order: str = "none") -> Pair:
    """GPTQ's first version, groups of 16; `order` as `packers.gptq` has it."""
    packing = {"quant_method": "gptq", "bits": bits, "group_size": 16, "desc_act": order == "shuffled"}
    return _write(folder, family, packing, packers.gptq(bits, 16, order=order))


def compressed_tensors(folder: Path, family: str, kind: str = "mixed") -> Pair:
    """`kind`: 4 bits with zero points (`pack`), `int`, `float` or `nvfp4`, or all of them in one layer (`mixed`)."""
    packed, whole = {"group_size": 16, "strategy": "group", "symmetric": False}, {"strategy": "channel"}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "int": ("int-quantized", {"num_bits": 8, **whole}),
        "pack": ("pack-quantized", {"num_bits": 4, **packed}),
        "float": ("float-quantized", {"num_bits": 8, "type": "float", **whole}),
        "nvfp4": ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "group_size": 16}),
    }
    modules = {"q_proj": "int", "v_proj": "float", "down_proj": "nvfp4"} if kind == "mixed" else {}
    chosen = {name: kinds[name] for name in {kind if kind != "mixed" else "pack", *modules.values()}}
    groups = {
        f"group_{name}": {"targets": ["Linear"], "format": form, "weights": weights}
        for name, (form, weights) in chosen.items()
    }
    form = "mixed-precision" if kind == "mixed" else kinds[kind][0]
    packing = {"quant_method": "compressed-tensors", "format": form, "config_groups": groups}
    others = {
        module: packers.float4("nvfp4")
        if name == "nvfp4"
        else packers.compressed_tensors(kinds[name][0], **kinds[name][1])
        for module, name in modules.items()
    }
    usual = "pack" if kind == "mixed" else kind
    packer = (
        packers.float4("nvfp4") if usual == "nvfp4" else packers.compressed_tensors(kinds[usual][0], **kinds[usual][1])
    )
    return _write(folder, family, packing, packer, others)


def modelopt(folder: Path, family: str) -> Pair:
    """ModelOpt's NVFP4, but attention's outputs in FP8."""
    packing = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    return _write(folder, family, packing, packers.float4("modelopt"), {"o_proj": packers.modelopt_fp8})


def _write(
    folder: Path, family: str, packing: dict[str, Any], packer: Packer, others: dict[str, Packer] | None = None
) -> Pair:
    """A tiny model whose layers' matrices are packed; `others`: packers of single modules, by their names."""
    packed, plain = folder / "packed", folder / "plain"
    for place in (packed, plain):
        save_tiny_model(family, place)
    torch.manual_seed(1)
    tensors = read_tensors(packed / FILE)
    stored, meant = dict(tensors), dict(tensors)
    for name in filter(is_linear, tensors):
        stem = name.removesuffix(".weight")
        made = (others or {}).get(stem.rpartition(".")[2], packer)(stored.pop(name))
        stored |= {f"{stem}.{part}": tensor.contiguous() for part, tensor in made.tensors.items()}
        meant[name] = made.weight
    save_file(stored, packed / FILE, {"format": "pt"})
    save_file(meant, plain / FILE, {"format": "pt"})
    edit_json(packed / "config.json", quantization_config=packing)
    return open_checkpoint(str(packed)), open_checkpoint(str(plain))
