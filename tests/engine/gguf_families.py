"""What llama.cpp's converter (conversion/*.py) does to the weights of single networks."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.engine.gguf_states import BY_LAYER, MIXING, of_state

Named = tuple[str, Tensor]
ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
    "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3",
    "gpt_oss": "gpt-oss", "phi3": "phi3", "olmo2": "olmo2", "olmo3": "olmo2", "ministral3": "mistral3",
    "gemma4_text": "gemma4", "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2", "glm4_moe_lite": "deepseek2",
    "youtu": "deepseek2", "glm4": "glm4", "glm4_moe": "glm4moe", "llama4_text": "llama4", "seed_oss": "seed_oss",
    "cohere": "command-r", "cohere2": "cohere2", "starcoder2": "starcoder2", "exaone4": "exaone4",
    "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe", "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe", "smollm3": "smollm3", "granite": "granite", "granitemoe": "granitemoe",
    "granitemoeshared": "granitemoe", "nemotron": "nemotron", "stablelm": "stablelm", "dots1": "dots1",
    "minimax_m2": "minimax-m2", "olmoe": "olmoe", "arcee": "arcee", "qwen3_5_text": "qwen35",
    "qwen3_5_moe_text": "qwen35moe", "qwen3_next": "qwen3next", "glm": "chatglm", "gemma3n_text": "gemma3n",
    "phi": "phi2", "gpt2": "gpt2", "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox", "apertus": "apertus", "hy_v3": "hy_v3", "mimo_v2_flash": "mimo2",
    "deepseek_v32": "deepseek32", "jais2": "jais2", "laguna": "laguna", "muse_glimmer_text": "muse-glimmer",
    "granite_swa": "granite_swa", "granitemoe_swa": "granite_swa", "deepseek_ocr2_text": "deepseek2-ocr",
    "glm_moe_dsa": "glm-dsa", "mistral4": "mistral4",
    "olmo": "olmo", "exaone_moe": "exaone-moe", "afmoe": "afmoe", "cohere2_moe": "cohere2moe", "mellum": "mellum",
    "solar_open": "glm4moe", "internlm3": "llama",
    "lfm2": "lfm2", "lfm2_moe": "lfm2moe",
    "granitemoehybrid": "granitehybrid", "falcon_h1": "falcon-h1", "nemotron_h": "nemotron_h",
    "step3p5": "step35", "falcon": "falcon", "phimoe": "phimoe", "minicpm3": "minicpm3", "bamba": "granitehybrid",
    "qwen4_exp_text": "qwen4exp", "bailing_hybrid": "bailingmoe3", "dbrx": "dbrx",
    "jamba": "jamba", "mamba": "mamba", "falcon_mamba": "mamba", "mamba2": "mamba2", "kimi_linear": "kimi-linear",
    "minimax": "minimax-01", "bitnet": "bitnet", "chameleon": "chameleon", "bloom": "bloom", "mpt": "mpt",
    "deepseek_v4": "deepseek4", "minimax_m3_vl_text": "minimax-m3", "glm5_next_text": "glm5-next", "hy_v4": "hy_v4",
    "dots3_note_text": "dots3note",
}  # fmt: skip
PERMUTED = {
    "llama", "mistral3", "granite", "granitemoe", "smollm3", "arcee", "internlm2", "minicpm", "olmo", "granitehybrid",
    "nemotron_h", "nemotron_h_moe", "xverse", "baichuan", "bailingmoe", "deepseek",
    "maincoder", "muse-glimmer", "granite_swa", "chameleon",
}  # fmt: skip
PLUS_ONE = {
    "gemma",
    "gemma2",
    "gemma3",
    "nemotron",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "step35",
    "muse-glimmer",
    "qwen4exp",
    "minimax-m3",
}
LATENT = {
    "bailingmoe3",
    "deepseek2",
    "dots3note",
    "deepseek32",
    "glm-dsa",
    "glm5-next",
    "hy_v4",
    "kimi-linear",
    "mistral4",
}
FUSED = {"chatglm", "qwen", "codeshell", "bailingmoe2"}
ATTENDING = ("full_attention", "indexed_attention")
# Parameters that gguf's own table of names does not have.
ALONE = {
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
    "self_attn.sinks": "attn_sinks.weight",
    "self_attn.gate_proj.weight": "attn_gate.weight",
    "layer_scalar": "layer_output_scale.weight",
    "self_attn.attn_sub_norm.weight": "attn_sub_norm.weight",
    "mlp.ffn_sub_norm.weight": "ffn_sub_norm.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "block_sparse_moe.router.weight": "ffn_gate_inp.weight",
    "mlp.expert_bias": "exp_probs_b.bias",
    "altup.correct_output_scale": "altup_correct_scale.weight",
    "feed_forward.expert_bias": "exp_probs_b.bias",
    "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
}


def architecture_of(config: Any) -> str:
    """What the converter calls this network."""
    found = ARCHITECTURES[config.model_type]
    return f"{found}_moe" if found == "nemotron_h" and "moe" in config.layer_types else found


def changed(own: str, tensor: Tensor, config: Any, architecture: str) -> Iterator[Named]:
    """What the converter makes of a weight, under names that the package's table knows, or final ones."""
    if architecture in MIXING:
        own, tensor = of_state(own, tensor, config, architecture)
    inside = own.removeprefix("model.layers.").removeprefix("backbone.layers.")
    block, _, name = inside.partition(".")
    prefix = f"blk.{block}." if inside != own else ""
    if name.startswith("linear_attn."):
        tensor = _tiled(name, tensor, config, 1 if architecture == "qwen3next" else 0)
    if name == "linear_attn.in_proj_qkvz.weight":
        yield from by_kind(prefix, tensor, config)
    elif prefix and ".experts." in f".{name}":
        yield from _experts(prefix, name, tensor, architecture)
    elif prefix and name in ALONE:
        yield prefix + ALONE[name].removesuffix(".bias" if architecture == "hy_v3" else ""), tensor
    elif architecture in LATENT and name in ("self_attn.conv1d.weight", "self_attn.kv_b_proj.weight"):
        yield from _parted(prefix, name, tensor, config)
    elif architecture in FUSED and name.startswith(("self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj.")):
        yield f"{prefix}attn_{name[10]}.{name.rpartition('.')[2]}", tensor
    elif name.startswith("shared_mlp."):
        yield from _shared(prefix, name, tensor, config, architecture)
    elif architecture in PERMUTED and (".q_proj." in name or ".k_proj." in name):
        heads = config.num_attention_heads if ".q_proj" in name else config.num_key_value_heads
        yield own, permuted(tensor, heads)
    elif architecture == "maincoder" and name.endswith(("query_layernorm.weight", "key_layernorm.weight")):
        yield own, permuted(tensor, 1)
    elif is_plus_one(architecture, own):
        yield own, tensor.float() + 1
    else:
        yield own, _laid_out(own, tensor, config, architecture)


def _shared(prefix: str, name: str, tensor: Tensor, config: Any, architecture: str) -> Iterator[Named]:
    """What every token passes in a Granite, which is all of it where there are no experts."""
    ending = "_shexp.weight" if config.num_local_experts else ".weight"
    kinds = ("down",) if "output" in name else ("up",) if architecture == "granite_swa" else ("gate", "up")
    yield from zip((f"{prefix}ffn_{kind}{ending}" for kind in kinds), tensor.chunk(len(kinds)), strict=True)


def _laid_out(own: str, tensor: Tensor, config: Any, architecture: str) -> Tensor:
    """The same numbers in another order, or with fewer dimensions."""
    if architecture == "chameleon" and (".q_norm." in own or ".k_norm." in own):
        return permuted(tensor.T, 1).T.contiguous()
    if architecture == "gpt2" and own.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return tensor.t().contiguous()
    if architecture in ("gptneox", "bloom") and ".query_key_value." in own:
        heads = tensor.view(config.num_attention_heads, 3, -1, *tensor.shape[1:])
        return heads.transpose(0, 1).reshape(tensor.shape)
    if architecture == "falcon" and ".query_key_value." in own:
        groups = tensor.view(config.num_key_value_heads, -1, config.head_dim, tensor.shape[1])
        return torch.cat([part.reshape(-1, tensor.shape[1]) for part in (groups[:, :-2], groups[:, -2], groups[:, -1])])
    return tensor[0] if own.endswith("shared_expert_gate.weight") else tensor


def is_plus_one(architecture: str, own: str) -> bool:
    """Whether 1 is added to a weight."""
    if architecture == "muse-glimmer" and own == "model.norm.weight":
        return False
    return architecture in PLUS_ONE and own.endswith("norm.weight") and not own.endswith("linear_attn.norm.weight")


def of_dbrx(own: str, tensor: Tensor, config: Any) -> Iterator[Named]:
    """Experts, which lie behind each other there, as stacks."""
    block, name = own.removeprefix("transformer.blocks.").split(".", 1)
    kind = {"ffn.experts.mlp.w1": "gate", "ffn.experts.mlp.v1": "up", "ffn.experts.mlp.w2": "down"}.get(name)
    if not kind:
        yield own, tensor
        return
    stack = tensor.view(config.ffn_config.moe_num_experts, -1, tensor.shape[1])
    yield f"blk.{block}.ffn_{kind}_exps.weight", (stack.mT if kind == "down" else stack).contiguous()


def of_bloom(own: str, tensor: Tensor, config: Any) -> Iterator[Named]:
    """By the names of its checkpoints, with queries, keys and values of all heads apart."""
    own = own.removeprefix("transformer.")
    name = own.replace("word_embeddings_layernorm", "token_embd_norm")
    yield name, _laid_out(own, tensor, config, "bloom")


def _parted(prefix: str, name: str, tensor: Tensor, config: Any) -> Iterator[Named]:
    """What latents become keys and values by, and the convolution of queries, keys and values."""
    if name == "self_attn.conv1d.weight":
        for part, kind in zip(tensor.chunk(3), "qkv", strict=True):
            yield f"{prefix}ssm_conv1d_{kind}.weight", part.unsqueeze(1).unsqueeze(0)
        return
    heads = tensor.view(config.num_attention_heads, -1, tensor.shape[-1])
    yield f"{prefix}attn_k_b.weight", heads[:, : config.qk_nope_head_dim].mT.contiguous()
    yield f"{prefix}attn_v_b.weight", heads[:, config.qk_nope_head_dim :].contiguous()


def by_kind(prefix: str, tensor: Tensor, config: Any) -> Iterator[Named]:
    """Queries, keys and values of Qwen3-Next, and what gates them, which lie key head by key head in its network."""
    heads = tensor.view(config.linear_num_key_heads, -1, tensor.shape[1])
    width = config.linear_key_head_dim
    begin = width + width
    middle = begin + (heads.shape[1] - begin) // 2
    parts = [heads[:, :width], heads[:, width:begin], heads[:, begin:middle]]
    yield f"{prefix}attn_qkv.weight", torch.cat([part.reshape(-1, tensor.shape[1]) for part in parts])
    yield f"{prefix}attn_gate.weight", heads[:, middle:].reshape(-1, tensor.shape[1])


def _tiled(name: str, tensor: Tensor, config: Any, count: int = 0) -> Tensor:
    """In layers with a state: the first value heads of all key heads before the second ones, and decays as used."""
    keys = config.linear_num_key_heads
    count = count or config.linear_num_value_heads // keys
    if name.endswith("out_proj.weight"):
        parts = tensor.view(len(tensor), keys, count, -1)
        return parts.transpose(1, 2).reshape(tensor.shape)
    if name.endswith(("norm.weight", "qkvz.weight", "ba.weight")):
        return tensor
    fused = name.endswith(("in_proj_qkv.weight", "conv1d.weight"))
    begin = 2 * keys * config.linear_key_head_dim if fused else 0
    rows = tensor.reshape(len(tensor), -1)
    values = rows[begin:].view(keys, count, -1, rows.shape[1]).transpose(0, 1).reshape(rows[begin:].shape)
    made = torch.cat([rows[:begin], values]).reshape(rows.shape if fused else tensor.shape)
    return -made.exp() if name.endswith("A_log") else made


def permuted(tensor: Tensor, heads: int) -> Tensor:
    """The rows of each head, whose halves turn together, woven."""
    return tensor.reshape(heads, 2, len(tensor) // heads // 2, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def turns_experts(architecture: str) -> bool:
    """Whether the matrices of its experts are turned in transformers."""
    return architecture in ("gpt-oss", "llama4")


def extras(config: Any, architecture: str) -> Iterator[Named]:
    """Tensors that are made of no weight, and those of layers that predict further tokens."""
    if not hasattr(config, "rope_parameters"):
        return
    if architecture == "gemma3n":  # keys and values of layers that use those of others
        for index in range(config.num_hidden_layers - config.num_kv_shared_layers, config.num_hidden_layers):
            yield f"blk.{index}.attn_k_norm.weight", torch.ones(config.head_dim)
            for part in "kv":
                shape = (config.num_key_value_heads * config.head_dim, config.hidden_size)
                yield f"blk.{index}.attn_{part}.weight", torch.ones(shape)
    if architecture == "gemma4":
        full = config.layer_types.index("full_attention")
        factor = config.rope_parameters["full_attention"]["partial_rotary_factor"]
        width = config.per_layer_config[full].head_dim
        turning = int(width * factor / 2)
        yield "rope_freqs.weight", torch.tensor([1.0] * turning + [1e30] * (width // 2 - turning))
    if rope_of(config).get("rope_type") == "longrope":
        for length in ("long", "short"):
            yield f"rope_factors_{length}.weight", torch.tensor(config.rope_parameters[f"{length}_factor"])
    for index in range(config.num_hidden_layers if architecture == "muse-glimmer" else 0):
        yield f"blk.{index}.attn_q_norm.weight", torch.full((config.head_dim,), config.qk_scale_factor)
        yield f"blk.{index}.attn_k_norm.weight", torch.ones(config.head_dim)
    if architecture == "step35" and rope_of(config)["rope_type"] == "llama3":
        yield "rope_freqs.weight", _factors(rope_of(config), config.head_dim)
    if predicting_layers(config, architecture):
        block = f"blk.{config.num_hidden_layers}."
        yield f"{block}attn_norm.weight", torch.ones(config.hidden_size)
        yield f"{block}nextn.eh_proj.weight", torch.ones(config.hidden_size, 2 * config.hidden_size)


def _factors(rope: dict[str, Any], width: int) -> Tensor:
    """By which Llama 3 divides the frequencies of so many dimensions."""
    waves = 2 * torch.pi * rope["rope_theta"] ** (torch.arange(0, width, 2).float() / width)
    low, high, factor = (rope[key] for key in ("low_freq_factor", "high_freq_factor", "factor"))
    smooth = ((rope["original_max_position_embeddings"] / waves - low) / (high - low)).clamp(0, 1)
    divided: Tensor = (1 - smooth) / factor + smooth
    return 1 / divided


def rope_of(config: Any) -> dict[str, Any]:
    """The rotary embedding of layers that see everything; empty without positions."""
    rope: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    return dict(next((rope[kind] for kind in ("full_attention", "main", "indexed_attention") if kind in rope), rope))


def predicting_layers(config: Any, architecture: str) -> int:
    """Layers behind the others that predict further tokens; llama.cpp wants more of such than stubs."""
    return min(1, getattr(config, "num_mtp_layers", 0)) if architecture == "glm4moe" else 0


def _experts(prefix: str, name: str, tensor: Tensor, architecture: str) -> Iterator[Named]:
    leaf = "bias" if name.endswith("bias") else "weight"
    if leaf == "weight" and turns_experts(architecture):
        tensor = tensor.mT
    if "down_proj" in name:
        yield f"{prefix}ffn_down_exps.{leaf}", tensor.contiguous()
    elif name.endswith(".up_proj"):
        yield f"{prefix}ffn_up_exps.{leaf}", tensor
    elif architecture in ("gemma4", "mistral4", "granite_swa"):
        yield f"{prefix}ffn_gate_up_exps.{leaf}", tensor
    else:
        parts = (tensor[:, 0::2], tensor[:, 1::2]) if architecture == "gpt-oss" else tensor.chunk(2, 1)
        for part, kind in zip(parts, ("gate", "up"), strict=True):
            yield f"{prefix}ffn_{kind}_exps.{leaf}", part.contiguous()


def query_heads(config: Any, architecture: str) -> int | list[int]:
    """For all layers, or for each."""
    if architecture == "laguna":
        return list(config.num_attention_heads_per_layer)
    if architecture not in ("step35", "dots3note"):
        return int(getattr(config, "num_attention_heads", 0))
    return [config.per_layer_config[index].num_attention_heads for index in range(config.num_hidden_layers)]


def key_value_heads(config: Any, architecture: str) -> int | list[int]:
    """For all layers, or for each: those that keep a state have none."""
    multi_query = getattr(config, "multi_query", False) and not getattr(config, "new_decoder_architecture", False)
    heads: Any = 1
    if architecture not in LATENT and not multi_query:
        heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", 0)
    return [heads * (kind in ATTENDING) for kind in config.layer_types] if architecture in BY_LAYER else heads


def widths(config: Any, architecture: str) -> int | list[int]:
    """Of what follows attention, for all layers, or for each."""
    if architecture in ("mamba", "mamba2"):
        return 0
    if not architecture.startswith("nemotron_h"):
        if architecture == "dbrx":
            return int(config.ffn_config.ffn_hidden_size)
        names = (
            "intermediate_size_mlp",
            "prefix_dense_intermediate_size",
            "dense_intermediate_size",
            "intermediate_size",
        )
        own = (getattr(config, name, None) for name in names)
        found: int = next(filter(None, own), 4 * config.hidden_size)
        return 2 * found if architecture == "qwen" else found
    width = config.moe_intermediate_size if architecture.endswith("moe") else config.intermediate_size
    return [width if kind in ("moe", "mlp") else 0 for kind in config.layer_types]
