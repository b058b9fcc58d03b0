"""Tiny models as Ollama's own converter (convert/*.go) writes them: one file with what reads pictures and sound."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import torch
from torch import Tensor

from tests.engine.gguf_families import by_kind, permuted, rope_of

Entries = dict[str, Any]
Named = Iterator[tuple[str, Tensor]]

BASE = {
    "model.layers.": "blk.", "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
USUAL = {**BASE, "post_attention_layernorm": "ffn_norm"}
GEMMA = {
    **BASE, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
GEMMA3N = {
    "model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm", "altup.": "altup_",
    "modality_router": "router", "prediction_coefs": "predict_coef", "correction_coefs": "correct_coef",
    "correct_output_scale": "correct_scale.weight", "laurel.": "laurel_", "linear_left": "l", "linear_right": "r",
    "post_laurel_norm": "post_norm", "model.altup_projections": "altup_proj",
    "model.altup_unembed_projections": "altup_unembd_proj", **GEMMA,
}  # fmt: skip
GEMMA4 = {
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2", "layer_scalar": "layer_output_scale.weight",
    "router.proj": "ffn_gate_inp", "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_gate_inp.per_expert_scale", "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight", **{key: GEMMA3N[key] for key in (*GEMMA3N,)[:6]}, **GEMMA,
}  # fmt: skip
GPT_OSS = {
    "self_attn.o_proj": "attn_out", "self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_up_proj_bias": "ffn_gate_up_exps.bias", "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias", "mlp.experts.down_proj": "ffn_down_exps.weight", **USUAL,
}  # fmt: skip
EXPERTS = {
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "mlp.experts.down_proj": "ffn_down_exps.weight",
}  # fmt: skip
QWEN35 = {
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta", "linear_attn.conv1d": "ssm_conv1d", "linear_attn.dt_bias": "ssm_dt",
    "linear_attn.A_log": "ssm_a", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
    "post_attention_layernorm": "post_attention_norm", **EXPERTS, **BASE,
}  # fmt: skip
QWEN3_NEXT = {"linear_attn.in_proj_qkvz": "ssm_in", "linear_attn.in_proj_ba": "ssm_ba", **QWEN35}
DEEPSEEK = {
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias", **EXPERTS, **USUAL,
}  # fmt: skip
NEMOTRON = {
    "model.embeddings": "token_embd", "model.norm_f": "output_norm", "mixer.in_proj": "ssm_in",
    "mixer.out_proj": "ssm_out", "mixer.dt_bias": "ssm_dt.bias", "mixer.A_log": "ssm_a", "mixer.D": "ssm_d",
    "mixer.conv1d": "ssm_conv1d", "mixer.norm.weight": "ssm_norm.weight", "mixer.q_proj": "attn_q",
    "mixer.k_proj": "attn_k", "mixer.v_proj": "attn_v", "mixer.o_proj": "attn_output",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias", "mixer.gate": "ffn_gate_inp",
    "mixer.fc1_latent_proj": "ffn_latent_in", "mixer.fc2_latent_proj": "ffn_latent_out",
    "mixer.shared_experts.up_proj": "ffn_up_shexp", "mixer.shared_experts.down_proj": "ffn_down_shexp",
    "mixer.experts.up_proj": "ffn_up_exps.weight", "mixer.experts.down_proj": "ffn_down_exps.weight",
    ".norm.weight": ".attn_norm.weight", **BASE,
}  # fmt: skip
LFM2 = {
    "model.embedding_norm": "output_norm", "operator_norm": "attn_norm", "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj", "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up", **BASE,
}  # fmt: skip
OLMO3 = {
    **BASE, "post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
LLAMA4 = {
    "feed_forward.router": "ffn_gate_inp", "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp",
    "feed_forward.shared_expert.up_proj": "ffn_up_shexp", "feed_forward.shared_expert.down_proj": "ffn_down_shexp",
    "feed_forward.experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "feed_forward.experts.down_proj": "ffn_down_exps.weight", "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down", **USUAL,
}  # fmt: skip


def pictures(*more: str) -> dict[str, Tensor]:
    """What reads pictures, and tensors of `more` names: their numbers are nothing to a language model."""
    names = (
        "v.blk.0.attn_q.weight", "v.blk.0.attn_q.bias", "v.blk.0.ffn_up.bias", "v.blk.0.attn_norm.weight",
        "v.patch_embd.weight", "v.position_embd.weight", "mm.input_projection.weight", "mm.norm.weight", *more,
    )  # fmt: skip
    shapes = {"weight": (16, 3, 2, 2), "bias": (16,)}
    return {name: torch.ones(shapes.get(name.rpartition(".")[2], (1,))) for name in names}


SOUND = ("a.conv1d.0.weight", "a.blk.0.ffn_up.bias", "mm.a.fc.weight", "v.clamp_data", "model.vision_tower.std_bias")


def write_ollama(path: Path, architecture: str, entries: Entries, tensors: Mapping[str, Tensor]) -> Path:
    """A file of these entries, of which those of the network have no prefix, and of these tensors in 32 bits."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in entries.items():
        own = key if key.startswith(("general.", "tokenizer.")) else f"{architecture}.{key}"
        if isinstance(value, bool):
            writer.add_bool(own, value)
        elif isinstance(value, int):
            writer.add_uint32(own, value)
        elif isinstance(value, float):
            writer.add_float32(own, value)
        elif isinstance(value, str):
            writer.add_string(own, value)
        else:
            writer.add_array(own, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor.float().contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def converted(model: Any, names: Mapping[str, str], change: Callable[[str, Tensor, Any], Named]) -> dict[str, Tensor]:
    """The weights of a model by their names in the file, each as `change` has it."""
    config = model.config
    found: dict[str, Tensor] = {}
    for own, tensor in model.state_dict().items():
        if own == "lm_head.weight" and config.tie_word_embeddings:
            continue
        name = own
        for part, called in names.items():
            name = name.replace(part, called)
        found |= dict(change(name, tensor, config))
    return found


def unchanged(name: str, tensor: Tensor, _config: Any) -> Named:
    """As it is."""
    yield name, tensor


def plus_one(name: str, tensor: Tensor, _config: Any) -> Named:
    """Norms as Gemma 2 and 3 have them."""
    yield name, tensor + 1 if name.endswith("_norm.weight") else tensor


def woven_heads(name: str, tensor: Tensor, config: Any) -> Named:
    """Queries and keys as Mistral has them."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    kind = name.removesuffix(".weight").rpartition(".")[2]
    yield name, permuted(tensor, heads[kind]) if kind in heads else tensor


def halves(name: str, tensor: Tensor, _config: Any) -> Named:
    """Gates and ups by themselves, of experts whose matrices are as in the file."""
    if "gate_up_exps" in name:
        for kind, part in zip(("gate", "up"), tensor.chunk(2, 1), strict=True):
            yield name.replace("gate_up", kind), part
    else:
        yield name, tensor


def turned_halves(name: str, tensor: Tensor, config: Any) -> Named:
    """The same, of experts whose matrices are turned in the network."""
    yield from halves(name, tensor.mT if name.endswith("_exps.weight") else tensor, config)


def woven(name: str, tensor: Tensor, config: Any) -> Named:
    """Gates and ups by themselves, which alternate in the network: as OpenAI's models are now."""
    if "gate_up_exps" in name:
        rows = tensor.mT if name.endswith("weight") else tensor
        for kind, begin in (("gate", 0), ("up", 1)):
            yield name.replace("gate_up", kind), rows[:, begin::2]
    else:
        yield name, tensor.mT if name.endswith("_exps.weight") else tensor


def still_woven(name: str, tensor: Tensor, _config: Any) -> Named:
    """Alternating as in the network: the first files of OpenAI's models."""
    yield name, tensor.mT if name.endswith("_exps.weight") else tensor


def fused(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """With queries, keys and values of a layer as one."""
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        block, _, kind = name.rpartition(".")
        is_part = block.rpartition(".")[2] in ("attn_q", "attn_k", "attn_v")
        parts.setdefault(f"{block.rpartition('.')[0]}.attn_qkv.{kind}" if is_part else name, []).append(tensor)
    return {name: torch.cat(found) for name, found in parts.items()}


def stacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """With the projections of AltUp, which are several matrices in the network, as one."""
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in tensors.items():
        stem, _, index = name.removesuffix(".weight").rpartition(".")
        parts.setdefault(f"{stem}.weight" if stem.startswith("altup_") and index.isdigit() else name, []).append(tensor)
    return {name: found[0] if len(found) == 1 else torch.stack(found) for name, found in parts.items()}


def tiled(name: str, tensor: Tensor, config: Any) -> Named:
    """Layers of Qwen 3.5 that keep a state: the first value heads of all key heads before the second ones."""
    kind = name.split(".", 2)[-1] if name.startswith("blk.") else ""
    keys, width = config.linear_num_key_heads, config.linear_key_head_dim

    def reordered(rows: Tensor) -> Tensor:
        own = rows.view(keys, config.linear_num_value_heads // keys, -1, *rows.shape[1:])
        return own.transpose(0, 1).reshape(rows.shape)

    if kind in ("ssm_a", "ssm_dt", "ssm_alpha.weight", "ssm_beta.weight", "attn_gate.weight"):
        yield name, reordered(-tensor.exp() if kind == "ssm_a" else tensor)
    elif kind in ("attn_qkv.weight", "ssm_conv1d.weight"):
        rows = tensor.reshape(len(tensor), -1)
        yield name, torch.cat((rows[: 2 * keys * width], reordered(rows[2 * keys * width :])))
    elif kind == "ssm_out.weight":
        yield name, reordered(tensor.mT.contiguous()).mT
    elif kind == "ssm_norm.weight":
        yield name, tensor
    else:
        yield from plus_one(name, tensor, config) if name.endswith("_norm.weight") else halves(name, tensor, config)


def by_key_heads(name: str, tensor: Tensor, config: Any) -> Named:
    """Layers of Qwen3-Next that keep a state: each kind for all heads, and values beside their keys."""
    if name.endswith(".ssm_in.weight"):
        yield from by_kind(name.removesuffix("ssm_in.weight"), tensor, config)
    elif name.endswith(".ssm_a"):
        yield name, -tensor.exp()
    elif name.endswith(".ssm_conv1d.weight"):
        yield name, tensor.squeeze(1)
    elif name.endswith(".ssm_norm.weight"):
        yield name, tensor
    else:
        yield from plus_one(name, tensor, config) if name.endswith("_norm.weight") else halves(name, tensor, config)


def parted(name: str, tensor: Tensor, config: Any) -> Named:
    """What makes keys and values of latents, each by itself; experts as usual."""
    if not name.endswith(".attn_kv_b.weight"):
        yield from halves(name, tensor, config)
        return
    heads = tensor.view(config.num_attention_heads, -1, tensor.shape[-1])
    yield name.replace("attn_kv_b", "attn_k_b"), heads[:, : config.qk_nope_head_dim].mT
    yield name.replace("attn_kv_b", "attn_v_b"), heads[:, config.qk_nope_head_dim :]


def mamba(name: str, tensor: Tensor, config: Any) -> Named:
    """Layers of Nemotron that keep a state."""
    if name.endswith((".ssm_a", ".ssm_d")):
        yield name, (-tensor.exp() if name.endswith("_a") else tensor).unsqueeze(1)
    elif name.endswith(".ssm_norm.weight"):
        yield name, tensor.view(config.n_groups, -1)
    else:
        yield name, tensor.squeeze(1) if name.endswith((".ssm_conv1d.weight", ".conv.weight")) else tensor


def text(config: Any) -> Entries:
    """What most networks are said to have."""
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    return {
        "block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size,
        "attention.head_count": heads, "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": width, "attention.value_length": width,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": float(rope_of(config).get("rope_theta", 0.0)),
    }  # fmt: skip


VISION: Entries = {"vision.block_count": 1, "vision.attention.head_count": 4, "vision.patch_size": 2}


def gpt_oss(config: Any) -> Entries:
    rope = config.rope_parameters
    return {
        **text(config), "expert_count": config.num_local_experts, "expert_used_count": config.num_experts_per_tok,
        "attention.sliding_window": config.sliding_window, "rope.scaling.factor": float(rope["factor"]),
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }  # fmt: skip


def gemma3(config: Any) -> Entries:
    """A model that reads pictures: of the language model's bases, scale and epsilon nothing is said."""
    said = text(config)
    for left_out in ("rope.freq_base", "attention.layer_norm_rms_epsilon"):
        del said[left_out]
    return {**said, **VISION, "attention.sliding_window": config.sliding_window, "mm.tokens_per_image": 4}


def gemma3_text(config: Any) -> Entries:
    bases = {kind: rope["rope_theta"] for kind, rope in config.rope_parameters.items()}
    return {
        **text(config), "attention.sliding_window": config.sliding_window, "final_logit_softcapping": 30.0,
        "rope.local.freq_base": bases["sliding_attention"], "rope.global.freq_base": bases["full_attention"],
        "rope.freq_base": None,
    }  # fmt: skip


def _windows(config: Any) -> Entries:
    return {
        "attention.sliding_window": config.sliding_window,
        "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in config.layer_types],
        "attention.shared_kv_layers": config.num_kv_shared_layers,
        "embedding_length_per_layer_input": config.hidden_size_per_layer_input,
    }


def gemma3n(config: Any) -> Entries:
    said = {key: value for key, value in text(config).items() if "_length" not in key or "attention" not in key}
    sparse = torch.tensor(config.activation_sparsity_pattern)
    return {
        **said, **_windows(config), "head_dim": config.head_dim, "feed_forward_length": config.intermediate_size[0],
        "activation_sparsity_scale": torch.special.ndtri(sparse).tolist(), "altup.correct_scale": True,
        "altup.active_idx": config.altup_active_idx, "altup.num_inputs": config.altup_num_inputs,
        "rope.freq_base_local": config.rope_parameters["sliding_attention"]["rope_theta"],
        "rope.freq_base": config.rope_parameters["full_attention"]["rope_theta"],
    }  # fmt: skip


def gemma4(config: Any) -> Entries:
    full = config.layer_types.index("full_attention")
    whole, narrow = config.per_layer_config[full], config.per_layer_config[1 - full]
    kinds = [config.per_layer_config[index].num_key_value_heads for index in range(config.num_hidden_layers)]
    experts = {
        "expert_count": config.num_experts, "expert_used_count": config.top_k_experts,
        "expert_feed_forward_length": config.moe_intermediate_size,
    }  # fmt: skip
    return {
        **text(whole), **_windows(config), **VISION, "block_count": config.num_hidden_layers, "audio.block_count": 1,
        "attention.head_count_kv": kinds, "attention.key_length": whole.head_dim,
        "attention.value_length": whole.head_dim, "attention.key_length_swa": narrow.head_dim,
        "attention.value_length_swa": narrow.head_dim, "rope.dimension_count": whole.head_dim,
        "rope.dimension_count_swa": narrow.head_dim, "final_logit_softcapping": config.final_logit_softcapping,
        "rope.freq_base": config.rope_parameters["full_attention"]["rope_theta"],
        "rope.freq_base_swa": config.rope_parameters["sliding_attention"]["rope_theta"],
        **(experts if config.enable_moe_block else {}),
    }  # fmt: skip


def frequencies(config: Any) -> dict[str, Tensor]:
    """By which those of Gemma 4 are divided."""
    full = config.layer_types.index("full_attention")
    pairs = config.per_layer_config[full].head_dim // 2
    turning = int(pairs * config.rope_parameters["full_attention"]["partial_rotary_factor"])
    return {"rope_freqs.weight": torch.tensor([1.0] * turning + [1e30] * (pairs - turning))}


def qwen_vl(config: Any) -> Entries:
    said = text(config)
    if config.model_type == "qwen2":
        said = {key: value for key, value in said.items() if key not in ("attention.key_length", "value_length")}
        return {**said, **VISION, "rope.mrope_section": [3, 3, 2]}
    if experts := getattr(config, "num_experts", 0):
        said |= {"expert_count": experts, "expert_used_count": config.num_experts_per_tok, "norm_top_k_prob": True}
    return {**said, **VISION, "vision.deepstack_visual_indexes": [0]}


def qwen35(config: Any) -> Entries:
    rope, kinds = config.rope_parameters, config.layer_types
    said = {
        **text(config), **VISION, "full_attention_interval": 2, "image_token_id": 5,
        "attention.head_count_kv": [config.num_key_value_heads * (kind == "full_attention") for kind in kinds],
        "rope.dimension_count": int(config.head_dim * rope["partial_rotary_factor"]),
        "mrope_sections": rope["mrope_section"], "rope.mrope_section": rope["mrope_section"],
        "rope.dimension_sections": rope["mrope_section"], "rope.mrope_interleaved": True,
        "ssm.inner_size": config.linear_value_head_dim * config.linear_num_value_heads,
        "ssm.state_size": config.linear_key_head_dim, "ssm.group_count": config.linear_num_key_heads,
        "ssm.time_step_rank": config.linear_num_value_heads, "ssm.conv_kernel": config.linear_conv_kernel_dim,
        "ssm.v_head_reordered": True,
    }  # fmt: skip
    if experts := getattr(config, "num_experts", 0):
        said |= {
            "expert_count": experts, "expert_used_count": config.num_experts_per_tok, "norm_top_k_prob": True,
            "expert_feed_forward_length": config.moe_intermediate_size, "feed_forward_length": 0,
            "expert_shared_feed_forward_length": config.shared_expert_intermediate_size,
        }  # fmt: skip
    return said


def mistral3(config: Any) -> Entries:
    said = {**text(config), **VISION, "vocab_size": config.vocab_size, "rope.dimension_count": config.head_dim}
    rope = config.rope_parameters
    if rope["rope_type"] != "yarn":
        return {**said, "rope.scaling.type": "", "rope.scaling.factor": 0.0}
    return {
        **said, "rope.scaling.type": "yarn", "rope.scaling.factor": rope["factor"],
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        "rope.scaling.beta_fast": 32.0, "rope.scaling.beta_slow": 1.0, "rope.scaling.mscale": rope["mscale"],
        "rope.scaling.mscale_all_dim": rope["mscale_all_dim"], "rope.scaling_beta": rope["llama_4_scaling_beta"],
    }  # fmt: skip


def llama4(config: Any) -> Entries:
    return {
        **text(config), **VISION, "feed_forward_length": config.intermediate_size_mlp, "attention.head_dim": 16,
        "expert_feed_forward_length": config.intermediate_size, "expert_count": config.num_local_experts,
        "expert_used_count": config.num_experts_per_tok, "use_qk_norm": config.use_qk_norm,
        "interleave_moe_layer_step": config.interleave_moe_layer_step, "rope.dimension_count": config.head_dim,
        "attention.chunk_size": config.attention_chunk_size,
    }  # fmt: skip


def qwen3next(config: Any) -> Entries:
    own = (*VISION, "mrope_sections", "rope.mrope_section", "rope.dimension_sections", "rope.mrope_interleaved")
    rope = {**config.rope_parameters, "mrope_section": [1]}
    said = qwen35(_With(config, rope_parameters=rope))
    return {key: value for key, value in said.items() if key not in (*own, "ssm.v_head_reordered", "image_token_id")}


class _With:
    """A config with other values for some of its own."""

    def __init__(self, config: Any, **own: Any) -> None:
        self.__dict__.update({**config.to_dict(), **own})


def deepseek(config: Any) -> Entries:
    """GLM 4.7 Flash, as a network of its own kind."""
    turned, latents = config.qk_rope_head_dim, config.kv_lora_rank
    return {
        **text(config), "attention.q_lora_rank": config.q_lora_rank, "attention.kv_lora_rank": latents,
        "attention.key_length": config.qk_nope_head_dim + turned, "attention.value_length": config.v_head_dim,
        "attention.key_length_mla": latents + turned, "attention.value_length_mla": latents,
        "rope.dimension_count": turned, "expert_count": config.n_routed_experts, "expert_gating_func": 2,
        "expert_used_count": config.num_experts_per_tok, "expert_feed_forward_length": config.moe_intermediate_size,
        "expert_shared_count": config.n_shared_experts, "expert_weights_norm": config.norm_topk_prob,
        "expert_weights_scale": config.routed_scaling_factor, "leading_dense_block_count": 1,
    }  # fmt: skip


def deepseekocr(config: Any) -> Entries:
    left_out = ("attention.layer_norm_rms_epsilon", "attention.key_length", "attention.value_length", "rope.freq_base")
    return {
        **{key: value for key, value in text(config).items() if key not in left_out}, **VISION, "sam.block_count": 1,
        "expert_count": config.n_routed_experts, "expert_used_count": config.num_experts_per_tok,
        "leading_dense_block_count": config.mlp_layer_types.index("sparse"),
    }  # fmt: skip


def nemotron(config: Any) -> Entries:
    kinds, epsilon = config.layers_block_type, config.layer_norm_epsilon
    heads = [config.num_key_value_heads * (kind == "full_attention") for kind in kinds]
    return {
        "block_count": len(kinds), "context_length": config.max_position_embeddings, "audio.block_count": 1, **VISION,
        "embedding_length": config.hidden_size, "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": heads, "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim, "attention.layer_norm_epsilon": epsilon,
        "attention.layer_norm_rms_epsilon": epsilon, "rope.freq_base": 10_000.0,
        "feed_forward_length": [config.moe_intermediate_size * (kind == "moe") for kind in kinds],
        "ssm.conv_kernel": config.conv_kernel, "ssm.inner_size": config.mamba_num_heads * config.mamba_head_dim,
        "ssm.state_size": config.ssm_state_size, "ssm.group_count": config.n_groups,
        "ssm.time_step_rank": config.mamba_num_heads, "expert_count": config.n_routed_experts,
        "expert_used_count": config.num_experts_per_tok, "expert_feed_forward_length": config.moe_intermediate_size,
        "expert_shared_count": 1, "expert_weights_norm": config.norm_topk_prob,
        "expert_shared_feed_forward_length": config.moe_shared_expert_intermediate_size,
        "expert_weights_scale": float(config.routed_scaling_factor),
    }  # fmt: skip


def lfm2(config: Any) -> Entries:
    """The width is that of the config, of which the network takes two thirds, and a multiple of them."""
    heads = [config.num_key_value_heads * (kind == "full_attention") for kind in config.layer_types]
    said = text(_With(config, rms_norm_eps=config.norm_eps))
    return {**said, "attention.head_count_kv": heads, "shortconv.l_cache": config.conv_L_cache,
            "feed_forward_length": 2 * config.intermediate_size}  # fmt: skip


def crossed(name: str, tensor: Tensor, config: Any) -> Named:
    """Llama 3.2, where some layers attend to a picture."""
    yield from woven_heads(name.replace("cross_attn.", "cross_attn_"), tensor, config)


def mllama(config: Any) -> Entries:
    return {
        **text(config), **VISION, "attention.cross_attention_layers": list(config.cross_attention_layers),
        "rope.dimension_count": config.hidden_size // config.num_attention_heads, "vocab_size": config.vocab_size,
    }  # fmt: skip


def olmo3(config: Any) -> Entries:
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    return {
        **text(config), "attention.sliding_window": config.sliding_window,
        "attention.sliding_window_pattern": slides,
    }  # fmt: skip
