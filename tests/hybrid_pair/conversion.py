"""Turns a Llama into a hybrid of the same size: attention layers become Gated DeltaNet layers, all else is copied.

A Gated DeltaNet layer begins with what its donor's attention knew: the values, the output, and of queries and keys the
half of each head that rotary positions turn slowest, which tells tokens apart by content.
"""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

KEY_DIM = 32  # of a head: half of the donor's 64, which makes room for the gate `z` at the same size
MEMORY_TOKENS = 4  # after which the first head's state has decayed to 1/e; four times as many for every further head


def hybrid_config(donor: Any, full_attention_interval: int) -> Qwen3_5TextConfig:
    """Qwen3.5's text config at the size of a Llama config; every so-and-so-many-th layer stays attention."""
    kinds = ["linear_attention"] * (full_attention_interval - 1) + ["full_attention"]
    return Qwen3_5TextConfig(
        vocab_size=donor.vocab_size,
        hidden_size=donor.hidden_size,
        intermediate_size=donor.intermediate_size,
        num_hidden_layers=donor.num_hidden_layers,
        num_attention_heads=donor.num_attention_heads,
        num_key_value_heads=donor.num_key_value_heads,
        head_dim=donor.head_dim,
        layer_types=[kinds[index % full_attention_interval] for index in range(donor.num_hidden_layers)],
        linear_num_key_heads=donor.num_attention_heads,
        linear_num_value_heads=donor.num_attention_heads,
        linear_key_head_dim=KEY_DIM,
        linear_value_head_dim=donor.head_dim,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        max_position_embeddings=donor.max_position_embeddings,
        rms_norm_eps=donor.rms_norm_eps,
        tie_word_embeddings=True,
        bos_token_id=donor.bos_token_id,
        eos_token_id=donor.eos_token_id,
        pad_token_id=donor.pad_token_id,
    )


@torch.no_grad()
def hybrid_from(donor: LlamaForCausalLM, full_attention_interval: int) -> Any:
    """A float32 `Qwen3_5ForCausalLM` that has not been trained yet."""
    model = Qwen3_5ForCausalLM(hybrid_config(donor.config, full_attention_interval)).float()
    model.model.embed_tokens.weight.copy_(donor.model.embed_tokens.weight)
    model.model.norm.weight.copy_(donor.model.norm.weight - 1)  # these norms scale by 1 + weight
    for layer, given in zip(model.model.layers, donor.model.layers, strict=True):
        layer.mlp.load_state_dict(given.mlp.state_dict())
        layer.input_layernorm.weight.copy_(given.input_layernorm.weight - 1)
        layer.post_attention_layernorm.weight.copy_(given.post_attention_layernorm.weight - 1)
        if layer.block_type == "full_attention":
            _copy_attention(layer.self_attn, given.self_attn, given.input_layernorm.weight)
        else:
            _begin_delta_net(layer.linear_attn, given.self_attn)
    return model


def _copy_attention(own: Any, given: Any, scale: Tensor) -> None:
    """The donor's attention, half open gates, and norms that give queries and keys their mean length back."""
    heads, width = own.config.num_attention_heads, own.head_dim
    query = given.q_proj.weight.view(heads, width, -1)
    own.q_proj.weight.copy_(torch.cat([query, torch.zeros_like(query)], 1).flatten(0, 1))
    own.k_proj.weight.copy_(given.k_proj.weight)
    own.v_proj.weight.copy_(given.v_proj.weight)
    own.o_proj.weight.copy_(given.o_proj.weight * 2)  # sigmoid(0) halves it
    for norm, weight in ((own.q_norm, given.q_proj.weight), (own.k_norm, given.k_proj.weight)):
        norm.weight.fill_(float((weight * scale).square().sum(1).mean().sqrt()) - 1)


def _begin_delta_net(own: Any, given: Any) -> None:
    heads, width = own.num_v_heads, own.head_v_dim
    half, quarter = width // 2, width // 4
    slow = [*range(quarter, half), *range(half + quarter, width)]  # rotary pairs are (i, i + half), slower with i
    parts = [given.q_proj.weight.view(heads, width, -1)[:, slow], given.k_proj.weight.view(heads, width, -1)[:, slow]]
    own.in_proj_qkv.weight.copy_(torch.cat([*(part.flatten(0, 1) for part in parts), given.v_proj.weight]))
    own.out_proj.weight.copy_(given.o_proj.weight)
    own.in_proj_z.weight.normal_(0, own.hidden_size**-0.5)
    own.in_proj_a.weight.zero_()
    own.in_proj_b.weight.zero_()
    own.conv1d.weight.zero_()
    own.conv1d.weight[:, :, -1] = 1  # only the token itself
    own.dt_bias.zero_()
    memory = torch.tensor([float(MEMORY_TOKENS * 4**head) for head in range(heads)])
    own.A_log.copy_(-(memory * math.log(2)).log())  # the decay is exp(-exp(A_log) softplus(0))
