"""A transformers model ready to run, wherever its weights are."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import nn

from engine.accelerator import is_accelerator
from engine.errors import ModelError
from engine.model.architecture import layer_spans
from engine.model.families.one_pass_families import reads_in_one_pass
from engine.model.families.slot_positions import go_by_positions, take_masks
from engine.model.families.temperature import scale_by_position
from engine.model.families.turned_pairs import put_pairs_apart, turn_in_part
from engine.model.passes import tree_attention
from engine.model.passes.block_choice import choose_blocks_of_paths
from engine.model.passes.compression import compress_paths
from engine.model.passes.light import adoption
from engine.model.passes.pool_choice import choose_pools_of_paths
from engine.model.passes.sight import Span
from engine.model.rope import LengthRope, find_rope
from engine.model.shape import LAYER_LISTS, longest_sequence
from engine.model.state.mixers import read_trees
from engine.protocol.sentences import say

OWN_CACHES = frozenset({"minimax"})  # by model_type: asked for a cache, these take none but that of their own class


@dataclass(frozen=True, slots=True)
class Network:
    """A model ready to run, and what a `Context` needs to know of it.

    `spans`: what each layer sees of the past; `attention`: `eager`, `sdpa` or that of `passes.tree_attention`;
    `max_positions`: the longest sequence the model was made for, in tokens; `rope`: None where the rotary embedding is
    the same for every length; `substitute`: the token id to read for those that the model does not know;
    `cache_name`: how the model calls the cache that it is handed; `reads_in_one_pass`: whether prompts of any length
    can be read so, see `engine.model.one_pass`; `light_rows`: up to so many rows of a pass no matrix is worth
    waking torch's threads, as it is small, or has threads of its own.
    """

    model: Any
    layers: nn.ModuleList
    spans: tuple[Span, ...]
    attention: str
    dtype: torch.dtype
    device: torch.device
    vocabulary: int
    max_positions: int
    rope: LengthRope | None = None
    substitute: int = 0
    cache_name: str = "past_key_values"
    reads_in_one_pass: bool = False
    light_rows: int = 0

    def cached(self, cache: object) -> dict[str, object]:
        """How the model is handed a cache, which it writes into in any case."""
        return {self.cache_name: cache, "use_cache": self.model.config.model_type not in OWN_CACHES}


def wrap(model: Any, attention: str, name: str) -> Network:
    """The `Network` of a transformers model that is already in place."""
    text = model.config.get_text_config(decoder=True)
    layers = find_layers(model)
    turn_in_part(model)
    take_masks(model)
    adapt_layers(layers, name)
    if attention == "sdpa" and tree_attention.adopt(model):
        attention = tree_attention.NAME
    if not is_accelerator(model.device):
        adoption.adopt(model)
    return Network(
        model=model,
        layers=layers,
        spans=layer_spans(model.config, name),
        attention=attention,
        dtype=model.dtype,
        device=model.device,
        vocabulary=text.vocab_size,
        rope=find_rope(model, name),
        substitute=_substitute(text),
        max_positions=longest_sequence(getattr(text, "max_position_embeddings", None), text.model_type),
        cache_name=cache_name(model),
        reads_in_one_pass=reads_in_one_pass(text.to_dict()),
    )


def adapt_layers(layers: Sequence[nn.Module] | nn.ModuleList, name: str) -> None:
    """Make decoder layers of transformers compute over trees what they compute over a path; once for each layer.

    Raises `ModelError` for layers that cannot hold a tree; `name` is the model's.
    """
    scale_by_position(layers)
    go_by_positions(layers)
    put_pairs_apart(layers)
    read_trees(layers, name)
    choose_blocks_of_paths(layers)
    choose_pools_of_paths(layers)
    compress_paths(layers)


def cache_name(model: Any) -> str:
    """How a transformers model calls its cache; that of a model with states alone has a name of its own."""
    return "cache_params" if "cache_params" in signature(type(model).forward).parameters else "past_key_values"


def _substitute(text: Any) -> int:
    """A neutral token: the one for padding, or an end token."""
    ends = getattr(text, "eos_token_id", None)
    candidates = (getattr(text, "pad_token_id", None), *(ends if isinstance(ends, list) else [ends]))
    return next((token for token in candidates if type(token) is int and 0 <= token < text.vocab_size), 0)


def find_layers(model: nn.Module) -> nn.ModuleList:
    """The decoder layers of a transformers model, first to last."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in LAYER_LISTS and isinstance(module, nn.ModuleList):
            return module
    raise ModelError(
        say("{name} has no list of decoder layers.", name=type(model).__name__), say("Choose another model.")
    )
