"""Hy 4's queries and keys for transformers' network, which turns other numbers of a head together than was published.

The published weights are made for pairs of neighbours, as vLLM and llama.cpp turn them; the library (5.23) turns the
first half of these numbers with the second. Where the first of all pairs stand before the second of all, both are the
same, and the products of queries and keys do not depend on the order of their numbers.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

FAMILIES = frozenset({"hy_v4"})  # by model_type


class _Apart:
    """Puts the pairs at the end of each head apart: of heads of `width` numbers, of which the last `turned` turn."""

    def __init__(self, width: int, turned: int) -> None:
        self._width, self._begin = width, width - turned

    def __call__(self, _module: nn.Module, _args: tuple[Any, ...], states: Tensor) -> Tensor:
        """As torch calls it; states [..., heads x width]."""
        heads, begin = states.reshape(*states.shape[:-1], -1, self._width), self._begin
        parts = heads[..., :begin], heads[..., begin::2], heads[..., begin + 1 :: 2]
        return torch.cat(parts, -1).flatten(-2)


def put_pairs_apart(layers: Iterable[nn.Module]) -> None:
    """Have layers of these families turn pairs; call it once for each layer."""
    for layer in layers:
        attention: Any = getattr(layer, "self_attn", None)
        if getattr(getattr(attention, "config", None), "model_type", None) not in FAMILIES:
            continue
        turned = attention.qk_rope_head_dim
        attention.q_b_proj.register_forward_hook(_Apart(attention.qk_head_dim, turned))
        attention.kv_a_proj_with_mqa.register_forward_hook(_Apart(attention.kv_lora_rank + turned, turned))
        if (indexer := attention.indexer) is not None:
            for module in (indexer.wq_b, indexer.k_norm):
                module.register_forward_hook(_Apart(indexer.head_dim, turned))
