"""Attention over a tree: products in two batches, heads turned in one call each, attention as trees have it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from torch import Tensor

from engine.model.passes import tree_attention
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import are_light, are_turns, loops, multiplied, product_of
from engine.model.products.arranged import Woven
from engine.model.products.product import times_all


@dataclass(frozen=True, slots=True)
class KnownAttention:
    """What an attention has besides its products: norms of heads, and scores of nothing (`sinks`, of each head).

    `is_partial`: of a head some numbers are turned, and the others stay.
    """

    has_norms: bool = False
    has_sinks: bool = False
    is_partial: bool = False


ATTENTIONS = {
    "dd8107890fec1856": KnownAttention(),  # Llama's
    "0af972829cc3a981": KnownAttention(),  # Mistral, Mixtral: these and the next ones name a window, which masks know
    "e6850f5d5a82220d": KnownAttention(),  # Qwen2
    "a113d78e85ae3171": KnownAttention(has_norms=True),  # Qwen3
    "dd6d21643e0ae21c": KnownAttention(has_sinks=True),  # gpt-oss
    "7969f22d0db5875e": KnownAttention(
        has_norms=True, is_partial=True
    ),  # GLM-4.5, whose modules say whether with norms
}
"""By the digest of `forward`."""

TURNS = {
    ("f45d8d1a3992c4cc", "71fa5e903be8cff2"): "rotate_half",
    ("0b6c66346e455799", "c313bbdfa52a0d3e"): "_apply_rotary_emb",
}
"""Digests of the functions that turn heads by their position: those whose numbers turn together in both halves.

With the name of the second one. gpt-oss hands over the cosines and sines of one half."""


PARTIAL_TURNS = {("3007ad54de2b4cb5", "71fa5e903be8cff2"): "rotate_half"}
"""The same of those that turn some numbers of a head."""


def known_attention(module: Any) -> KnownAttention | None:
    """What an attention has that is known; None for others."""
    known = known_kind(type(module))
    if known is not None and not getattr(module, "use_qk_norm", True):
        return replace(known, has_norms=False)
    return known


def known_kind(kind: type[Any]) -> KnownAttention | None:
    """The same of a class."""
    known = ATTENTIONS.get(digest_of(kind.forward))
    if known is None:
        return None
    return known if _turns(sys.modules[kind.__module__], PARTIAL_TURNS if known.is_partial else TURNS) else None


def lighten_attention(module: Any) -> bool:
    """Have attention compute few rows with few calls; False where it is none of those that are known."""
    known = known_attention(module)
    if known is None or known.has_sinks or known.is_partial:
        return False
    own, has_norms = type(module).forward, known.has_norms

    def forward(
        attention: Any,
        hidden_states: Tensor,
        position_embeddings: Any = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        width = attention.head_dim
        is_ours = attention.config._attn_implementation == tree_attention.NAME and past_key_values is not None
        if not (is_ours and are_light(hidden_states) and are_turns(position_embeddings, hidden_states.shape[1], width)):
            return own(attention, hidden_states, position_embeddings, attention_mask, past_key_values, **others)  # type: ignore[no-any-return]
        rows, (cosine, sine) = hidden_states.shape[1], position_embeddings
        query, key, value, by_pairs = _heads(
            (attention.q_proj, attention.k_proj, attention.v_proj), hidden_states, not has_norms
        )
        if has_norms:
            query, key = (
                attention.q_norm(query.view(1, rows, -1, width)),
                attention.k_norm(key.view(1, rows, -1, width)),
            )
        query, key = (_turned(each, cosine, sine, rows, width, by_pairs) for each in (query, key))
        keys, values = past_key_values.update(key, value.view(1, rows, -1, width).transpose(1, 2), attention.layer_idx)
        found, _ = tree_attention.tree_attention(
            attention, query, keys, values, attention_mask, 0.0, attention.scaling, **others
        )
        return multiplied((attention.o_proj,), found.reshape(1, rows, -1))[0], None

    module.__dict__["forward"] = MethodType(forward, module)
    return True


def _turns(source: Any, known: Mapping[tuple[str, str], str]) -> bool:
    turn = digest_of(getattr(source, "apply_rotary_pos_emb", None))
    return any(
        turn == first and digest_of(getattr(source, name, None)) == other for (first, other), name in known.items()
    )


def _heads(modules: Any, states: Tensor, may_be_pairs: bool) -> tuple[Tensor, Tensor, Tensor, bool]:
    """Queries, keys and values; the first two by pairs where they are stored so, which spares a copy."""
    products = [product_of(module, states.shape[1]) for module in modules]
    is_bare = all(module.bias is None for module in modules)
    query, key, value = products
    if may_be_pairs and is_bare and isinstance(query, Woven) and isinstance(key, Woven) and value is not None:
        found = times_all([query.matrix, key.matrix, value], states[0])
        return found[0], found[1], found[2], True
    query_states, key_states, value_states = multiplied(modules, states)
    return query_states, key_states, value_states, False


def _turned(states: Tensor, cosine: Tensor, sine: Tensor, rows: int, width: int, by_pairs: bool) -> Tensor:
    """Heads [1, heads, rows, width] of states [1, rows, heads x width]."""
    states, heads = states.contiguous(), states.numel() // (rows * width)
    found = states.new_empty(1, heads, rows, width)
    places = [each.data_ptr() for each in (states, cosine, sine, found)]
    loops().turn_heads(*places, rows * width, rows, heads, width, by_pairs, width)
    return found
