"""Splits a Llama's feed-forward layers into a shared expert and routed ones, of which a router chooses a few.

As in MoEfication (Zhang et al., arXiv 2110.01786): units that are active together make an expert, and the router
guesses where it is active. The units that matter most are the shared expert's; the first layer stays whole, as in
GLM-4.5, whose layers these are. All else is copied.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from transformers import Glm4MoeConfig, Glm4MoeForCausalLM, LlamaForCausalLM

EXPERTS, CHOSEN, WIDTH, SHARED = (
    16,
    4,
    32,
    10,
)  # experts of a layer, of a token; units; shared ones as wide
TIERS = 4  # of how much units matter: experts of the first one are chosen most often
CLUSTERING_ROUNDS = 12
COLUMNS = 2048  # tokens that the clusters are made of
RIDGE = 1e-3  # of the mean square of a hidden number
NEW_SCALE = 0.02  # of what new units read; what they write begins as zero


def mixture_config(donor: Any) -> Glm4MoeConfig:
    """GLM-4.5's config at the size of a Llama config."""
    return Glm4MoeConfig(
        vocab_size=donor.vocab_size,
        hidden_size=donor.hidden_size,
        intermediate_size=donor.intermediate_size,
        moe_intermediate_size=WIDTH,
        num_hidden_layers=donor.num_hidden_layers,
        num_attention_heads=donor.num_attention_heads,
        num_key_value_heads=donor.num_key_value_heads,
        head_dim=donor.head_dim,
        n_routed_experts=EXPERTS,
        num_experts_per_tok=CHOSEN,
        n_shared_experts=SHARED,
        first_k_dense_replace=1,
        routed_scaling_factor=float(CHOSEN),  # the weights of those chosen add up to 1: each one counts about once
        num_mtp_layers=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        max_position_embeddings=donor.max_position_embeddings,
        rms_norm_eps=donor.rms_norm_eps,
        tie_word_embeddings=True,
        bos_token_id=donor.bos_token_id,
        eos_token_id=donor.eos_token_id,
        pad_token_id=donor.pad_token_id,
    )


@torch.no_grad()
def mixture_from(donor: LlamaForCausalLM, batches: Iterable[Tensor]) -> Any:
    """A float32 `Glm4MoeForCausalLM` that has not been trained yet; `batches`: token ids [rows, length]."""
    model = Glm4MoeForCausalLM(mixture_config(donor.config)).float()
    model.model.embed_tokens.load_state_dict(donor.model.embed_tokens.state_dict())
    model.model.norm.load_state_dict(donor.model.norm.state_dict())
    inputs = _inputs(donor, batches)
    for layer, given, hidden in zip(model.model.layers, donor.model.layers, inputs, strict=True):
        for part in ("self_attn", "input_layernorm", "post_attention_layernorm"):
            getattr(layer, part).load_state_dict(getattr(given, part).state_dict())
        if hasattr(layer.mlp, "experts"):
            _split(layer.mlp, given.mlp, hidden)
        else:
            layer.mlp.load_state_dict(given.mlp.state_dict())
    return model


def _inputs(donor: Any, batches: Iterable[Tensor]) -> list[Tensor]:
    """What every feed-forward layer of the donor is given: [tokens, hidden] each."""
    seen: list[list[Tensor]] = [[] for _ in donor.model.layers]
    hooks = [
        layer.mlp.register_forward_pre_hook(lambda _module, inputs, own=own: own.append(inputs[0].flatten(0, 1)))
        for layer, own in zip(donor.model.layers, seen, strict=True)
    ]
    for ids in batches:
        donor.model(ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    return [torch.cat(own) for own in seen]


def _split(own: Any, given: Any, hidden: Tensor) -> None:
    """Fill a mixture with a feed-forward layer's units, and its router with a guess of where they are active."""
    active = torch.nn.functional.silu(given.gate_proj(hidden)) * given.up_proj(hidden)
    strength = active.abs() * given.down_proj.weight.norm(dim=0)  # [tokens, units]: how much each one adds
    order = strength.mean(0).argsort(descending=True)
    shared, rest = order[: SHARED * WIDTH], order[SHARED * WIDTH :]
    own.shared_experts.gate_proj.weight.copy_(given.gate_proj.weight[shared])
    own.shared_experts.up_proj.weight.copy_(given.up_proj.weight[shared])
    own.shared_experts.down_proj.weight.copy_(given.down_proj.weight[:, shared])
    groups = torch.cat([tier[clusters(strength[-COLUMNS:, tier], EXPERTS // TIERS)] for tier in rest.chunk(TIERS)])
    count = groups.shape[1]
    own.experts.gate_up_proj.normal_(0, NEW_SCALE)
    own.experts.down_proj.zero_()
    own.experts.gate_up_proj[:, :count] = given.gate_proj.weight[groups]
    own.experts.gate_up_proj[:, WIDTH : WIDTH + count] = given.up_proj.weight[groups]
    own.experts.down_proj[:, :, :count] = given.down_proj.weight.T[groups].mT
    wanted = torch.stack([strength[:, units].square().sum(1).sqrt() for units in groups], 1)
    own.gate.weight.copy_(_regression(hidden, (wanted - wanted.mean()) / wanted.std()).T)


def clusters(strength: Tensor, count: int) -> Tensor:
    """Units in groups of one size, int64 [count, units / count], of such as are strong for the same tokens.

    strength: [tokens, units]. The pairs of unit and centre that are most alike are served first.
    """
    profiles = torch.nn.functional.normalize(strength - strength.mean(0), dim=0).T
    size = len(profiles) // count
    groups = torch.randperm(len(profiles))[: count * size].view(count, size)
    for _ in range(CLUSTERING_ROUNDS):
        centres = torch.nn.functional.normalize(profiles[groups].mean(1), dim=1)
        groups = _assigned((profiles @ centres.T).tolist(), size)
    return groups


def _assigned(likeness: list[list[float]], size: int) -> Tensor:
    """Each unit to a group that has room: the most alike first."""
    pairs = sorted((like, unit, group) for unit, row in enumerate(likeness) for group, like in enumerate(row))
    groups: list[list[int]] = [[] for _ in likeness[0]]
    placed: set[int] = set()
    for _, unit, group in reversed(pairs):
        if unit not in placed and len(groups[group]) < size:
            groups[group].append(unit)
            placed.add(unit)
    return torch.tensor(groups)


def _regression(given: Tensor, wanted: Tensor) -> Tensor:
    """Ridge regression: [inputs, outputs] that makes `wanted` of `given`, both [tokens, ...], as well as it can."""
    square = given.T @ given
    square += RIDGE * len(given) * given.square().mean() * torch.eye(given.shape[1])
    found: Tensor = torch.linalg.solve(square, given.T @ wanted)
    return found
