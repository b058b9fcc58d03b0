"""What llama.cpp calls the weights of dense networks, see `names`."""

from collections.abc import Mapping
from dataclasses import replace

from engine.model.gguf.networks.names import (
    ATTENTION,
    BLOCK,
    HEAD_NORMS_HUNYUAN,
    LATENTS,
    MLP,
    NORMS_BEHIND,
    OUTPUT,
    OUTSIDE,
    PERMUTED,
    PLAIN,
    Change,
    Family,
    experts,
    stacked,
)

_GEMMA = BLOCK | NORMS_BEHIND | {"ffn_norm": "pre_feedforward_layernorm"}
_PER_LAYER = {
    "inp_gate": "per_layer_input_gate",
    "proj": "per_layer_projection",
    "post_norm": "post_per_layer_input_norm",
}
_GEMMA3N = (
    _GEMMA
    | _PER_LAYER
    | {
        "altup_correct_coef": "altup.correction_coefs",
        "altup_correct_scale.weight": "altup.correct_output_scale",
        "altup_predict_coef": "altup.prediction_coefs",
        "altup_router": "altup.modality_router",
        "altup_router_norm": "altup.router_norm",
        "laurel_l": "laurel.linear_left",
        "laurel_r": "laurel.linear_right",
        "laurel_post_norm": "laurel.post_laurel_norm",
    }
)
_GEMMA4 = (
    _GEMMA
    | _PER_LAYER
    | experts("router.proj", "experts")
    | {
        "layer_output_scale.weight": "layer_scalar",
        "ffn_gate_inp.scale": "router.scale",
        "ffn_down_exps.scale": "router.per_expert_scale",
        "ffn_gate_inp.per_expert_scale.weight": "router.per_expert_scale",  # in files of Ollama
        "post_ffw_norm_1": "post_feedforward_layernorm_1",
        "post_ffw_norm_2": "post_feedforward_layernorm_2",
        "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
    }
)
_OLMO2 = ATTENTION | MLP | NORMS_BEHIND
_HEADS_PERMUTED: Mapping[str, Change] = {**PERMUTED, "attn_q_norm": "one head", "attn_k_norm": "one head"}
_STARCODER2 = BLOCK | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_OUTSIDE_GPT2 = {
    "token_embd.weight": "transformer.wte.weight",
    "position_embd.weight": "transformer.wpe.weight",
    "output_norm.weight": "transformer.ln_f.weight",
    "output_norm.bias": "transformer.ln_f.bias",
    OUTPUT: "lm_head.weight",
}
_OUTSIDE_NEOX = {
    "token_embd.weight": "gpt_neox.embed_in.weight",
    "output_norm.weight": "gpt_neox.final_layer_norm.weight",
    "output_norm.bias": "gpt_neox.final_layer_norm.bias",
    OUTPUT: "lm_head.weight",
}
_NEOX = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "attention.query_key_value",
    "attn_output": "attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_OUTSIDE_PHI2 = OUTSIDE | {
    "output_norm.weight": "model.final_layernorm.weight",
    "output_norm.bias": "model.final_layernorm.bias",
    "output.bias": "lm_head.bias",
}
_OUTSIDE_BLOOM = _OUTSIDE_GPT2 | {
    "token_embd.weight": "transformer.word_embeddings.weight",
    "token_embd_norm.weight": "transformer.word_embeddings_layernorm.weight",
    "token_embd_norm.bias": "transformer.word_embeddings_layernorm.bias",
}
_BLOOM = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attention.query_key_value",
    "attn_output": "self_attention.dense",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
_OUTSIDE_MPT = {
    "token_embd.weight": "transformer.wte.weight",
    "output_norm.weight": "transformer.norm_f.weight",
    OUTPUT: "lm_head.weight",
}
_MPT = {  # without the biases that its network does not know
    "attn_norm.weight": "norm_1.weight",
    "attn_qkv.weight": "attn.Wqkv.weight",
    "attn_output.weight": "attn.out_proj.weight",
    "ffn_norm.weight": "norm_2.weight",
    "ffn_up.weight": "ffn.up_proj.weight",
    "ffn_down.weight": "ffn.down_proj.weight",
}
_OUTSIDE_FALCON = _OUTSIDE_GPT2 | {"token_embd.weight": "transformer.word_embeddings.weight"}
_FALCON = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attention.query_key_value",
    "attn_output": "self_attention.dense",
    "ffn_up": "mlp.dense_h_to_4h",
    "ffn_down": "mlp.dense_4h_to_h",
}
DENSE: Mapping[str, Family] = {
    "qwen2": Family("qwen2", BLOCK, PLAIN),
    "qwen2vl": Family("qwen2", BLOCK, PLAIN),  # its text alone: all axes of a position are the same
    "qwen3": Family("qwen3", BLOCK, PLAIN),
    "qwen3vl": Family("qwen3", BLOCK, PLAIN),
    "gemma": Family("gemma", BLOCK, PLAIN, norms_plus_one=True),
    "gemma2": Family("gemma2", _GEMMA, PLAIN, norms_plus_one=True),
    "gemma3": Family("gemma3_text", _GEMMA, PLAIN, norms_plus_one=True),
    "gemma3n": Family("gemma3n_text", _GEMMA3N, PLAIN),
    "gemma4": Family("gemma4_text", _GEMMA4, PLAIN, stacked("experts.gate_up_proj"), layers_differ=True),
    "glm4": Family(
        "glm4",
        BLOCK
        | {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        },
        PLAIN,
    ),
    "ernie4_5": Family("ernie4_5", BLOCK, PLAIN),
    "hunyuan-dense": Family("hunyuan_v1_dense", BLOCK | HEAD_NORMS_HUNYUAN, PLAIN),
    "hunyuan_vl": Family("hunyuan_v1_dense", BLOCK | HEAD_NORMS_HUNYUAN, PLAIN),
    "maincoder": Family("hunyuan_v1_dense", BLOCK | HEAD_NORMS_HUNYUAN, _HEADS_PERMUTED),
    "granite": Family("granite", BLOCK, PERMUTED),
    "olmo2": Family("olmo2", _OLMO2, PLAIN),
    "exaone4": Family("exaone4", _OLMO2, PLAIN),
    "seed_oss": Family("seed_oss", BLOCK | NORMS_BEHIND, PLAIN),
    "smollm3": Family("smollm3", BLOCK, PERMUTED),
    "arcee": Family("arcee", BLOCK, PERMUTED),
    "phi3": Family("phi3", BLOCK | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, PLAIN),
    "command-r": Family("cohere", BLOCK, PLAIN, epsilon="layer_norm_eps"),
    "cohere2": Family("cohere2", BLOCK, PLAIN, epsilon="layer_norm_eps"),
    "starcoder2": Family("starcoder2", _STARCODER2, PLAIN, epsilon="norm_epsilon"),
    "codeshell": Family("starcoder2", _STARCODER2, PLAIN, epsilon="norm_epsilon"),
    "nemotron": Family("nemotron", BLOCK, PLAIN, norms_plus_one=True, epsilon="norm_eps"),
    "stablelm": Family("stablelm", BLOCK, PLAIN, epsilon="layer_norm_eps"),
    "internlm2": Family("llama", BLOCK, PERMUTED),
    "xverse": Family("llama", BLOCK, PERMUTED),
    "baichuan": Family("llama", BLOCK, PERMUTED),
    "exaone": Family("llama", BLOCK, PLAIN),
    "pangu-embedded": Family("llama", BLOCK, PLAIN),
    "paddleocr": Family("llama", BLOCK, PLAIN),  # its text alone, as of others that read pictures
    "qwen": Family("qwen2", BLOCK, PLAIN),
    "jais2": Family("jais2", BLOCK, PLAIN, epsilon="layer_norm_eps"),
    "orion": Family("stablelm", BLOCK, PLAIN, epsilon="layer_norm_eps"),
    "minicpm": Family("granite", BLOCK, PERMUTED),
    "chatglm": Family("glm", BLOCK | {"ffn_up": "mlp.gate_up_proj"}, PLAIN),
    "phi2": Family(
        "phi",
        BLOCK | {"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"},
        PLAIN,
        epsilon="layer_norm_eps",
        outside=_OUTSIDE_PHI2,
    ),
    "gpt2": Family(
        "gpt2",
        _GPT2,
        dict.fromkeys(("attn_qkv", "attn_output", "ffn_up", "ffn_down"), "turned"),
        epsilon="layer_norm_epsilon",
        layers="transformer.h",
        outside=_OUTSIDE_GPT2,
    ),
    "starcoder": Family(
        "gpt_bigcode", _GPT2, PLAIN, epsilon="layer_norm_epsilon", layers="transformer.h", outside=_OUTSIDE_GPT2
    ),
    "gptneox": Family(
        "gpt_neox",
        _NEOX,
        {"attn_qkv": "by kind"},
        epsilon="layer_norm_eps",
        layers="gpt_neox.layers",
        outside=_OUTSIDE_NEOX,
    ),
    "bloom": Family(
        "bloom",
        _BLOOM,
        {"attn_qkv": "by kind"},
        epsilon="layer_norm_epsilon",
        layers="transformer.h",
        outside=_OUTSIDE_BLOOM,
        turns=False,
    ),
    "mpt": Family(
        "mpt",
        _MPT,
        PLAIN,
        epsilon="layer_norm_epsilon",
        layers="transformer.blocks",
        outside=_OUTSIDE_MPT,
        turns=False,
    ),
    "apertus": Family(
        "apertus", BLOCK | {"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}, PLAIN
    ),
    "falcon": Family(
        "falcon",
        _FALCON,
        {"attn_qkv": "by groups"},
        epsilon="layer_norm_epsilon",
        layers="transformer.h",
        outside=_OUTSIDE_FALCON,
    ),
    "muse-glimmer": Family(
        "muse_glimmer_text",
        _GEMMA | {"attn_gate": "self_attn.gate_proj"},
        {**PERMUTED, "output_norm": ""},
        norms_plus_one=True,
        apart=frozenset({"attn_q_norm", "attn_k_norm"}),  # the same number for all, which config.json has
    ),
    "bitnet": Family(
        "bitnet", BLOCK | {"attn_sub_norm": "self_attn.attn_sub_norm", "ffn_sub_norm": "mlp.ffn_sub_norm"}, PLAIN
    ),
    "chameleon": Family("chameleon", BLOCK, {**PERMUTED, "attn_q_norm": "pairs", "attn_k_norm": "pairs"}),
    "minicpm3": Family("minicpm3", BLOCK | LATENTS, PLAIN),
    "olmo": Family("olmo", ATTENTION | MLP, PERMUTED, epsilon="layer_norm_eps"),
}
"""By `general.architecture`."""
FALCON_OF_TWO_NORMS = replace(DENSE["falcon"], names=_FALCON | {"attn_norm": "ln_mlp", "attn_norm_2": "ln_attn"})
"""Of 40B and 180B, whose layers norm what attention reads and what follows it reads, each in its own way."""
