"""A large model that writes the embedded target's text: its MLPs widened by zero rows and columns."""

import json
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

EMBEDDED = Path(__file__).parents[2] / "resources" / "models" / "demo-target"
MLP = {"gate_proj": 0, "up_proj": 0, "down_proj": 1}
"""Which dimension of each MLP weight is the inner one."""


def inflate(folder: Path, layer_bytes_in_all: int, source: Path = EMBEDDED) -> Path:
    """Write to `folder` a copy of `source` whose decoder layers hold at least so many bytes; returns `folder`.

    A Llama MLP is down(silu(gate(x)) * up(x)). Inner units whose gate, up and down weights are zero add nothing, so
    the logits are the same, up to the order in which the same numbers are added.
    """
    config = json.loads((source / "config.json").read_text())
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    width = max(config["intermediate_size"], layer_bytes_in_all // (layers * len(MLP) * hidden * 2))
    width = -(-width // 128) * 128
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix != ".safetensors" and path.is_file():
            shutil.copy(path, folder)
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": width}))
    _write_shards(folder, source, layers, width)
    return folder


def _write_shards(folder: Path, source: Path, layers: int, width: int) -> None:
    """One shard per layer, and one for the rest, as large checkpoints come."""
    weight_map: dict[str, str] = {}
    with safe_open(source / "model.safetensors", "pt") as tensors:
        groups: dict[str, list[str]] = {key: [] for key in (*(f".layers.{index}." for index in range(layers)), "")}
        for name in tensors.keys():  # noqa: SIM118  # not a mapping
            groups[next(key for key in groups if key in name)].append(name)
        for number, names in enumerate(groups.values(), start=1):
            shard = f"model-{number:05d}-of-{len(groups):05d}.safetensors"
            save_file({name: _widen(name, tensors.get_tensor(name), width) for name in names}, folder / shard)
            weight_map |= dict.fromkeys(names, shard)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _widen(name: str, weight: torch.Tensor, width: int) -> torch.Tensor:
    inner = next((dimension for part, dimension in MLP.items() if f".{part}." in name), None)
    if inner is None:
        return weight
    shape = list(weight.shape)
    shape[inner] = width
    wide = torch.zeros(shape, dtype=weight.dtype)
    wide.narrow(inner, 0, weight.shape[inner]).copy_(weight)
    return wide
