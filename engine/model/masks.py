"""The attention masks of one pass over a token tree, in the form each attention implementation takes."""

import torch
from torch import Tensor

from engine.model.tree_cache import TreeCache

FULL, SLIDING = "full_attention", "sliding_attention"


class TreeMasks:
    """Turns "who may see whom" into what a transformers model takes as `attention_mask`.

    Windows are counted in positions (a node's depth), not in cache slots: siblings share a position.
    """

    def __init__(
        self, windows: tuple[int | None, ...], attention: str, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._kinds = {(FULL if window is None else SLIDING): window for window in windows}
        self._attention = attention
        self._dtype = dtype
        self._device = device

    def build(
        self, visible: Tensor, query_positions: Tensor, slot_positions: Tensor, base: int, cache: TreeCache
    ) -> Tensor | dict[str, Tensor]:
        """The mask argument of one pass; also tells sliding cache layers which slots they may leave out.

        visible: bool [queries, slots], ancestor or self; query_positions: int64 [queries]; slot_positions: int64
        [slots], both on the host; base: committed slots, for which slot == position.
        """
        oldest_query = int(query_positions.min())
        masks: dict[str, Tensor] = {}
        for kind, window in self._kinds.items():
            start, mask = 0, visible
            if window is not None:
                start = min(base, max(0, oldest_query - window + 1))
                in_window = query_positions[:, None] - slot_positions[None, start:] < window
                mask = visible[:, start:] & in_window
                for layer in cache.layers:
                    if layer.window is not None:
                        layer.start = start
            masks[kind] = self._form(mask.to(self._device, non_blocking=True)[None, None])
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _form(self, mask: Tensor) -> Tensor:
        if self._attention == "sdpa":
            return mask
        # Eager attention adds the mask to the scores; a bool mask there is silently wrong.
        additive = torch.zeros(mask.shape, dtype=self._dtype, device=self._device)
        return additive.masked_fill_(~mask, torch.finfo(self._dtype).min)
