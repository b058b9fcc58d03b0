"""Lightning attention over token trees (MiniMax-Text-01, M1): attention without a softmax, whose state decays.

Along every path `S = exp(-slope) S' + k v^T` and `y = q S`, where S' is the parent's state (Qin et al. 2024, arXiv
2401.04658): what Mamba-2 computes, with a decay that is the same for every token of a head. transformers' module keeps
its state in a cache of its own, and reads a text behind one token by token, so that its `forward` is replaced here.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.state.mamba2 import mamba2_advance, mamba2_tree
from engine.model.state.state_layer import StateLayer
from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes

BLOCK = 256  # tokens of a text that are compared with each other at a time, as published


class LightningMixer:
    """`forward` of one such module, for chains and trees."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._log_decays = -module.get_slope_rate(torch.device("cpu")).flatten()  # [heads]

    def __call__(self, hidden_states: Tensor, past_key_values: Any = None, **_others: Any) -> tuple[Tensor, None]:
        """As the module's own `forward`, of rows [1, m, width] without padding; without a cache they begin a text."""
        module = self._module
        heads, dim = module.num_attention_heads, module.head_dim
        projected = module.act_fn(module.qkv_proj(hidden_states)).unflatten(-1, (heads, 3 * dim))
        query, key, value = projected.split(dim, -1)  # [1, m, heads, dim] each
        layer = None if past_key_values is None else past_key_values.layers[module.layer_idx]
        if isinstance(layer, StateLayer) and layer.tree is not None:
            state = layer.state(1, heads, dim, dim, device=value.device)
            read, writes = self._read(query, key, value, state, layer.tree.paths, layer.writes)
            layer.add(writes, mamba2_advance)
        else:
            read = self._read_text(query, key, value, layer)
        mixed = module.norm(read.to(value.dtype).flatten(-2))
        return module.out_proj(functional.sigmoid(module.output_gate(hidden_states)) * mixed), None

    def _read_text(self, query: Tensor, key: Tensor, value: Tensor, layer: StateLayer | None) -> Tensor:
        """What the tokens of a text read, which moves the state of `layer` along."""
        _, count, heads, dim = value.shape
        state = None if layer is None else layer.recurrent_states[0]
        state = value.new_zeros((1, heads, dim, dim), dtype=torch.float32) if state is None else state
        found = []
        for begin in range(0, count, BLOCK):
            queries, keys, values = (part[:, begin : begin + BLOCK] for part in (query, key, value))
            rows = values.shape[1]
            chain = TreePaths(torch.ones(rows, rows, dtype=torch.bool, device=value.device).tril_())
            read, writes = self._read(queries, keys, values, state, chain)
            state = mamba2_advance(state, writes, range(rows))
            found.append(read)
        if layer is not None:
            layer.update_recurrent_state(state)
        return torch.cat(found, 1)

    def _read(
        self, query: Tensor, key: Tensor, value: Tensor, state: Tensor, paths: TreePaths, earlier: Writes | None = None
    ) -> tuple[Tensor, Writes]:
        """As `mamba2_tree`, with steps of one."""
        logs = self._log_decays.to(value.device, non_blocking=True)
        steps = logs.new_ones(value.shape[:3])
        return mamba2_tree(value, steps, logs, key, query, torch.zeros_like(logs), state, paths, earlier)
