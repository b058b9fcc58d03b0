"""A key/value cache whose tail can hold a token tree: written in place, compacted in place."""

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


class TreeLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is untyped
    """One decoder layer's keys and values, preallocated: [1, heads, capacity, head_dim].

    Slots [0, length) are in use. `start` is the oldest slot that any query of the running pass can still see; a
    sliding-window layer hands out only [start, length), which keeps its cost at the window's size.
    """

    is_sliding = False  # the masks are ours; transformers must never trim this layer
    is_croppable = True

    def __init__(self, capacity: int, window: int | None) -> None:
        super().__init__()
        self.capacity = capacity
        self.window = window
        self.length = 0
        self.start = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocate for the shapes, type and device of the first keys and values [1, heads, n, head_dim]."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_empty((*key_states.shape[:2], self.capacity, key_states.shape[-1]))
        self.values = value_states.new_empty((*value_states.shape[:2], self.capacity, value_states.shape[-1]))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append n keys and values; returns views of everything the running pass may attend to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            self._grow(end)
        self.keys[:, :, self.length : end].copy_(key_states)
        self.values[:, :, self.length : end].copy_(value_states)
        self.length = end
        return self.keys[:, :, self.start : end], self.values[:, :, self.start : end]

    def _grow(self, needed: int) -> None:
        # Only a draft's search gets here: how many nodes it expands is not known beforehand.
        self.capacity = max(needed, self.capacity + self.capacity // 2)
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty((*old.shape[:2], self.capacity, old.shape[-1]))
            new[:, :, : self.length].copy_(old[:, :, : self.length])
            setattr(self, name, new)

    def keep(self, base: int, slots: Tensor) -> None:
        """Keep slots [0, base) and `slots` (int64 [n], each >= base, ascending), compacted to [base, base + n)."""
        end = base + slots.numel()
        if self.is_initialized:
            for stored in (self.keys, self.values):
                stored[:, :, base:end] = stored.index_select(2, slots)
        self.length = end

    def crop(self, max_length: int) -> None:
        """Forget every slot from `max_length` on."""
        self.length = min(self.length, max_length)

    def get_seq_length(self) -> int:
        """Slots in use."""
        return self.length

    def get_max_length(self) -> int:
        """Slots allocated."""
        return self.capacity

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Width and offset of a mask for `query_length` new tokens, in transformers' convention."""
        return self.length + query_length - self.start, self.start

    def reset(self) -> None:
        """Forget everything; the memory stays."""
        self.length = self.start = 0


class TreeCache(Cache):  # type: ignore[misc]
    """One `TreeLayer` per decoder layer; `windows`: each layer's sliding window in tokens, None for full attention."""

    def __init__(self, windows: tuple[int | None, ...], capacity: int) -> None:
        super().__init__(layers=[TreeLayer(capacity, window) for window in windows])

    @torch.inference_mode()
    def keep(self, base: int, slots: Tensor) -> None:
        """Keep slots [0, base) and `slots` in every layer; see `TreeLayer.keep`."""
        for layer in self.layers:
            layer.keep(base, slots)

    def crop_to(self, length: int) -> None:
        """Forget every slot from `length` on, in every layer."""
        for layer in self.layers:
            layer.crop(length)
