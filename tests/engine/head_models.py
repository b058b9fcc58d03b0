"""Tiny checkpoints that bring a head for further tokens, under the names of published ones."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedConfig

from tests.engine.family_models import random_model, tiny_config
from tests.engine.tensor_files import read_tensors

FILE = "model.safetensors"
# By model_type; {layers} are those before the head's.
OLDER = {
    "model.layers.0.": "model.layers.{layers}.",
    "model.norm.": "model.layers.{layers}.shared_head.norm.",
    "embedding_norm.": "model.layers.{layers}.enorm.",
    "hidden_norm.": "model.layers.{layers}.hnorm.",
    "projection.": "model.layers.{layers}.eh_proj.",
}
NEWER = {
    "model.layers.0.": "mtp.layers.0.",
    "model.norm.": "mtp.norm.",
    "embedding_norm.": "mtp.pre_fc_norm_embedding.",
    "hidden_norm.": "mtp.pre_fc_norm_hidden.",
    "projection.": "mtp.fc.",
}
MIMO = {
    "model.layers.0.post_attention_layernorm.": "model.mtp.layers.0.pre_mlp_layernorm.",
    "model.layers.0.": "model.mtp.layers.0.",
    "model.norm.": "model.mtp.layers.0.final_layernorm.",
    "embedding_norm.": "model.mtp.layers.0.enorm.",
    "hidden_norm.": "model.mtp.layers.0.hnorm.",
    "projection.": "model.mtp.layers.0.eh_proj.",
}
LIBRARY = {  # whose heads transformers has, too
    "deepseek_v3": OLDER,
    "glm4_moe": OLDER,
    "glm4_moe_lite": OLDER,
    "solar_open": OLDER,
    "youtu": OLDER,
    "exaone_moe": NEWER,
    "mellum": NEWER,
    "qwen3_next": NEWER,
    "qwen3_5_text": NEWER,
    "qwen3_5_moe_text": NEWER,
}
NAMES = {**LIBRARY, "mimo_v2_flash": MIMO}
QUIET = ("o_proj.weight", "out_proj.weight", "down_proj", "down_proj.weight")  # what a layer adds to what it was given


def save_with_head(family: str, folder: Path, **overrides: Any) -> Path:
    """A model that mostly goes by its last token, and a head that does so too: they often agree.

    `overrides`: of the config.
    """
    config = changed(tiny_config(family), **overrides)
    saved = quiet(random_model(config))
    saved.save_pretrained(folder)
    head = quiet(random_model(changed(config, seed=None, **one_layer(config)), seed=1))
    beside = folder / "head"
    head.save_pretrained(beside)
    stored = {name: tensor for name, tensor in read_tensors(beside / FILE).items() if not of_target(name)}
    for path in beside.iterdir():
        path.unlink()
    beside.rmdir()
    stored |= entrance(stored["model.norm.weight"])
    names = {old: new.format(layers=config.num_hidden_layers) for old, new in NAMES[family].items()}
    made = {renamed(name, names): tensor.contiguous() for name, tensor in stored.items()}
    save_file({**read_tensors(folder / FILE), **made}, folder / FILE, {"format": "pt"})
    return folder


def changed(config: Any, **overrides: Any) -> Any:
    values = {key: value for key, value in config.to_dict().items() if key != "architectures"}
    overrides.pop("seed", None)
    return type(config)(**{**values, **overrides})


def one_layer(config: PreTrainedConfig) -> dict[str, Any]:
    """What makes a config that of a head alone."""
    made: dict[str, Any] = {"num_hidden_layers": 1}
    is_mimo = config.model_type == "mimo_v2_flash"
    if getattr(config, "layer_types", None):
        made["layer_types"] = ["sliding_attention" if is_mimo else "full_attention"]
    if getattr(config, "mlp_layer_types", None):
        made["mlp_layer_types"] = ["dense" if is_mimo else "sparse"]
    if hasattr(config, "first_k_dense_replace"):
        made["first_k_dense_replace"] = 0
    return made


def quiet(model: Any) -> Any:
    """Layers whose outputs are small beside what they were given."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(QUIET):
                parameter.mul_(0.03)
            elif name.endswith("embed_tokens.weight"):
                parameter.normal_(0, 1.0, generator=torch.Generator().manual_seed(7))
    return model


def entrance(norm: Tensor) -> dict[str, Tensor]:
    """Norms near `norm`, and a projection that takes more from the embedding than from the hidden state."""
    width = len(norm)
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(width, 2 * width, generator=generator) * 0.02
    return {
        "embedding_norm.weight": norm + torch.rand(width, generator=generator) * 0.2,
        "hidden_norm.weight": norm + torch.rand(width, generator=generator) * 0.2,
        "projection.weight": torch.cat([torch.eye(width), torch.zeros(width, width)], 1) + noise,
    }


def of_target(name: str) -> bool:
    return "embed_tokens" in name or "lm_head" in name


def renamed(name: str, names: dict[str, str]) -> str:
    begin = next(begin for begin in names if name.startswith(begin))
    return names[begin] + name.removeprefix(begin)


def edit_config(folder: Path, **entries: Any) -> None:
    """Set entries of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **entries}), "utf-8")
