"""DeepSeek V4's compressed attention under a tree: what stands for many tokens stands for tokens of one path.

Beside a window of tokens its layers attend to entries that each stand for `compress_rate` tokens in a row: means of
what every token of them gives, weighted by gates; with the tokens before them, where an indexer chooses among the
entries (DeepSeek-V4, 2026). transformers' caches keep the entries and forget the tokens. Here the cache keeps what
every token gives, so that the entries of any path can be made of it, and those of the committed text once made.
"""

import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from engine.model.passes.pool_choice import PoolPlan
from engine.model.passes.sight import Sight

COMPRESSORS = frozenset({"DeepseekV4CSACompressor", "DeepseekV4HCACompressor"})  # as transformers calls the classes


class EntryPlanner:
    """Plans the entries of a pass once for all layers that compress alike."""

    def __init__(self) -> None:
        self._sight: Sight | None = None
        self._plans: dict[tuple[int, int], PoolPlan] = {}

    def plan(self, sight: Sight, size: int, before: int, device: torch.device) -> PoolPlan:
        """The entries of what the rows of a pass see: each of `size` tokens, and of `before` that stand before them."""
        if sight is not self._sight:
            self._sight, self._plans = sight, {}
        if (size, before) not in self._plans:
            self._plans[size, before] = PoolPlan.of(sight.on(device).mask(0), size, before)
        return self._plans[size, before]


class PathCompressor:
    """`forward` of one compressor, with its indexer if it has one."""

    def __init__(self, compressor: Any, planner: EntryPlanner) -> None:
        self._compressor, self._planner = compressor, planner
        self._indexer = getattr(compressor, "indexer", None)
        self._turn = sys.modules[type(compressor).__module__].apply_rotary_pos_emb

    def __call__(
        self, hidden_states: Tensor, q_residual: Tensor, position_ids: Tensor, past_key_values: Any, layer_idx: int
    ) -> tuple[Tensor, Tensor]:
        """Entries [1, 1, entries, width], and what is added to their scores for rows [1, rows, hidden width]."""
        compressor, indexer, rows = self._compressor, self._indexer, hidden_states.shape[1]
        makers = [compressor] if indexer is None else [compressor, indexer]
        given = torch.cat([part(hidden_states) for each in makers for part in (each.kv_proj, each.gate_proj)], -1)
        layer, sight = None, Sight.of_text(0, rows)
        if past_key_values is not None:
            layer, sight = past_key_values.layers[layer_idx], past_key_values.sight
            given = layer.update_indexer(given)
        size = compressor.compress_rate
        plan = self._planner.plan(sight, size, 0 if indexer is None else size, given.device)
        entries = self._entries(makers, given[0], plan, layer, sight.base // size)
        own = entries[:, : compressor.head_dim]
        seen = plan.visible
        if indexer is not None and len(entries):
            seen = self._chosen(entries[:, compressor.head_dim :], q_residual, hidden_states, position_ids, seen)
        added = own.new_zeros(seen.shape).masked_fill(~seen, -torch.inf)
        return own[None, None], added[None, None]

    def _entries(self, makers: list[Any], given: Tensor, plan: PoolPlan, layer: Any, committed: int) -> Tensor:
        """Those of all makers side by side, [entries, widths]; the first `committed` are remembered."""
        _, known = (0, None) if layer is None else layer.entries.get(id(self), (0, None))
        done = 0 if known is None else min(len(known), committed)
        made, begin = [], 0
        for maker in makers:
            width = maker.kv_proj.out_features
            kv, gates = given[:, begin : begin + width], given[:, begin + width : begin + 2 * width]
            made.append(self._compressed(maker, kv, gates, plan.pools[done:], plan.begins[done:]))
            begin += 2 * width
        entries = torch.cat(made, -1) if known is None else torch.cat([known[:done], torch.cat(made, -1)])
        if layer is not None:
            layer.entries[id(self)] = self._compressor.compress_rate, entries[:committed]
        return entries

    def _compressed(self, maker: Any, kv: Tensor, gates: Tensor, pools: Tensor, begins: Tensor) -> Tensor:
        """Entries [pools, width] of what tokens give, [slots, width], or twice that for pools and those before them."""
        width, size = maker.head_dim, maker.compress_rate
        slots, bias = pools.clamp(min=0), maker.position_bias
        values, weights = kv[slots[:, -size:]], gates[slots[:, -size:]] + bias
        if pools.shape[1] > size:  # what a token gives to the next entry, and to its own
            before = slots[:, :-size]
            none = pools[:, :-size, None] < 0
            of_others = (gates[before][..., :width] + bias[:, :width]).masked_fill(none, -torch.inf)
            values = torch.cat([kv[before][..., :width], values[..., width:]], 1)
            weights = torch.cat([of_others, weights[..., width:]], 1)
        shares = weights.softmax(1, dtype=torch.float32).to(values.dtype)
        found = maker.kv_norm((values * shares).sum(1))[None]
        cos, sin = maker.rotary_emb(found, position_ids=begins[None], layer_type=maker.rope_layer_type)
        turned: Tensor = self._turn(found[:, None], cos, sin)[0, 0]
        return turned

    def _chosen(
        self, entries: Tensor, q_residual: Tensor, hidden_states: Tensor, position_ids: Tensor, visible: Tensor
    ) -> Tensor:
        """Which of the entries that they see the rows attend to: bool [rows, entries]."""
        indexer: Any = self._indexer
        cos, sin = indexer.rotary_emb(hidden_states, position_ids=position_ids, layer_type=indexer.rope_layer_type)
        queries = indexer.q_b_proj(q_residual).view(1, len(visible), -1, indexer.head_dim).transpose(1, 2)
        queries = self._turn(queries, cos, sin).transpose(1, 2)
        rated = indexer.scorer(queries, entries[None], hidden_states)[0].masked_fill(~visible, -torch.inf)
        numbers = rated.topk(min(indexer.index_topk, len(entries)), -1).indices
        return torch.zeros_like(visible).scatter_(1, numbers, True) & visible


def compress_paths(layers: Iterable[nn.Module]) -> None:
    """Have the compressors of these layers make entries of a node's own path."""
    planner = EntryPlanner()
    for layer in layers:
        for module in layer.modules():
            if type(module).__name__ in COMPRESSORS:
                compressor: Any = module
                compressor.forward = PathCompressor(compressor, planner)
