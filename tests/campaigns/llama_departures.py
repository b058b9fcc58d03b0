"""What llama.cpp computes otherwise than published networks: Coppice, so patched, has to find what llama.cpp finds."""

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from transformers.models.dots3_note.modeling_dots3_note import apply_rotary_pos_emb_interleave

DEVIATION = torch.std
GELU = torch.nn.functional.gelu


def rounded_gelu(numbers: Tensor, approximate: str = "tanh") -> Tensor:
    """As llama.cpp looks it up: in a table of 16 bits, but for large numbers, and by the usual approximation."""
    found = GELU(numbers.half().float(), approximate="tanh").half().float()
    return torch.where(numbers.abs() < 10, found, numbers.relu())


def deviation(numbers: Tensor, dim: int, keepdim: bool, unbiased: bool) -> Tensor:
    """Where Gemma 3n makes activations sparse, its own is divided by one number more."""
    return DEVIATION(numbers, dim=dim, keepdim=keepdim)


def softmax_of_two(scores: Tensor, **_: object) -> tuple[Tensor, Tensor]:
    """Of Phi's experts, where those of its network are told from those that come near them."""
    weights, chosen = scores.softmax(-1).topk(2, -1)
    return weights / weights.sum(-1, keepdim=True), chosen


def root_mean_square(numbers: Tensor, _shape: object, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The norm of Phi's mixture, which takes the mean away before."""
    return numbers * (numbers.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight + bias


def turned_across(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Bamba's embedding, with pairs across a whole head, though only a half of it turns, and in itself."""
    half = cos.shape[-1] // 2
    cos, sin = cos[:, None, :, :half], sin[:, None, :, :half]
    found = []
    for states in (query, key):
        first, last = states.chunk(2, -1)
        a, b = first[..., :half], last[..., :half]
        found.append(torch.cat([a * cos - b * sin, first[..., half:], b * cos + a * sin, last[..., half:]], -1))
    return found[0], found[1]


def without_pictures(logits: Tensor, _config: object) -> Tensor:
    """Chameleon's, whose tokens for parts of pictures llama.cpp knows by their ids, whatever they are called."""
    logits[..., 4:8196] = torch.finfo(logits.dtype).min
    return logits


def halves_of_index(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> Any:
    """The embedding of dots3-note, where halves of what indexers compare turn together, not pairs of neighbours."""
    if unsqueeze_dim == IN_INDEXERS:
        query, key = (torch.stack(states.chunk(2, -1), -1).flatten(-2) for states in (query, key))
    return apply_rotary_pos_emb_interleave(query, key, cos, sin, unsqueeze_dim=unsqueeze_dim)


IN_INDEXERS = 2  # the place of heads in what dots3-note turns there
BACKBONE = "engine.model.families.text_backbone"
PHIMOE, BAMBA = "transformers.models.phimoe.modeling_phimoe", "transformers.models.bamba.modeling_bamba"
ALWAYS: dict[str, Any] = {"torch.std": deviation}
DOTS3 = "transformers.models.dots3_note.modeling_dots3_note"
PATCHES: dict[str, dict[str, Any]] = {
    "phimoe": {f"{PHIMOE}.sparsemixer": softmax_of_two, "torch.nn.functional.layer_norm": root_mean_square},
    "chameleon": {f"{BACKBONE}.scaled": without_pictures},
    "dots3_note_text": {f"{DOTS3}.apply_rotary_pos_emb_interleave": halves_of_index},
    "bamba": {f"{BAMBA}.apply_rotary_pos_emb": turned_across},
}
"""By the `model_type` of a network."""


def as_llama_cpp(model_type: str) -> ExitStack:
    """A network of this kind computes, inside of this context, as llama.cpp does."""
    stack = ExitStack()
    for name, function in {**ALWAYS, **PATCHES.get(model_type, {})}.items():
        stack.enter_context(patch(name, function))
    return stack
