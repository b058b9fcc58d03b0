"""What llama.cpp calls the weights of each kind of network, what transformers calls them, and how they differ.

The names are those of `gguf.constants.MODEL_TENSORS`; what llama.cpp's converter does to weights is undone elsewhere
(`contents`, `packed_blocks`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Change = Literal[
    "", "query", "key", "one head", "norm", "turned", "row", "flat", "channels", "log", "log of heads", "log of rates",
    "by kind", "by groups", "members", "members turned", "pairs", "indices", "rescaled", "values", "values behind keys",
    "of values", "decay",
]  # fmt: skip
"""What the converter did: nothing; permuted the rows of a query or key, or the numbers of one head; added 1; nothing,
but transformers has the matrix turned; took the first of two dimensions away, of length 1, or left it; made a matrix
of a vector; took the middle one of a convolution's dimensions away, of length 1; took the negative of exponentials,
and may have added dimensions of length 1; did so, where heads are the third of four dimensions; took exponentials
alone, and made a matrix of a vector; put the queries of all heads before their keys and values; did so, where several
heads of queries share one of keys and one of values; made a stack of a matrix in which members lie behind each other;
did so, and turned every one; permuted the numbers of all heads, each of which is a row; took 32 bits for each of the
whole numbers that say which experts a token passes; multiplied with what the network multiplies latents with behind
their norm, which follows from its width and theirs. In layers with a state, whose key heads have several value heads
each, it put the first value heads of all keys before the second ones: among the rows; among those behind queries and
keys; among the columns; among numbers, of whose exponentials it took the negative."""

Merge = Literal["joined", "behind", "halves", "woven", "latent", "by key heads"]
"""How several tensors make one weight: behind each other in the first dimension (of a matrix) or the second (of a
stack); the same, of matrices with different numbers of rows; behind each other in the last one, turned; alternating
there, turned; as keys and values of latent attention; as queries, keys and values of a layer with a state, and what
gates it, for one key head after the other."""

IN_BLOCK = re.compile(r"blk\.(?P<index>\d{1,5})\.(?P<name>.+?)(\.(?P<kind>weight|bias|scale))?", re.ASCII)
GATES, UPS = "ffn_gate_exps", "ffn_up_exps"
SHARED_GATE, SHARED_UP = "ffn_gate_shexp", "ffn_up_shexp"
KEYS_OF_LATENTS, VALUES_OF_LATENTS = "attn_k_b", "attn_v_b"
OUTPUT = "output.weight"
FREQUENCIES = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
NOT_WEIGHTS = frozenset({FREQUENCIES, LONG_FACTORS, SHORT_FACTORS})
NOT_WEIGHTS_OF_BLOCKS = frozenset({"attn_rot_embd"})

OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output_norm.bias": "model.norm.bias",
    OUTPUT: "lm_head.weight",
    "per_layer_token_embd.weight": "model.embed_tokens_per_layer.weight",
    "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
    "per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight",
}
STACKS = {
    "altup_proj.weight": "model.altup_projections.{}.weight",
    "altup_unembd_proj.weight": "model.altup_unembed_projections.{}.weight",
}
"""Matrices that are one tensor, by its name there: they are one weight each."""
ACTIVATIONS = {
    "xielu.alpha_p": "mlp.act_fn.alpha_p", "xielu.alpha_n": "mlp.act_fn.alpha_n", "xielu.beta": "mlp.act_fn.beta",
    "xielu.eps": "mlp.act_fn.eps",
}  # fmt: skip
"""Weights that are no tensors, but stand in metadata, as lists with a number for each layer."""
NGRAMS = "ple.ple_embedding."
HASHES = {
    "ple.layer_multipliers": f"{NGRAMS}layer_multipliers", "ple.head_offsets": f"{NGRAMS}ngram_heads_offsets",
    "ple.head_vocab_sizes": f"{NGRAMS}ngram_heads_vocab_sizes",
}  # fmt: skip
"""The same, by the entry's name behind that of the architecture, as lists of whole numbers for the one layer that
looks up n-grams."""
NGRAM_TABLE = f"{NGRAMS}ngram_embedding.weight"
ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
BLOCK = {"attn_norm": "input_layernorm", **ATTENTION, "ffn_norm": "post_attention_layernorm", **MLP}
NORMS_BEHIND = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
HEAD_NORMS_HUNYUAN = {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}


def experts(router: str = "mlp.gate", module: str = "mlp.experts") -> dict[str, str]:
    """Router and stacked experts; a stack is a parameter of its module, whose name has nothing behind it."""
    return {
        "ffn_gate_inp": router,
        "ffn_gate_up_exps.weight": f"{module}.gate_up_proj",
        "ffn_down_exps.weight": f"{module}.down_proj",
        "ffn_down_exps.bias": f"{module}.down_proj_bias",
    }


def shared(module: str = "mlp.shared_experts") -> dict[str, str]:
    """The experts that every token passes."""
    return {
        SHARED_GATE: f"{module}.gate_proj",
        SHARED_UP: f"{module}.up_proj",
        "ffn_down_shexp": f"{module}.down_proj",
    }


@dataclass(frozen=True, slots=True)
class Merged:
    """A weight inside a layer that llama.cpp keeps in several tensors."""

    name: str
    parts: tuple[str, ...]
    merge: Merge


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of network: its `model_type` in transformers, and its weights inside a layer.

    `names`: by llama.cpp's names, or by these with their kind (`x.bias`) for whole names of transformers' parameters.
    `layers_differ`: in the number of their heads and the width of what follows; config.json says how in its own way.
    `heads_differ`: layers with a window have another number of heads of queries than others.
    `epsilon` is what config.json calls that of the norms: of root mean squares, or else of all of a layer's numbers.
    `apart`: names inside a layer of what is no weight of the network.
    `of_states`: names in layers that keep a state, where others call something else so.
    `outside`: whole names of weights outside the layers; `layers`: what the names of those inside begin with.
    `attends`: whether any layer has attention; `turns`: whether positions turn its queries and keys.
    """

    model_type: str
    names: Mapping[str, str]
    changes: Mapping[str, Change]
    merged: tuple[Merged, ...] = ()
    norms_plus_one: bool = False
    layers_differ: bool = False
    heads_differ: bool = False
    epsilon: str = "rms_norm_eps"
    outside: Mapping[str, str] = field(default_factory=lambda: OUTSIDE)
    layers: str = "model.layers"
    attends: bool = True
    turns: bool = True
    apart: frozenset[str] = frozenset()
    of_states: Mapping[str, str] = field(default_factory=dict)


def stacked(name: str = "mlp.experts.gate_up_proj", merge: Merge = "joined") -> tuple[Merged, ...]:
    """The gates and ups of all experts, which are one weight."""
    return (Merged(name, (GATES, UPS), merge),)


PERMUTED: Mapping[str, Change] = {"attn_q": "query", "attn_k": "key"}
PLAIN: Mapping[str, Change] = {}
MIXTURE = BLOCK | experts()
CORRECTED = {"exp_probs_b.bias": "mlp.gate.e_score_correction_bias"}
LATENTS = {
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_layernorm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
    "attn_kv_a_norm": "self_attn.kv_a_layernorm",
    "attn_kv_b": "self_attn.kv_b_proj",
}
QWEN_SHARED = shared("mlp.shared_expert") | {"ffn_gate_inp_shexp": "mlp.shared_expert_gate"}


def in_transformers(family: Family, name: str, kind: str) -> str:
    """What transformers calls a weight or bias inside a layer; empty for an unknown one."""
    if whole := family.names.get(f"{name}.{kind}"):
        return whole
    own = family.names.get(name, "")
    return f"{own}.{kind}" if own and kind != "scale" else ""
