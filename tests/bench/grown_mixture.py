"""The trained mixture as large as a published one: wider, with the same text and the same routing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import pad

from tests.bench.grown import NORMS, OWN_HIDDEN, Sparse, outside, write_matrices
from tests.mixture_pair.folders import WEIGHTS, assemble

HIDDEN = 2048
STEP = 256  # of an expert's units: what a block of any format holds


@dataclass(frozen=True, slots=True)
class MixtureShape:
    """`hidden`: a multiple of the trained mixture's width; `inner`: units of an expert, routed or shared."""

    hidden: int
    inner: int


def shape_of(elements: float, weights: Path = WEIGHTS) -> MixtureShape:
    """As large as so many numbers in its experts; the shared one is no wider than the others, as in GLM-4.5."""
    config = _config(weights)
    layers = config["num_hidden_layers"] - config["first_k_dense_replace"]
    units = elements / (layers * (config["n_routed_experts"] + 1) * 3 * HIDDEN)
    least = config["moe_intermediate_size"] * config["n_shared_experts"]
    return MixtureShape(HIDDEN, max(-(-least // STEP), round(units / STEP)) * STEP)


def grow_mixture(folder: Path, shape: MixtureShape, weights: Path = WEIGHTS) -> Path:
    """Write to `folder` the trained mixture in this shape; returns `folder`. See `grown.grow`.

    New units of experts read random numbers and write none. Routers read what they read before, and choose the same.
    """
    assemble(folder, weights)
    (folder / "model.safetensors").unlink()
    config = _config(weights) | {
        "hidden_size": shape.hidden,
        "moe_intermediate_size": shape.inner,
        "n_shared_experts": 1,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    with safe_open(weights / "model.safetensors", "pt") as tensors:
        own = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  # not a mapping
    weight_map: dict[str, str] = {}
    for index in range(-1, config["num_hidden_layers"]):
        shard = f"model-{index + 2:05d}-of-{config['num_hidden_layers'] + 1:05d}.safetensors"
        matrices = outside(own, shape.hidden) if index < 0 else _layer(own, index, shape)
        write_matrices(folder / shard, matrices)
        weight_map |= dict.fromkeys(matrices, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def _layer(own: Mapping[str, Tensor], index: int, shape: MixtureShape) -> dict[str, Sparse]:
    prefix = f"model.layers.{index}."
    return {name: _grown(name, own[name], shape) for name in own if name.startswith(prefix)}


def _grown(name: str, weight: Tensor, shape: MixtureShape) -> Sparse:
    """A weight in the new shape; those of single experts lie in the file one by one."""
    copies, part = shape.hidden // OWN_HIDDEN, name.split(".")[-2]
    is_expert = "experts." in name
    if part in NORMS:
        return Sparse(0, shape.hidden, ((0, 0, weight.repeat(1, copies)),))
    if weight.ndim == 1:
        return Sparse(0, len(weight), ((0, 0, weight[None]),))
    if part in ("o_proj", "down_proj"):
        columns = shape.inner if is_expert else weight.shape[1]
        return Sparse(shape.hidden, columns, ((0, 0, weight.repeat(copies, 1)),))
    rows = shape.inner if is_expert else len(weight)
    whole = pad(weight, (0, shape.hidden - weight.shape[1]))  # over what is random
    return Sparse(rows, shape.hidden, ((0, 0, whole),), noise=is_expert)


def _config(weights: Path) -> dict[str, int]:
    config: dict[str, int] = json.loads((weights / "config.json").read_text(encoding="utf-8"))
    return config
