"""Families with layers that keep a state, and how config.json calls these layers.

Only these are let in: for other kinds of states nothing is known that takes them over a tree.
"""

LINEAR = "linear_attention"  # as transformers calls it, whatever computes the state
CONVOLUTION = "conv"  # the state is the tail of a short convolution, and nothing else
HYBRID = "hybrid"  # attention and a state, side by side in one layer
STATE_KINDS = frozenset({LINEAR, CONVOLUTION, HYBRID})
# Layers of such families that know nothing of the past, and what older config.json files call layers of both sorts.
OTHER_KINDS = frozenset({"mlp", "moe", "attention", "mamba"})

# By model_type, of language models and of what wraps them.
STATE_FAMILIES = frozenset(
    {
        "bailing_hybrid",
        "bamba",
        "falcon_h1",
        "falcon_mamba",
        "glm5_next",
        "glm5_next_text",
        "granitemoehybrid",
        "jamba",
        "kimi_linear",
        "lfm2",
        "lfm2_moe",
        "lfm3",
        "mamba",
        "mamba2",
        "minimax",
        "nemotron_h",
        "olmo_hybrid",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "qwen4_exp",
        "qwen4_exp_text",
    }
)

# All of whose layers keep a state; the library's other networks ask a layer that attends how long the text is.
STATE_ONLY = frozenset({"falcon_mamba", "mamba", "mamba2"})

# What MiniMax's layers compute of their numbers alone, and its checkpoints hold all the same.
DECAYS = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")


def may_keep(family: object, kind: str) -> bool:
    """Whether layers of this kind may stand in models of this family (its model_type), beside those with attention."""
    return kind in STATE_KINDS | OTHER_KINDS and family in STATE_FAMILIES
