"""Whole networks of few rows without what their library wraps around each pass: arguments, masks, outputs by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.passes import tree_attention
from engine.model.passes.light.chains import Chains
from engine.model.passes.light.embeddings import embedded
from engine.model.passes.light.head import Head
from engine.model.passes.light.known_forwards import digest_of
from engine.model.passes.light.light_rows import MOST_ROWS

DECODERS = {
    "a719758713cee428": False,  # Llama's, and of most families
    "a12c08c1e17dfe56": False,  # DeepSeek, GLM-4.5, OLMoE
    "7316a29dad9d0666": False,  # Mistral: these and the next ones ask for the mask of a window
    "f34905018911dbb4": False,  # Mixtral, Qwen3-MoE
    "bebe0f2b10e7007b": True,  # Qwen2, Qwen3, SmolLM3: a mask for each kind of layers
    "ef78bd683a89e640": True,  # Qwen2-MoE
    "3a12bb0a02fe355e": True,  # dots.llm1, EXAONE
    "36b9f9e020258e2b": True,  # gpt-oss
}
"""By the digest of `forward`, norm(layers(embed(x))): whether masks go by the kinds of layers."""

HEADED = {
    "db63aebc33ca47a1": None,  # Llama's, and of most families
    "173387f7ea9063eb": None,  # DeepSeek, GLM-4.5
    "43f6edd839dcccac": "output_router_logits",  # Mixtral, Qwen3-MoE, gpt-oss
}
"""By the digest of `forward`, head(decoder(x)): the name in the configuration of what else may be asked of it."""

FIXED_TURNS = frozenset({"default", "linear", "llama3", "yarn"})
"""Kinds of rotary embeddings that depend on the position alone."""

PASSED = {"input_ids", "attention_mask", "position_ids", "past_key_values", "use_cache"}  # what a `Context` hands over
PAGE = 256  # positions that are embedded at once


@dataclass(slots=True)
class Decoded:
    """What a decoder gives, by the names that a head asks for."""

    last_hidden_state: Tensor
    past_key_values: Any
    hidden_states: None = None
    attentions: None = None
    router_logits: None = None


@dataclass(slots=True)
class Scored:
    """What a network with a head gives."""

    logits: Tensor


def lighten_decoder(decoder: Any) -> bool:
    """Have a decoder hand few rows to its layers at once; False where it is none of those that are known."""
    by_kinds = DECODERS.get(digest_of(type(decoder).forward))
    if by_kinds is None:
        return False
    own, turns, config, chains = type(decoder).forward, _Turns(decoder.rotary_emb), decoder.config, Chains()
    kinds: list[str] = list(config.layer_types) if by_kinds else []
    layers: int = config.num_hidden_layers

    def forward(module: Any, *inputs: Any, **given: Any) -> Any:
        mask, positions = given.get("attention_mask"), given.get("position_ids")
        is_asked = not inputs and _is_pass(given) and not any(map(given.get, given.keys() - PASSED))
        is_seen = mask is not None or config._attn_implementation == tree_attention.NAME
        is_whole = len(module.layers) == layers and module is decoder
        if positions is None or not (is_asked and is_seen and is_whole and _is_mask(mask, by_kinds)):
            return own(module, *inputs, **given)
        states = embedded(module.embed_tokens, given["input_ids"])
        arguments = {
            "position_ids": positions,
            "past_key_values": given["past_key_values"],
            "use_cache": given.get("use_cache"),
            "position_embeddings": turns.of(states, positions),
        }
        masks = [mask[kind] for kind in kinds] if isinstance(mask, dict) else [mask] * layers
        every, begin = list(module.layers), 0
        while begin < layers:
            states, end = chains.compute(every, begin, states, masks, arguments)
            if end == begin:
                states, end = every[begin](states, attention_mask=masks[begin], **arguments), begin + 1
            begin = end
        return Decoded(module.norm(states), given["past_key_values"])

    decoder.__dict__["forward"] = MethodType(forward, decoder)
    return True


def lighten_headed(network: Any) -> bool:
    """Have a decoder and its head compute few rows without more; False for networks that are not known."""
    digest = digest_of(type(network).forward)
    if digest not in HEADED:
        return False
    own, other, head = type(network).forward, HEADED[digest], Head(network.lm_head)

    def forward(module: Any, *inputs: Any, logits_to_keep: int = 0, **given: Any) -> Any:
        is_more = other is not None and getattr(module.config, other)
        if is_more or inputs or given.keys() != PASSED or not _is_pass(given):
            return own(module, *inputs, logits_to_keep=logits_to_keep, **given)
        states = module.model(**given).last_hidden_state
        compute = head if module is network else module.lm_head
        return Scored(compute(states[:, -logits_to_keep:] if logits_to_keep else states))

    network.__dict__["forward"] = MethodType(forward, network)
    return True


def _is_pass(given: Mapping[str, Any]) -> bool:
    """Whether this is a pass of few rows with a cache of trees, which comes with all that is to be seen."""
    tokens: Tensor | None = given.get("input_ids")
    if tokens is None or not hasattr(given.get("past_key_values"), "states"):
        return False
    return tokens.device.type == "cpu" and len(tokens) == 1 and 0 < tokens.shape[1] <= MOST_ROWS


def _is_mask(mask: Any, by_kinds: bool) -> bool:
    """Whether a mask is handed on as it is: none where rows see what stands before them, and no row of padding."""
    return mask is None or (by_kinds if isinstance(mask, dict) else mask.ndim == 4)


class _Turns:
    """Cosines and sines of the last page of positions, as a network's own module makes them."""

    def __init__(self, rotary: nn.Module) -> None:
        self._rotary = rotary
        self._begin, self._page = 0, tuple[Tensor, ...]()

    def of(self, states: Tensor, positions: Tensor) -> Any:
        """What the module makes of `positions`, int64 [1, rows], for `states`."""
        rotary = self._rotary
        if getattr(rotary, "rope_type", None) not in FIXED_TURNS or rotary._forward_hooks:
            return rotary(states, positions)
        rows: list[int] = positions[0].tolist()
        first, last = min(rows), max(rows)
        if last - first >= PAGE:
            return rotary(states, positions)
        page = self._page
        if not page or page[0].dtype != states.dtype or not self._begin <= first <= last < self._begin + PAGE:
            with torch.inference_mode(False):  # or other passes could not read it
                found = rotary(states, torch.arange(first, first + PAGE)[None])
            if not (isinstance(found, tuple) and all(each.shape[:2] == (1, PAGE) for each in found)):
                return rotary(states, positions)
            self._begin, self._page = first, found
        at = first - self._begin
        if len(rows) == 1:
            return tuple([each[:, at : at + 1] for each in self._page])
        places = positions[0] - self._begin
        return tuple([each.index_select(1, places) for each in self._page])
