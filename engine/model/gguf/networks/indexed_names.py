"""What llama.cpp calls the weights of networks whose layers choose or compress what they attend to, see `names`."""

from collections.abc import Mapping

from engine.model.gguf.networks.mixture_names import MIXTURES
from engine.model.gguf.networks.names import (
    BLOCK,
    CORRECTED,
    OUTSIDE,
    PLAIN,
    SHARED_GATE,
    SHARED_UP,
    Change,
    Family,
    Merged,
    experts,
    shared,
    stacked,
)
from engine.model.gguf.networks.state_names import STATES

_LATENT = MIXTURES["deepseek2"]
_INDEXER = {
    "indexer.attn_q_b": "self_attn.indexer.wq_b",
    "indexer.attn_k": "self_attn.indexer.wk",
    "indexer.k_norm": "self_attn.indexer.k_norm",
    "indexer.proj": "self_attn.indexer.weights_proj",
}
_INDEXED = {**_LATENT.names, **_INDEXER}
_SINKS = {"attn_sinks.weight": "self_attn.sinks"}
_STREAMS = {
    f"hc_{part}_{own}.weight": f"{part}_hc.{own}" for part in ("attn", "ffn") for own in ("fn", "base", "scale")
}
_STREAMS_OUTSIDE = {
    **OUTSIDE, **{f"output_hc_{own}.weight": f"model.hc_head.hc_{own}" for own in ("fn", "base", "scale")},
}  # fmt: skip


def _compressor(name: str, module: str) -> dict[str, str]:
    return {
        f"{name}_kv": f"{module}.kv_proj",
        f"{name}_gate": f"{module}.gate_proj",
        f"{name}_norm": f"{module}.kv_norm",
        f"{name}_ape.weight": f"{module}.position_bias",
    }


_OF_DEEPSEEK4 = "self_attn.compressor.indexer"
_DEEPSEEK4 = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q_a": "self_attn.q_a_proj",
    "attn_q_a_norm": "self_attn.q_a_norm",
    "attn_q_b": "self_attn.q_b_proj",
    "attn_kv": "self_attn.kv_proj",
    "attn_kv_a_norm": "self_attn.kv_norm",
    "attn_output_a": "self_attn.o_a_proj",
    "attn_output_b": "self_attn.o_b_proj",
    **_SINKS,
    **_STREAMS,
    **_compressor("attn_compressor", "self_attn.compressor"),
    **_compressor("indexer_compressor", _OF_DEEPSEEK4),
    "indexer.attn_q_b": f"{_OF_DEEPSEEK4}.q_b_proj",
    "indexer.proj": f"{_OF_DEEPSEEK4}.scorer.weights_proj",
    "ffn_gate_tid2eid.weight": "mlp.gate.tid2eid",
    **experts(),
    **shared(),
    **CORRECTED,
}
_MINIMAX3 = {name: own for name, own in BLOCK.items() if name not in ("ffn_gate", "ffn_up")} | {
    **experts(),
    **CORRECTED,
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
    **{
        f"indexer.{own}": f"self_attn.indexer.{called}"
        for own, called in (("q_proj", "q_proj"), ("k_proj", "k_proj"), ("q_norm", "q_norm"), ("k_norm", "k_norm"))
    },
}
_MINIMAX3_MERGED = (
    *stacked(),
    Merged("mlp.gate_up_proj.weight", ("ffn_gate", "ffn_up"), "joined"),
    Merged("mlp.shared_experts.gate_up_proj.weight", (SHARED_GATE, SHARED_UP), "joined"),
)
_OF_INDEX: Mapping[str, Change] = dict.fromkeys(("indexer.q_norm", "indexer.k_norm"), "norm")
_GLM5 = {
    **STATES["kimi-linear"].names,
    **_INDEXER,
    **_STREAMS,
    "indexer_compressor_gate.weight": "self_attn.indexer.index_kpool_compress_gate",
    "indexer_compressor_ape.weight": "self_attn.indexer.index_kpool_compress_ape",
}
INDEXED: Mapping[str, Family] = {
    "deepseek32": Family("deepseek_v32", _INDEXED, PLAIN, _LATENT.merged),
    "glm-dsa": Family("glm_moe_dsa", _INDEXED, PLAIN, _LATENT.merged),
    "deepseek4": Family(
        "deepseek_v4", _DEEPSEEK4, {"ffn_gate_tid2eid": "indices"}, stacked(), outside=_STREAMS_OUTSIDE
    ),
    "minimax-m3": Family("minimax_m3_vl_text", _MINIMAX3, _OF_INDEX, _MINIMAX3_MERGED, norms_plus_one=True),
    "glm5-next": Family(
        "glm5_next_text",
        _GLM5,
        {**STATES["kimi-linear"].changes, "ssm_a": "log"},
        _LATENT.merged,
        layers_differ=True,
        turns=False,
    ),
    "dots3note": Family(
        "dots3_note_text",
        _INDEXED | {"attn_k_norm": "self_attn.k_rope_only_layernorm", "attn_gate": "self_attn.g_proj"},
        {"attn_q_a_norm": "rescaled", "attn_kv_a_norm": "rescaled"},
        _LATENT.merged,
        heads_differ=True,
    ),
    "hy_v4": Family(
        "hy_v4",
        _INDEXED | _SINKS | _STREAMS | {"attn_gate": "self_attn.gate_proj"},
        PLAIN,
        _LATENT.merged,
        outside=_STREAMS_OUTSIDE,
    ),
}
"""By `general.architecture`."""
