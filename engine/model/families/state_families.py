"""Families with layers that keep a state, and how config.json calls these layers.

Only these are let in: for other kinds of states nothing is known that takes them over a tree.
"""

LINEAR = "linear_attention"  # as transformers calls it, whatever computes the state
STATE_KINDS = frozenset({LINEAR})

# By model_type, of language models and of what wraps them.
STATE_FAMILIES = frozenset(
    {
        "olmo_hybrid",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
    }
)


def may_keep(family: object, kind: str) -> bool:
    """Whether layers of this kind may stand in models of this family (its model_type)."""
    return kind in STATE_KINDS and family in STATE_FAMILIES
