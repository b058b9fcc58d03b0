"""Biases of MPT and Bloom, and GPT-Neo's windows, under a tree: all go by the slots of the cache, here by positions.

In plain text these are the same; but siblings of a tree share a position, and what is deeper may stand in a much later
slot. The cache tells where each slot of the running pass stands in its text (`TreeCache.sight`).
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MPT, BLOOM, WINDOWED = "MptAttention", "BloomAttention", "GPTNeoSelfAttention"  # as transformers calls the classes


def _bias_by_position(_attention: Any, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
    """Before MPT's attention: biases [heads, 1, slots] of the positions, from those of a text, [heads, 1, longest]."""
    biases, sight = inputs.get("position_bias"), getattr(inputs.get("past_key_values"), "sight", None)
    if biases is None or sight is None:
        return None
    positions = sight.on(biases.device).slot_positions(0)
    # They grow by the same number with every position; what is the same for all slots is nothing to a softmax.
    by_position = (biases[..., -1:] - biases[..., -2:-1]) * (positions - positions.max())
    return args, {**inputs, "position_bias": by_position}


def _alibi_by_position(_attention: Any, args: tuple[Any, ...], inputs: dict[str, Any]) -> Any:
    """Before Bloom's attention: biases [heads, 1, slots] of the positions, of those of the slots."""
    biases, sight = inputs.get("alibi"), getattr(inputs.get("layer_past"), "sight", None)
    if biases is None or sight is None:
        return None
    return args, {**inputs, "alibi": biases[:, :, sight.on(biases.device).slot_positions(0)]}


class _BiasesOfSlots:
    """In place of the method by which Bloom's network makes biases of a mask of padding, [1, slots]."""

    def __init__(self, network: Any) -> None:
        self._make = network.build_alibi_tensor

    def __call__(self, attention_mask: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Also of a mask [1, 1, rows, slots]: nothing is padding."""
        slots = attention_mask.shape[-1]
        is_padding = attention_mask.ndim == 2
        mask = attention_mask if is_padding else attention_mask.new_ones((1, slots), dtype=torch.int64)
        made: Tensor = self._make(mask, *args, **kwargs)
        return made


def take_masks(model: nn.Module) -> None:
    """Have a network take masks of a pass where it makes biases of what is padding; its layers: `go_by_positions`."""
    for module in model.modules():
        network: Any = module
        if hasattr(network, "build_alibi_tensor"):
            network.build_alibi_tensor = _BiasesOfSlots(network)


class _WindowByPosition:
    """Stands for the table [1, 1, longest, longest] by which GPT-Neo's local attention finds what a token sees."""

    def __init__(self, attention: Any) -> None:
        self._buffers, self._tokens = attention._buffers, attention.config.window_size  # where the table will be
        self._sight: Any = None
        attention.register_forward_pre_hook(self._begin, with_kwargs=True)

    def _begin(self, _attention: Any, _args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        self._sight = getattr(inputs.get("layer_past"), "sight", None)

    def __getitem__(self, part: Any) -> Tensor:
        """As of the table; of the running pass bool [1, 1, rows, slots], of which a mask hides what is on no path."""
        table: Tensor = self._buffers["bias"]
        if self._sight is None:
            return table[part]
        sight = self._sight.on(table.device)
        near: Tensor = sight.query_positions[:, None] - sight.slot_positions(0) < self._tokens
        return near[None, None]


def go_by_positions(layers: Iterable[nn.Module]) -> None:
    """Make those layers whose biases or windows go by slots go by positions; call it once for each layer."""
    for layer in layers:
        for module in layer.modules():
            attention: Any = module
            if type(module).__name__ == MPT:
                module.register_forward_pre_hook(_bias_by_position, with_kwargs=True)
            elif type(module).__name__ == BLOOM:
                module.register_forward_pre_hook(_alibi_by_position, with_kwargs=True)
            elif type(module).__name__ == WINDOWED and attention.attention_type == "local":
                module.__dict__["bias"] = _WindowByPosition(attention)
