"""Attention over a tree: products in two batches, heads turned in one call each, attention as trees have it."""

import sys
from types import MethodType
from typing import Any

from torch import Tensor

from engine.model.passes import tree_attention
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import are_light, are_turns, loops, multiplied, product_of
from engine.model.products.product import Woven, times_all

ATTENTIONS = {
    "dd8107890fec1856": False,  # Llama's
    "0af972829cc3a981": False,  # Mistral, Mixtral: these and the next ones name a window, which masks know here
    "e6850f5d5a82220d": False,  # Qwen2
    "a113d78e85ae3171": True,  # Qwen3
}
"""By the digest of `forward`: whether heads have norms."""

TURNS = frozenset({("76bdfc87b37e68fb", "521347002b7a0fc6")})
"""Digests of the functions that turn heads by their position: those whose numbers turn together in both halves."""


def known_attention(module: Any) -> bool | None:
    """Whether heads have norms, of an attention that is known; None for others."""
    kind = type(module)
    has_norms = ATTENTIONS.get(digest_of(kind.forward))
    return has_norms if has_norms is not None and _turns_halves(sys.modules[kind.__module__]) else None


def lighten_attention(module: Any) -> bool:
    """Have attention compute few rows with few calls; False where it is none of those that are known."""
    has_norms = known_attention(module)
    if has_norms is None:
        return False
    own = type(module).forward

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


def _turns_halves(source: Any) -> bool:
    names = ("apply_rotary_pos_emb", "rotate_half")
    return tuple(digest_of(getattr(source, name, None)) for name in names) in TURNS


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
    loops().turn_heads(*places, rows * width, rows, heads, width, by_pairs)
    return found
