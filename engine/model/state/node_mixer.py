"""Modules that read a few inputs back from each token, run on every node of a tree as on a text of one token.

Qwen4-Exp's per-layer embeddings look up n-grams of tokens and convolve what they find, with gaps: nothing in them is
replaced, they find for each node what stands before it on its own path.
"""

from typing import Any

import torch
from torch import Tensor

from engine.model.state.state_layer import StateLayer

# By the names of transformers' classes; each is called with rows, token ids and the cache.
PER_NODE = frozenset({"Qwen4ExpTextPLELayer"})
CONVOLVED, READ = 1, 2  # what these modules number their kept inputs: of the convolution, and the token ids


class _BeforeNodes:
    """Stands for the cache of such a module, whose batch are the m new nodes of a tree."""

    def __init__(self, layer: StateLayer, before: Tensor) -> None:
        """`before`: token ids before each node, int64 [m, kept]."""
        self._layer = layer
        self._before = before

    def get_conv_state(self, _layer: int, state_idx: int = 0) -> Tensor:
        """The token ids before each node."""
        assert state_idx == READ, "nothing else is read before it is written"
        return self._before

    def update_conv_state(
        self, conv_states: Tensor, _layer: int, state_idx: int = 0, conv_kernel_size: int = 0, **_kwargs: Any
    ) -> Tensor:
        """Take inputs [m, channels, 1]; returns [m, channels, kept + 1], each behind those before it. Ids are known."""
        if state_idx == READ:
            return conv_states
        before = self._layer.past(state_idx, conv_states[..., 0].mT[None], conv_kernel_size)
        return torch.cat([before, conv_states], -1)


class NodeMixer:
    """`forward` of one such module, for chains and trees."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._chain = module.forward

    def __call__(
        self, hidden_states: Tensor, input_ids: Tensor, past_key_values: Any = None, conv_mask: Tensor | None = None
    ) -> Tensor:
        """As the module's own `forward`: rows [1, m, width] and their token ids [1, m]."""
        layer = None if past_key_values is None else past_key_values.layers[self._module.layer_idx]
        if not isinstance(layer, StateLayer) or layer.tree is None:
            chained: Tensor = self._chain(hidden_states, input_ids, past_key_values, conv_mask)
            return chained
        reader = self._module.ple_embedding
        before = layer.past(READ, input_ids, reader.context_len, nothing=reader.eos_token_id)
        output: Tensor = self._chain(hidden_states.transpose(0, 1), input_ids.mT, _BeforeNodes(layer, before), None)
        return output.transpose(0, 1)
