"""The masks of a long text, made for one chunk at a time: one of all rows would be as large as the text squared."""

import torch
from torch import Tensor

from engine.model.one_pass.chunked_calls import Chunk
from engine.model.passes.sight import Blocks, Sight
from engine.model.passes.tree_cache import TreeCache, TreeMasks


class ChunkMasks:
    """For `rows` tokens behind `begin` committed ones.

    A network is handed stand-ins, which have the shape of a mask of all rows but the memory of one number. Where a
    layer takes one, `of` makes the mask that it stands for, for the chunk that the layer runs on.
    """

    def __init__(
        self,
        masks: TreeMasks,
        cache: TreeCache,
        begin: int,
        rows: int,
        device: torch.device,
        blocks: Blocks | None = None,
    ) -> None:
        self._masks, self._cache, self._blocks = masks, cache, blocks
        self._begin, self._device = begin, device
        self._bounded = [layer for layer in cache.attention if layer.span.is_bounded]
        one = masks.form(torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device))
        stand_ins = {span: one.clone().expand(1, 1, rows, begin + rows) for span in masks.spans if span.attends}
        self._spans = {mask.data_ptr(): span for span, mask in stand_ins.items()}
        self.argument = masks.argument(stand_ins, cache)  # of the network, in place of `TreeMasks.build`

    def enter(self, chunk: Chunk) -> None:
        """Tell the cache which rows run, and its layers of bounded span which slots a chunk leaves out."""
        self._cache.sight = self._sight(chunk)
        for layer in self._bounded:
            layer.start = layer.span.oldest(self._begin + chunk.begin)

    def of(self, stand_in: Tensor, chunk: Chunk) -> Tensor | None:
        """The mask [1, 1, rows of the chunk, slots it sees] that a tensor stands for; None for one that is no mask."""
        span = self._spans.get(stand_in.data_ptr())
        if span is None:
            return None
        sight = self._sight(chunk)
        return self._masks.form(sight.on(self._device).seen(span, span.oldest(sight.base))[None, None])

    def _sight(self, chunk: Chunk) -> Sight:
        return Sight.of_text(self._begin + chunk.begin, self._begin + chunk.end, self._blocks)
