"""Queries and keys for networks of transformers that turn other numbers of a head together than was published.

The published weights of Hy 4 are made for pairs of neighbours, as vLLM and llama.cpp turn them; the library (5.23)
turns the first half of these numbers with the second. Of MiniMax (Text-01, M1) only the first `rotary_dim` numbers of a
head turn, the first half of these with the second, and the library turns all of them. Where the first of all pairs
stand before the second of all, both are the same, and the products of queries and keys do not depend on the order of
their numbers; numbers that do not turn become pairs of a frequency of 0.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

FAMILIES = frozenset({"hy_v4"})  # by model_type
PARTLY = frozenset({"minimax"})  # by model_type: a part of a head turns, as config.json says


class _Apart:
    """Puts the pairs at the end of each head apart: of heads of `width` numbers, of which the last `turned` turn."""

    def __init__(self, width: int, turned: int) -> None:
        self._width, self._begin = width, width - turned

    def __call__(self, _module: nn.Module, _args: tuple[Any, ...], states: Tensor) -> Tensor:
        """As torch calls it; states [..., heads x width]."""
        heads, begin = states.reshape(*states.shape[:-1], -1, self._width), self._begin
        parts = heads[..., :begin], heads[..., begin::2], heads[..., begin + 1 :: 2]
        return torch.cat(parts, -1).flatten(-2)


class _FirstPart:
    """Puts the halves of a head's first `turned` numbers where those of a whole head of `width` numbers turn."""

    def __init__(self, width: int, turned: int) -> None:
        half, middle = turned // 2, (turned + width) // 2
        self._width = width
        self._bounds = (0, half), (turned, middle), (half, turned), (middle, width)

    def __call__(self, _module: nn.Module, _args: tuple[Any, ...], states: Tensor) -> Tensor:
        """As torch calls it; states [..., heads x width]."""
        heads = states.reshape(*states.shape[:-1], -1, self._width)
        return torch.cat([heads[..., begin:end] for begin, end in self._bounds], -1).flatten(-2)


def turn_in_part(model: Any) -> None:
    """Have a network of `PARTLY` turn no more of a head than was published; call it when its frequencies are made.

    Its layers are for `put_pairs_apart`.
    """
    turned, config = _turned_part(model.config), model.config
    if not turned:
        return
    for module in model.modules():
        if isinstance(frequencies := getattr(module, "inv_freq", None), Tensor):
            steps = torch.arange(0, turned, 2, device=frequencies.device) / turned
            frequencies.zero_()[: len(steps)] = config.rope_parameters["rope_theta"] ** -steps


def _turned_part(config: Any) -> int:
    """How many numbers of a head turn, where the library would turn others as well; 0 for all other networks."""
    turned, rope = getattr(config, "rotary_dim", None), getattr(config, "rope_parameters", None)
    if getattr(config, "model_type", None) not in PARTLY or type(turned) is not int or not isinstance(rope, dict):
        return 0
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    is_usual = rope.get("rope_type") == "default" and turned % 2 == 0
    return turned if is_usual and 0 < turned < width else 0


def put_pairs_apart(layers: Iterable[nn.Module]) -> None:
    """Have layers of these families turn pairs; call it once for each layer."""
    for layer in layers:
        attention: Any = getattr(layer, "self_attn", None)
        if (turned := _turned_part(getattr(attention, "config", None))) and hasattr(attention, "k_proj"):
            for projection in (attention.q_proj, attention.k_proj):
                projection.register_forward_hook(_FirstPart(attention.head_dim, turned))
        if getattr(getattr(attention, "config", None), "model_type", None) not in FAMILIES:
            continue
        turned = attention.qk_rope_head_dim
        attention.q_b_proj.register_forward_hook(_Apart(attention.qk_head_dim, turned))
        attention.kv_a_proj_with_mqa.register_forward_hook(_Apart(attention.kv_lora_rank + turned, turned))
        if (indexer := attention.indexer) is not None:
            for module in (indexer.wq_b, indexer.k_norm):
                module.register_forward_hook(_Apart(indexer.head_dim, turned))
