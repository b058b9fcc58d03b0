"""Llama 4's attention temperature, which grows with a token's position, under a tree.

transformers takes the cache slot for the position: right for plain text, but siblings of a tree share a position, and
what is deeper may stand in a much later slot. Queries are scaled by the ratio beforehand; scaling is all that is done
to them in these layers, so the product is that of plain decoding. Where slot and position agree the ratio is exactly 1.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


class _Temperature:
    """The hooks of one layer; `ratio`, float32 [rows, 1], is that of the running pass, which may come in chunks."""

    def __init__(self, layer: nn.Module, attention: Any) -> None:
        self._attention = attention
        self._ratio: Tensor | None = None
        self._done = 0  # rows of it that were scaled
        layer.register_forward_pre_hook(self._begin, with_kwargs=True)
        attention.q_proj.register_forward_hook(self._scale)

    def _begin(self, _layer: nn.Module, _args: tuple[Any, ...], inputs: dict[str, Any]) -> None:
        positions, cache = inputs.get("position_ids"), inputs.get("past_key_values")
        if positions is None or cache is None:
            self._ratio = None
            return
        begin = cache.get_seq_length(self._attention.layer_idx)
        slots = torch.arange(begin, begin + positions.shape[-1], device=positions.device)
        self._ratio, self._done = (self._at(positions[0]) / self._at(slots))[:, None], 0

    def _scale(self, _projection: nn.Module, _args: tuple[Any, ...], queries: Tensor) -> Tensor:
        if self._ratio is None:
            return queries
        begin, self._done = self._done, self._done + queries.shape[1]
        return (queries * self._ratio[begin : self._done]).to(queries.dtype)

    def _at(self, positions: Tensor) -> Tensor:
        steps = torch.floor((positions.float() + 1.0) / self._attention.floor_scale)
        scaled: Tensor = torch.log1p(steps) * self._attention.attn_scale + 1.0
        return scaled


def scale_by_position(layers: Iterable[nn.Module]) -> None:
    """Make those layers whose attention temperature goes by slots go by positions; call it once for each layer."""
    for layer in layers:
        attention: Any = getattr(layer, "self_attn", None)
        if getattr(attention, "attn_temperature_tuning", False) and not getattr(attention, "use_rope", True):
            _Temperature(layer, attention)
