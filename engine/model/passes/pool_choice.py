"""GLM 5.3 Flash's indexed attention under a tree: what its indexers pool and choose are tokens of a node's own path.

An indexer there makes one key of every `index_kpool` tokens in a row, rates these pools, and the attention reads the
tokens of those it rates highest, and those behind the last whole pool. transformers pools neighbouring slots of the
cache; here a pool is a slot at the end of one, and its ancestors, so that every node of a tree ends at most one, and
rows that see the last token of a pool see all of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

INDEXER = "Glm5NextTextIndexer"  # as transformers calls the class


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """The pools of all texts that the rows of a pass see, and what of it is no whole pool yet.

    `pools`: int64 [pools, reach], slots in the order of the text: those of a pool, behind as many as are wanted of
    what stands before it, -1 for nothing. `begins`: int64 [pools], the position of the first token of each. `visible`:
    bool [rows, pools]. `tails`: int64 [rows, size - 1], the slots behind each row's last pool, and -1.
    """

    pools: Tensor
    begins: Tensor
    visible: Tensor
    tails: Tensor

    @classmethod
    def of(cls, visible: Tensor, size: int, before: int = 0) -> "PoolPlan":
        """`visible`: bool [rows, slots], the last of which are those of the rows; `before`: tokens before a pool."""
        seen_by_all = visible.all(0)
        prefix = len(seen_by_all) if bool(seen_by_all.all()) else int(seen_by_all.to(torch.uint8).argmin())
        whole, reach = prefix - prefix % size, size + before
        begins = torch.arange(0, whole, size, device=visible.device)
        first = (begins[:, None] - before + torch.arange(reach, device=visible.device)).clamp_(min=-1)
        known = max(0, whole - before)  # from here on every pool may need to know whose ancestors are whose
        others, lengths = _pools_of_paths(visible[:, known:], size, reach, known, whole)
        pools = torch.cat([first, torch.where(others < 0, -1, others + known)])
        return cls(pools, torch.cat([begins, lengths - size]), visible[:, pools[:, -1]], _tails(visible, size))


def _pools_of_paths(visible: Tensor, size: int, reach: int, known: int, whole: int) -> tuple[Tensor, Tensor]:
    """Pools, int64 [pools, reach], that end behind `whole` tokens of a text, and its lengths up to their ends.

    `visible`: bool [rows, slots], as of `PoolPlan.of`, without the first `known` slots, which all rows see.
    """
    rows, slots = visible.shape
    numbers = torch.arange(slots, device=visible.device)
    # A slot's ancestors are what stands before it on the path of a row that sees it: its own, where it has one.
    owners = visible.to(torch.uint8).argmax(0)
    owners[slots - min(rows, slots) :] = torch.arange(rows - min(rows, slots), rows, device=visible.device)
    ancestors = visible[owners] & (numbers <= numbers[:, None])
    lengths = ancestors.sum(1) + known
    ends = (ancestors.diagonal() & (lengths % size == 0) & (lengths > whole)).nonzero().flatten()
    padded = functional.pad(torch.where(ancestors[ends], numbers, -1), (reach, 0), value=-1)
    return padded.topk(reach, sorted=True).values.flip(1), lengths[ends]


def _tails(visible: Tensor, size: int) -> Tensor:
    """As `PoolPlan.tails`."""
    slots = visible.shape[1]
    numbers, width = torch.arange(slots, device=visible.device), min(size - 1, slots)
    last = torch.where(visible, numbers, -1).topk(width, sorted=True).values
    counts = visible.sum(1, keepdim=True) % size
    return last.masked_fill(torch.arange(width, device=visible.device) >= counts, -1)


class PoolChooser:
    """Plans pools once for all layers of a pass, which have one mask."""

    def __init__(self) -> None:
        self._mask: Tensor | None = None
        self._plan: PoolPlan | None = None

    def plan(self, mask: Tensor | None, rows: int, slots: int, size: int, device: torch.device) -> PoolPlan:
        """`mask`: [1, 1, rows, slots], bool or to be added to scores; None where rows see all that stands before."""
        if mask is not None and mask is self._mask and self._plan is not None:
            return self._plan
        if mask is None:
            visible = torch.ones(rows, slots, dtype=torch.bool, device=device).tril_(slots - rows)
        else:
            visible = (mask if mask.dtype == torch.bool else mask == 0)[0, 0]
        self._mask, self._plan = mask, PoolPlan.of(visible, size)
        return self._plan


class PoolIndexer:
    """`forward` of one such indexer."""

    def __init__(self, indexer: Any, chooser: PoolChooser) -> None:
        self._indexer, self._chooser = indexer, chooser

    @torch.no_grad()
    def __call__(
        self, hidden_states: Tensor, q_resid: Tensor, attention_mask: Tensor | None, past_key_values: Any
    ) -> Tensor:
        """The slots that rows [1, rows, width] attend to, int32 [1, rows, most], and -1; the cache takes their keys.

        `attention_mask` as of `PoolChooser.plan`, or without a cache the library's own of padding, bool [1, rows].
        """
        indexer, rows, dim = self._indexer, hidden_states.shape[1], self._indexer.head_dim
        queries = indexer.wq_b(q_resid).view(rows, -1, dim)
        keys = indexer.k_norm(indexer.wk(hidden_states))
        gates = functional.linear(hidden_states, indexer.index_kpool_compress_gate)
        states = torch.cat([keys, gates], -1)
        if past_key_values is not None:
            states = past_key_values.update_indexer(states, indexer.layer_idx)
        mask = None if attention_mask is None or attention_mask.ndim < 4 else attention_mask
        plan = self._chooser.plan(mask, rows, states.shape[1], indexer.index_kpool, states.device)

        pooled = self._pooled(states[0], plan.pools).float()
        scores = functional.relu(queries.float() @ pooled.mT * indexer.softmax_scale)
        weights = indexer.weights_proj(hidden_states.to(indexer.weights_proj.weight.dtype))[0].float()
        rated = ((weights * indexer.n_heads**-0.5)[:, None] @ scores)[:, 0]
        rated = rated.masked_fill(~plan.visible, torch.finfo(rated.dtype).min)
        numbers = rated.topk(min(indexer.index_topk // indexer.index_kpool, len(plan.pools)), -1).indices
        chosen = plan.pools[numbers].masked_fill(~plan.visible.gather(1, numbers)[..., None], -1).flatten(1)
        found = torch.cat([chosen, plan.tails], 1) if indexer.index_kpool_always_select_tail else chosen
        most = indexer.index_topk + (indexer.index_kpool - 1) * indexer.index_kpool_always_select_tail
        return functional.pad(found, (0, most - found.shape[1]), value=-1).to(torch.int32)[None]

    def _pooled(self, states: Tensor, pools: Tensor) -> Tensor:
        """The keys of pools, [pools, dim]: the mean of their tokens' keys, weighted channel by channel by the gates."""
        keys, gates = states.chunk(2, -1)
        weights = (gates[pools].float() + self._indexer.index_kpool_compress_ape.float()).softmax(1).to(keys.dtype)
        pooled: Tensor = (weights * keys[pools]).sum(1)
        return pooled


def choose_pools_of_paths(layers: Iterable[nn.Module]) -> None:
    """Have the indexers of these layers pool a node's own path, where they pool tokens."""
    chooser = PoolChooser()
    for layer in layers:
        for module in layer.modules():
            if type(module).__name__ == INDEXER:
                indexer: Any = module
                indexer.forward = PoolIndexer(indexer, chooser)
