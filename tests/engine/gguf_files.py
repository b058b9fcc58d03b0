"""GGUF files of transformers' models, as llama.cpp's converter would write them, with the `gguf` package's writer."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray
from torch import Tensor

from tests.engine.gguf_blocks import ENCODERS
from tests.engine.gguf_entries import describe
from tests.engine.gguf_families import (
    FUSED,
    LATENT,
    architecture_of,
    changed,
    extras,
    is_plus_one,
    key_value_heads,
    of_bloom,
    of_dbrx,
    predicting_layers,
    query_heads,
    rope_of,
    turns_experts,
    widths,
)
from tests.engine.gguf_indexed import of_deepseek4, of_dots3, of_glm5, of_hy4, of_minimax3
from tests.engine.gguf_states import DECAYS, of_bailing, of_minimax, of_qwen4

Array = NDArray[Any]
# Whose names are the same, of those that the package does not have.
ALIKE = {
    "hy_v3": "exaone-moe", "cohere2moe": "glm4moe", "mellum": "qwen3moe", "deepseek32": "glm-dsa", "laguna": "step35",
    "muse-glimmer": "gemma3", "granite_swa": "granitehybrid", "qwen4exp": "qwen35moe", "bailingmoe3": "kimi-linear",
    "deepseek4": "glm-dsa", "minimax-01": "minimax-m2", "minimax-m3": "exaone-moe", "glm5-next": "kimi-linear",
    "hy_v4": "glm-dsa", "dots3note": "glm-dsa",
}  # fmt: skip
# What the package's table does not know; empty for what is as in older networks.
NEWER = {
    "qwen4exp": of_qwen4, "bailingmoe3": of_bailing, "dbrx": of_dbrx, "bloom": of_bloom, "deepseek4": of_deepseek4,
    "hy_v4": of_hy4, "dots3note": of_dots3, "minimax-01": of_minimax, "minimax-m3": of_minimax3, "glm5-next": of_glm5,
}  # fmt: skip
FINAL = (
    "blk.",
    "output_hc_",
    "token_embd_norm.",
    "per_layer_token_embd.",
)  # with which names begin that are those of the file
XIELU = ("alpha_p", "alpha_n", "beta", "eps")
ALTUP = ("model.altup_projections.", "model.altup_unembed_projections.")
PLAIN = (  # also where they are no vectors
    "norm.weight", "bias", "gate_inp.weight", "conv1d.weight", "conv.weight", "conv1d_q.weight", "conv1d_k.weight",
    "conv1d_v.weight", "ssm_a", "A_log", "ssm_d",
)  # fmt: skip


def write_gguf(
    path: Path,
    model: Any,
    kind: str = "F32",
    tokenizer: Path | None = None,
    shards: int = 1,
    extra: Mapping[str, Tensor] = MappingProxyType({}),
    architecture: str = "",
    splitting: str = "smollm",
) -> Path:
    """Write a model of transformers, `extra` tensors, and the tokenizer of a folder; returns the (first) file's path.

    `kind` is that of matrices whose rows it fits: others are stored as Q8_0 or, like all vectors, in 32 bits.
    `architecture`, if it is not the usual one of the model's kind. `splitting`: what llama.cpp calls the rule by which
    the tokenizer splits text.
    """
    config = model.config.get_text_config()
    architecture = architecture or architecture_of(config)
    tensors = [
        *fused(stored_tensors(model.state_dict(), config, architecture), architecture),
        *extras(config, architecture),
        *extra.items(),
    ]
    split = {"split_max_tensors": -(-len(tensors) // shards)} if shards > 1 else {}
    writer = gguf.GGUFWriter(path, architecture, **split)
    write_config(writer, config, architecture)
    for key in XIELU if architecture == "apertus" else ():
        own = [value.item() for name, value in model.state_dict().items() if name.endswith(f".act_fn.{key}")]
        getattr(writer, f"add_xielu_{key}")(own)
    if tokenizer:
        write_tokenizer(writer, tokenizer, config.vocab_size, splitting)
    for name, tensor in tensors:
        if not tensor.is_floating_point():
            writer.add_tensor(name, tensor.int().numpy())
            continue
        stored = fitting(kind, name, tensor)
        writer.add_tensor(name, encode(tensor.float().numpy(), stored), raw_dtype=Kind[stored])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if shards == 1 else path.with_name(f"{path.stem}-00001-of-{shards:05}.gguf")


def rounded(model: Any, kind: str) -> Any:
    """The model itself, with every weight as `write_gguf` stores it, decoded by the package."""
    config = model.config.get_text_config()
    architecture = architecture_of(config)
    for own, tensor in model.state_dict().items():
        turned = turns_experts(architecture) and own.endswith(("experts.gate_up_proj", "experts.down_proj"))
        if not tensor.is_floating_point():
            continue
        rows = (tensor.mT if turned else tensor).contiguous()
        stored = fitting(kind, "gate_inp.weight" if own.endswith(("gate.weight", "router.weight")) else own, rows)
        plus = 1.0 if is_plus_one(architecture, own) else 0.0
        meant = torch.from_numpy(decode(encode((rows.float() + plus).numpy(), stored), stored)).view(rows.shape) - plus
        tensor.copy_(meant.mT if turned else meant)
        if own.endswith("A_log"):
            tensor.copy_(tensor.exp().log())  # what is stored are the negative exponentials
    return model


def encode(numbers: Array, kind: str) -> Array:
    """The numbers in the blocks of this kind."""
    if kind in ENCODERS:
        elements, make = ENCODERS[kind]
        return make(numbers.astype(np.float32).reshape(-1, elements)).reshape(*numbers.shape[:-1], -1)
    made: Array = gguf.quants.quantize(np.ascontiguousarray(numbers, dtype=np.float32), Kind[kind])
    return made


def decode(stored: Array, kind: str) -> Array:
    """The reference for every decoder: the numbers in these blocks."""
    made: Array = gguf.quants.dequantize(stored, Kind[kind])
    return made


def fitting(kind: str, name: str, tensor: Tensor) -> str:
    """The kind that a tensor is stored in, see `write_gguf`."""
    if tensor.ndim < 2 or name.endswith(PLAIN):
        return "F32"
    elements, _ = gguf.GGML_QUANT_SIZES[Kind[kind]]
    if tensor.shape[-1] % elements == 0:
        return kind
    return "Q8_0" if tensor.shape[-1] % 32 == 0 else "F16"


def stored_tensors(state: dict[str, Tensor], config: Any, architecture: str) -> Iterator[tuple[str, Tensor]]:
    """The weights of a model under their names in the file, as the converter changes them."""
    names = gguf.get_tensor_name_map(_arch(architecture), config.num_hidden_layers)
    for own, tensor in state.items():
        if own == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if own.endswith(DECAYS) or ".vqmodel." in own:
            continue
        if ".act_fn." in own or not (tensor.is_floating_point() or own.endswith("tid2eid")):  # it is metadata
            continue
        if own.startswith(ALTUP):  # matrices that are one tensor
            stem, index, _ = own.rsplit(".", 2)
            if index == "0":
                stack = [state[f"{stem}.{other}.weight"] for other in range(config.altup_num_inputs - 1)]
                yield f"{names.get_name(stem)}.weight", torch.stack(stack)
            continue
        newer = [*NEWER[architecture](own, tensor, config)] if architecture in NEWER else []
        for name, made in newer or changed(own, tensor, config, architecture):
            found = names.get_name(name, (".weight", ".bias"))
            assert found or name.startswith(FINAL), name
            yield found or name, made


def fused(tensors: Iterator[tuple[str, Tensor]], architecture: str) -> Iterator[tuple[str, Tensor]]:
    """With queries, keys and values of a layer as one, where their models have them so."""
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in tensors:
        block, _, kind = name.rpartition(".")
        if architecture not in FUSED or not block.endswith((".attn_q", ".attn_k", ".attn_v")):
            yield name, tensor
            continue
        found = parts.setdefault(whole := f"{block.rpartition('.')[0]}.attn_qkv.{kind}", [])
        found.append(tensor)
        if len(found) == 3:
            yield whole, torch.cat(found)


def _arch(architecture: str) -> Any:
    architecture = ALIKE.get(architecture, architecture)
    return next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)


def write_config(writer: Any, config: Any, architecture: str) -> None:
    """What is said of every network, where its config has it."""
    writer.add_name("tiny")
    writer.add_context_length(getattr(config, "max_position_embeddings", 1 << 20))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers + predicting_layers(config, architecture))
    writer.add_head_count(query_heads(config, architecture))
    epsilons = (getattr(config, name, 0) for name in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon"))
    if epsilon := next(filter(None, epsilons), 0):
        writer.add_layer_norm_rms_eps(epsilon)
    for name in ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"):
        if epsilon := getattr(config, name, 0):
            writer.add_layer_norm_eps(epsilon)
    rope = rope_of(config)
    if rope:
        writer.add_rope_freq_base(float(rope["rope_theta"]))
    _write_widths(writer, config, architecture)
    if rope.get("rope_type") in ("yarn", "linear"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") in ("yarn", "longrope"):
        original = rope["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
    if rope.get("rope_type") == "longrope":
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
    if rope.get("rope_type") == "yarn":
        for key in ("attn_factor", "beta_fast", "beta_slow"):
            value = rope.get("attention_factor" if key == "attn_factor" else key)
            if value is not None:
                getattr(writer, f"add_rope_scaling_yarn_{key}")(value)
    _write_experts(writer, config)
    describe(writer, config, architecture)


def _write_widths(writer: Any, config: Any, architecture: str) -> None:
    """Of what follows attention, and of its heads."""
    rope = rope_of(config)
    if architecture not in ("gemma4", "deepseek4"):  # the latter has experts in every layer, and says no other width
        writer.add_feed_forward_length(widths(config, architecture))
    if architecture != "gemma4":
        writer.add_head_count_kv(key_value_heads(config, architecture))
    if architecture not in LATENT | {"gemma4", "mamba", "mamba2", "minicpm3", "step35"}:
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        own = config.hidden_size // config.num_attention_heads  # what it says of Nemotron-H, whose heads do not turn
        part = getattr(config, "rotary_dim", None) or int(head_dim * rope.get("partial_rotary_factor", 1))
        turned = own if architecture.startswith("nemotron_h") else part
        writer.add_rope_dimension_count(turned)
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)


def _write_experts(writer: Any, config: Any) -> None:
    if experts := getattr(config, "num_local_experts", 0) or getattr(config, "num_experts", 0):
        writer.add_expert_count(experts)
        if used := getattr(config, "num_experts_per_tok", 0):
            writer.add_expert_used_count(used)
        writer.add_expert_feed_forward_length(
            getattr(config, "moe_intermediate_size", None) or config.intermediate_size
        )
    if shared := getattr(config, "shared_expert_intermediate_size", 0):
        writer.add_expert_shared_feed_forward_length(shared)


def write_tokenizer(writer: Any, folder: Path, vocabulary: int, splitting: str = "smollm") -> None:
    """A folder's tokenizer, with names for the numbers that it does not use."""
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    tokens = [f"[PAD{index}]" for index in range(vocabulary)]
    types = [gguf.TokenType.UNUSED] * vocabulary
    for token, index in model["model"]["vocab"].items():
        tokens[index], types[index] = token, gguf.TokenType.NORMAL
    for entry in model["added_tokens"]:
        tokens[entry["id"]] = entry["content"]
        types[entry["id"]] = gguf.TokenType.CONTROL if entry["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in model["model"]["merges"]])
    settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    for key, add in (
        ("bos_token", writer.add_bos_token_id),
        ("eos_token", writer.add_eos_token_id),
        ("pad_token", writer.add_pad_token_id),
    ):
        add(tokens.index(settings[key]))
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text("utf-8"))
