"""MiniMax M3's sparse attention under a tree: its indexers choose blocks of a node's own path, not of cache slots.

In these layers (lightning indexers, MiniMax 2026) every query sees the blocks of tokens in which the keys that its
indexer rates highest stand, and those that it stands in or behind. transformers counts blocks in slots of the cache,
where the nodes of a tree lie side by side; here in positions of the text, of which a row knows that of every slot that
it sees: as many as it sees before. What it does not see is in no block of it.

`choose_blocks_of_paths` has an indexer return its scores alone, and the attention make masks of them: `tree_attention`
for the heads of one group at a time, other kinds by `build_block_mask` for all heads, as the library has it.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

INDEXER = "MiniMaxM3VLIndexer"  # as transformers calls the class


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """In which block of its text every slot is, for the rows of one pass.

    The first `whole` slots lie in blocks of `size` that all rows see. `visible`: bool [rows, slots]; `blocks`: int64
    [rows, slots - whole], of the other slots; `own`: int64 [rows], the block that a row's token is in.
    """

    size: int
    whole: int
    visible: Tensor
    blocks: Tensor
    own: Tensor

    @classmethod
    def of(cls, visible: Tensor, size: int) -> "BlockPlan":
        """`visible`: bool [rows, slots]."""
        seen_by_all = visible.all(0)
        prefix = len(seen_by_all) if bool(seen_by_all.all()) else int(seen_by_all.to(torch.uint8).argmin())
        whole = prefix - prefix % size
        positions = visible[:, whole:].cumsum(1) + (whole - 1)
        own = positions[:, -1] if positions.shape[1] else positions.new_full((len(visible),), whole - 1)
        return cls(size, whole, visible, positions.clamp_(min=0) // size, own // size)

    @property
    def count(self) -> int:
        """Blocks, at least as many as any row has."""
        return -(-self.visible.shape[1] // self.size)

    def highest(self, scores: Tensor) -> Tensor:
        """The highest score in every block, [heads, rows, blocks], of `scores` [heads, rows, slots]; -inf in none."""
        heads, rows, _ = scores.shape
        full = scores[..., : self.whole].reshape(heads, rows, self.whole // self.size, self.size).amax(-1)
        rest = scores[..., self.whole :].masked_fill(~self.visible[:, self.whole :], -torch.inf)
        found = scores.new_full((heads, rows, self.count), -torch.inf)
        found[..., : full.shape[-1]] = full
        return found.scatter_reduce_(-1, self.blocks.expand(heads, -1, -1), rest, "amax")

    def slots_in(self, chosen: Tensor) -> Tensor:
        """Which slots each row sees in its chosen blocks: bool [heads, rows, slots] of bool [heads, rows, blocks]."""
        full = chosen[..., : self.whole // self.size].repeat_interleave(self.size, -1)
        rest = chosen.gather(-1, self.blocks.expand(len(chosen), -1, -1)) & self.visible[:, self.whole :]
        return torch.cat([full, rest], -1)


class BlockChooser:
    """Chooses blocks for all such layers of a network, whose passes have one mask for all layers."""

    def __init__(self) -> None:
        self._mask: Tensor | None = None
        self._plan: BlockPlan | None = None

    def seen(self, indexer: Any, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Which slots the rows see, bool [heads of the indexer, rows, slots]; `scores` of the same shape.

        `mask`: [1, 1, rows, slots], bool or to be added to scores; None where every row sees what stands before it.
        """
        plan = self._plan_of(mask, scores, indexer.block_size)
        blocks = plan.highest(scores)
        if indexer.local_blocks > 0:
            most = min(indexer.local_blocks, plan.count)  # a config may say billions
            local = plan.own[:, None] - torch.arange(most, device=scores.device)
            blocks.scatter_(-1, local.clamp(min=0).expand(len(scores), -1, -1), torch.inf)
        highest, numbers = blocks.topk(min(indexer.topk_blocks, plan.count), -1)
        chosen = torch.zeros_like(blocks, dtype=torch.bool)
        return plan.slots_in(chosen.scatter_(-1, numbers, highest > -torch.inf))

    def _plan_of(self, mask: Tensor | None, scores: Tensor, size: int) -> BlockPlan:
        if mask is not None and mask is self._mask and self._plan is not None and self._plan.size == size:
            return self._plan
        _, rows, slots = scores.shape
        if mask is None:
            visible = torch.ones(rows, slots, dtype=torch.bool, device=scores.device).tril_(slots - rows)
        else:
            visible = (mask if mask.dtype == torch.bool else mask == 0)[0, 0]
        self._mask, self._plan = mask, BlockPlan.of(visible, size)
        return self._plan


@dataclass(frozen=True, slots=True)
class BlockScores:
    """What an indexer hands to attention in place of the numbers of blocks: `scores`, float32 [heads, rows, slots]."""

    scores: Tensor
    indexer: Any
    chooser: BlockChooser

    def seen(self, mask: Tensor | None) -> Tensor:
        """As `BlockChooser.seen`."""
        return self.chooser.seen(self.indexer, self.scores, mask)


class _Adopted:
    """`forward` and `build_block_mask` of one indexer."""

    def __init__(self, indexer: Any, chooser: BlockChooser) -> None:
        self._indexer, self._chooser = indexer, chooser
        self._turn = sys.modules[type(indexer).__module__].apply_rotary_pos_emb

    def forward(self, hidden_states: Tensor, embeddings: tuple[Tensor, Tensor], cache: Any, _ids: Any) -> BlockScores:
        """The scores of all slots for rows [1, rows, width]; takes their keys into the cache."""
        indexer, rows = self._indexer, hidden_states.shape[1]
        queries = indexer.q_norm(indexer.q_proj(hidden_states).view(1, rows, -1, indexer.head_dim)).transpose(1, 2)
        keys = indexer.k_norm(indexer.k_proj(hidden_states).view(1, rows, 1, indexer.head_dim)).transpose(1, 2)
        cos, sin = (part[..., : indexer.head_dim] for part in embeddings)
        queries, keys = self._turn(queries, keys, cos, sin)
        of_all = keys[:, 0] if cache is None else cache.layers[indexer.layer_idx].update_indexer(keys[:, 0])
        return BlockScores(queries[0].float() @ of_all.float().mT, indexer, self._chooser)

    def build_block_mask(
        self, scores: BlockScores, mask: Tensor | None, _slots: int, dtype: torch.dtype, *_others: Any
    ) -> Tensor:
        """What is added to the scores of all heads, [1, heads, rows, slots]."""
        seen = scores.seen(mask)
        group = self._indexer.config.num_attention_heads // len(seen)
        hidden = ~seen.repeat_interleave(group, 0)[None]
        return torch.zeros(hidden.shape, dtype=dtype, device=seen.device).masked_fill_(hidden, torch.finfo(dtype).min)


def choose_blocks_of_paths(layers: Iterable[nn.Module]) -> None:
    """Have the indexers of these layers choose among a node's own path, where they choose blocks."""
    chooser = BlockChooser()
    for layer in layers:
        for module in layer.modules():
            if type(module).__name__ == INDEXER:
                indexer: Any = module
                made = _Adopted(indexer, chooser)
                indexer.forward, indexer.build_block_mask = made.forward, made.build_block_mask
