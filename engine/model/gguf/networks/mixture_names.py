"""What llama.cpp calls the weights of mixtures of experts, see `names`."""

from collections.abc import Mapping

from engine.model.gguf.networks.names import (
    BLOCK,
    CORRECTED,
    HEAD_NORMS_HUNYUAN,
    KEYS_OF_LATENTS,
    LATENTS,
    MIXTURE,
    NORMS_BEHIND,
    OUTPUT,
    OUTSIDE,
    PERMUTED,
    PLAIN,
    QWEN_SHARED,
    SHARED_GATE,
    SHARED_UP,
    VALUES_OF_LATENTS,
    Family,
    Merged,
    experts,
    shared,
    stacked,
)

_DEEPSEEK = MIXTURE | shared() | CORRECTED | LATENTS
_LATENT = Merged("self_attn.kv_b_proj.weight", (KEYS_OF_LATENTS, VALUES_OF_LATENTS), "latent")
_LLAMA4 = (
    BLOCK
    | {"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj"}
    | experts("feed_forward.router", "feed_forward.experts")
    | shared("feed_forward.shared_expert")
)
_GPT_OSS = (
    BLOCK
    | experts("mlp.router")
    | NORMS_BEHIND
    | {
        "attn_sinks.weight": "self_attn.sinks",
        # In files of Ollama, which may keep gates and ups woven as the network has them, too.
        "attn_out": "self_attn.o_proj",
        "ffn_gate_up_exps.bias": "mlp.experts.gate_up_proj_bias",
    }
)
_GRANITE_MOE = (
    BLOCK
    | experts("block_sparse_moe.router", "block_sparse_moe.experts")
    | {"ffn_down_shexp": "shared_mlp.output_linear"}
)
_GRANITE_MERGED = (
    *stacked("block_sparse_moe.experts.gate_up_proj"),
    Merged("shared_mlp.input_linear.weight", (SHARED_GATE, SHARED_UP), "joined"),
)
_AFMOE = (
    BLOCK
    | experts("mlp.router.gate")
    | shared()
    | {
        "attn_gate": "self_attn.gate_proj",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_mlp_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
        "exp_probs_b.bias": "mlp.expert_bias",
    }
)
_GRANITE_SWA = BLOCK | _GRANITE_MOE | {"attn_sinks.weight": "self_attn.sinks", SHARED_UP: "shared_mlp.input_linear"}
_DBRX = {
    "attn_norm": "norm_attn_norm.norm_1",
    "attn_qkv": "norm_attn_norm.attn.Wqkv",
    "attn_output": "norm_attn_norm.attn.out_proj",
    "attn_output_norm": "norm_attn_norm.norm_2",
    "ffn_gate_inp": "ffn.router.layer",
    "ffn_gate_exps.weight": "ffn.experts.mlp.w1",
    "ffn_up_exps.weight": "ffn.experts.mlp.v1",
    "ffn_down_exps.weight": "ffn.experts.mlp.w2",
}
_OUTSIDE_DBRX = {
    "token_embd.weight": "transformer.wte.weight",
    "output_norm.weight": "transformer.norm_f.weight",
    OUTPUT: "lm_head.weight",
}
_BIASED_HEAD = {"output.bias": "lm_head.bias"}
MIXTURES: Mapping[str, Family] = {
    "llama": Family("llama", MIXTURE, PERMUTED, stacked()),
    "mistral3": Family("llama", MIXTURE, PERMUTED, stacked()),
    "llama4": Family(
        "llama4_text", _LLAMA4, {"ffn_down_exps": "turned"}, stacked("feed_forward.experts.gate_up_proj", "halves")
    ),
    "qwen2moe": Family(
        "qwen2_moe",
        MIXTURE | QWEN_SHARED,
        {"ffn_gate_inp_shexp": "row"},
        stacked(),
    ),
    "qwen3moe": Family("qwen3_moe", MIXTURE, PLAIN, stacked()),
    "qwen3vlmoe": Family("qwen3_moe", MIXTURE, PLAIN, stacked()),
    "gpt-oss": Family(
        "gpt_oss",
        _GPT_OSS,
        {"ffn_gate_up_exps": "turned", "ffn_down_exps": "turned"},
        stacked("mlp.experts.gate_up_proj", "woven"),
    ),
    "deepseek2": Family("deepseek_v3", _DEEPSEEK, PLAIN, (*stacked(), _LATENT)),
    "glm4moe": Family("glm4_moe", MIXTURE | shared() | CORRECTED | NORMS_BEHIND, PLAIN, stacked()),
    "bailingmoe": Family("granitemoeshared", _GRANITE_MOE, PERMUTED, _GRANITE_MERGED),
    "bailingmoe2": Family("glm4_moe", MIXTURE | shared() | CORRECTED, PLAIN, stacked()),
    "deepseek": Family("deepseek_ocr2_text", MIXTURE | shared(), PERMUTED, stacked()),
    "deepseek2-ocr": Family("deepseek_ocr2_text", MIXTURE | shared(), PLAIN, stacked()),
    "dots1": Family("dots1", MIXTURE | shared() | CORRECTED, PLAIN, stacked()),
    "minimax-m2": Family("minimax_m2", MIXTURE | {"exp_probs_b.bias": "mlp.e_score_correction_bias"}, PLAIN, stacked()),
    "ernie4_5-moe": Family(
        "ernie4_5_moe",
        MIXTURE | shared() | {"exp_probs_b.bias": "mlp.gate.moe_statics.e_score_correction_bias"},
        {"exp_probs_b": "row"},
        stacked(),
    ),
    "hunyuan-moe": Family(
        "hunyuan_v1_moe",
        BLOCK | HEAD_NORMS_HUNYUAN | experts("mlp.gate.wg") | shared("mlp.shared_mlp"),
        PLAIN,
        stacked(),
    ),
    "granitemoe": Family("granitemoe", _GRANITE_MOE, PERMUTED, _GRANITE_MERGED),
    "olmoe": Family("olmoe", MIXTURE, PLAIN, stacked()),
    "exaone-moe": Family("exaone_moe", MIXTURE | shared() | CORRECTED, PLAIN, stacked()),
    "afmoe": Family("afmoe", _AFMOE, PLAIN, stacked()),
    "cohere2moe": Family("cohere2_moe", MIXTURE | shared(), PLAIN, stacked(), epsilon="layer_norm_eps"),
    "mistral4": Family("mistral4", _DEEPSEEK, PLAIN, (*stacked(), _LATENT)),
    "hy_v3": Family(
        "hy_v3",
        MIXTURE | shared() | dict.fromkeys(("exp_probs_b.bias", "exp_probs_b.weight"), "mlp.e_score_correction_bias"),
        PLAIN,
        stacked(),
    ),
    "mimo2": Family(
        "mimo_v2_flash",
        MIXTURE | CORRECTED | {"attn_sinks.weight": "self_attn.sinks"},
        PLAIN,
        stacked(),
        layers_differ=True,
    ),
    "mellum": Family("mellum", MIXTURE, PLAIN, stacked()),
    "step35": Family(
        "step3p5",
        MIXTURE | shared() | CORRECTED | {"attn_gate": "self_attn.g_proj"},
        PLAIN,
        stacked(),
        norms_plus_one=True,
        heads_differ=True,
    ),
    "laguna": Family(
        "laguna",
        MIXTURE | shared() | CORRECTED | {"attn_gate": "self_attn.g_proj"},
        PLAIN,
        stacked(),
        heads_differ=True,
    ),
    "granite_swa": Family("granite_swa", _GRANITE_SWA, PERMUTED),
    "dbrx": Family(
        "dbrx",
        _DBRX,
        {"ffn_gate_exps": "members", "ffn_up_exps": "members", "ffn_down_exps": "members turned"},
        epsilon="layer_norm_eps",
        outside=_OUTSIDE_DBRX,
        layers="transformer.blocks",
    ),
    "phimoe": Family("phimoe", BLOCK | experts("mlp.router"), PLAIN, stacked(), outside=OUTSIDE | _BIASED_HEAD),
}
"""By `general.architecture`."""
