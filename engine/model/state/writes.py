"""What pending nodes write into a state, and the state behind a path of them; for every kind whose writes add up.

At every node `state = decay * parent's state + key (outer) value`. A node's value may depend on its parent's state, as
with the delta rule; but once it is known, the state behind any path is a weighted sum: no node needs one of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine import accelerator
from engine.model.state.tree_paths import SMALLEST_LOG_DECAY


@dataclass(frozen=True, slots=True)
class Writes:
    """Of n nodes, float32: keys [batch, n, groups, key dim], values [batch, n, heads, value dim], and their decays.

    log_decays: [batch, n, heads], or [batch, n, heads, key dim] where every channel of a key has its own. `heads` is a
    multiple of `groups`: consecutive heads share a key.
    """

    keys: Tensor
    values: Tensor
    log_decays: Tensor

    def __len__(self) -> int:
        return self.keys.shape[1]

    @property
    def nbytes(self) -> int:
        """What they take in memory."""
        return sum(tensor.nbytes for tensor in self._tensors())

    def behind(self, earlier: "Writes | None") -> "Writes":
        """These nodes numbered behind those of `earlier`."""
        if earlier is None:
            return self
        pairs = zip(earlier._tensors(), self._tensors(), strict=True)
        return Writes(*(torch.cat(pair, 1) for pair in pairs))

    def select(self, nodes: Sequence[int]) -> "Writes":
        """Only `nodes`, in this order."""
        index = accelerator.sent(nodes, self.keys.device)
        return Writes(*(tensor.index_select(1, index) for tensor in self._tensors()))

    def _tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.keys, self.values, self.log_decays


def advance(state: Tensor, writes: Writes, path: Sequence[int]) -> Tensor:
    """The state behind `path`, nodes from a child of the root downwards; `state`: [batch, heads, key dim, value dim].

    Returns float32, whatever the type of `state`; `path` may be empty.
    """
    if not path:
        return state.float()
    kept = writes.select(path)
    logs = kept.log_decays.double().clamp(min=SMALLEST_LOG_DECAY)
    below = logs.flip(1).cumsum(1).flip(1)  # the decays of a node and of all below it
    if logs.ndim == 3:
        below, logs = below[..., None], logs[..., None]
    heads = kept.values.shape[2]
    keys = spread(kept.keys, heads) * (below - logs).exp().float()
    added = torch.einsum("bnhk,bnhv->bhkv", keys, kept.values)
    return state.float() * below[:, 0].exp().float()[..., None] + added


def spread(grouped: Tensor, heads: int, dim: int = 2) -> Tensor:
    """Repeat each group in `dim` for the consecutive heads that share it."""
    times = heads // grouped.shape[dim]
    return grouped if times == 1 else grouped.repeat_interleave(times, dim)
