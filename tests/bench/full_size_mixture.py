"""The trained mixture in the shape of a published one: more layers, more and wider experts, more of them per token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import pad

from tests.bench.grown import OWN_HIDDEN, OWN_LAYERS, Shape, Sparse, attention, network, outside
from tests.mixture_pair.folders import WEIGHTS

NEVER = -1e9  # the bias of an expert that is not chosen


@dataclass(frozen=True, slots=True)
class MixtureShape:
    """A mixture's proportions, see `grown.Shape`; `inner`: units of an expert, as many as of the shared one."""

    layers: int
    hidden: int
    dense: int
    kv_heads: int
    experts: int
    chosen: int
    inner: int

    @property
    def around(self) -> Shape:
        """Without the experts."""
        return Shape(self.layers, self.hidden, self.dense, self.kv_heads)


# Qwen3 30B A3B and GLM 4.5 Air, with heads half as wide and twice as many; both have one shared expert here.
MIXTURES = {
    "30b-a3b": MixtureShape(48, 2048, 6144, 8, 128, 8, 768),
    "106b-a12b": MixtureShape(46, 4096, 10880, 16, 128, 8, 1408),
}


def config_of(shape: MixtureShape) -> dict[str, Any]:
    """The trained mixture's, in this shape."""
    config: dict[str, Any] = json.loads((WEIGHTS / "config.json").read_text(encoding="utf-8"))
    return config | {
        "num_hidden_layers": shape.layers, "hidden_size": shape.hidden, "intermediate_size": shape.dense,
        "num_attention_heads": shape.around.heads, "num_key_value_heads": shape.kv_heads,
        "n_routed_experts": shape.experts, "num_experts_per_tok": shape.chosen, "moe_intermediate_size": shape.inner,
        "n_shared_experts": 1, "tie_word_embeddings": False,
    }  # fmt: skip


def parts_of(shape: MixtureShape) -> dict[int, dict[str, Sparse]]:
    """What each layer holds, and under -1 what none does. The text is the trained mixture's, see `grown.grow`.

    Its own layers have each of its experts `chosen / 4` times, which are chosen together and share its part; the others
    are never chosen. Routers of the new layers are random numbers, and what their experts compute is multiplied by 0.
    """
    with safe_open(WEIGHTS / "model.safetensors", "pt") as tensors:
        own = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118  # not a mapping
    parts = {-1: outside(own, shape.hidden)}
    for index in range(shape.layers):
        experts = network(own, index, shape.around, noise=True) if index == 0 else _experts(own, index, shape)
        parts[index] = attention(own, index, shape.around, noise=True) | experts
    return parts


def _experts(own: Mapping[str, Tensor], index: int, shape: MixtureShape) -> dict[str, Sparse]:
    prefix = f"model.layers.{index}.mlp."
    count, inner, hidden = shape.experts, shape.inner, shape.hidden
    found = {
        "gate.weight": Sparse(count, hidden, noise=True),
        "gate.e_score_correction_bias": Sparse(0, count),
        "experts.gate_up_proj": Sparse(count * 2 * inner, hidden, noise=True, stacked=count),
        "experts.down_proj": Sparse(count * hidden, inner, stacked=count),
        "shared_experts.gate_proj.weight": Sparse(inner, hidden, noise=True),
        "shared_experts.up_proj.weight": Sparse(inner, hidden, noise=True),
        "shared_experts.down_proj.weight": Sparse(hidden, inner),
    }
    if index < OWN_LAYERS:
        weights = {name.removeprefix(prefix): weight for name, weight in own.items() if name.startswith(prefix)}
        found = {name: _filled(name, sparse, weights, shape) for name, sparse in found.items()}
    return {prefix + name: sparse for name, sparse in found.items()}


def _filled(name: str, sparse: Sparse, own: Mapping[str, Tensor], shape: MixtureShape) -> Sparse:
    """With the trained mixture's own numbers in it."""
    trained = len(own["gate.weight"])
    places = range(trained * (shape.chosen // 4))  # of its experts, one set behind the other
    if name == "gate.weight":
        patches = [(place, 0, _wide(own[name][place % trained, None], shape)) for place in places]
        return Sparse(sparse.rows, sparse.columns, tuple(patches))
    if name == "gate.e_score_correction_bias":
        biases = torch.full((1, shape.experts), NEVER)
        biases[0, : len(places)] = own[name].float().repeat(len(places) // trained)
        return Sparse(0, shape.experts, ((0, 0, biases),))
    if name == "experts.gate_up_proj":
        patches = [
            ((2 * place + number) * shape.inner, 0, _wide(own[f"experts.{place % trained}.{part}.weight"], shape))
            for place in places
            for number, part in enumerate(("gate_proj", "up_proj"))
        ]
    elif name == "experts.down_proj":
        down = [_high(own[f"experts.{place % trained}.down_proj.weight"], shape) for place in places]
        patches = [(place * shape.hidden, 0, each) for place, each in zip(places, down, strict=True)]
    else:
        patches = [(0, 0, (_high if "down_proj" in name else _wide)(own[name], shape))]
    return Sparse(sparse.rows, sparse.columns, tuple(patches), sparse.noise, sparse.stacked)


def _wide(weight: Tensor, shape: MixtureShape) -> Tensor:
    """Reads the first of the copies of the hidden state, and nothing else."""
    return pad(weight, (0, shape.hidden - OWN_HIDDEN))


def _high(weight: Tensor, shape: MixtureShape) -> Tensor:
    """Writes them all."""
    return weight.repeat(shape.hidden // OWN_HIDDEN, 1)
