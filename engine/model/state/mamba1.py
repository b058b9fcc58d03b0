"""Mamba's state space layer over a token tree in one pass (Jamba).

Along every path `S = exp(dt A) S' + dt x B^T` and `y = S C + D x`, where S' is the parent's state (Gu and Dao 2023,
arXiv 2312.00752). Every channel decays every number of its state in its own way, so that there is no quadratic form as
in Mamba-2. The tree is walked one generation at a time, and only the states of two generations are there at once.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine import accelerator
from engine.model.state.tree_paths import Generation
from engine.model.state.writes import Writes

STATES_AT_ONCE = 1 << 23  # numbers: channels are independent, and taken in slices where a generation is broad


def mamba1_tree(
    inputs: Tensor,
    steps: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    state: Tensor,
    generations: Sequence[Generation],
    earlier: Writes | None = None,
) -> tuple[Tensor, Writes]:
    """What the m new nodes read of their states, float32 [batch, m, channels], and what they write.

    inputs and steps (time steps, positive): [batch, m, channels]; a (negative): [channels, state size]; b and c:
    [batch, m, state size]; state: [batch, channels, state size] at the root; generations: as from
    `TreePaths.generations`, of all nodes. `earlier`: of the older ones, which are walked again, as none left a state.
    """
    steps = steps.float()
    new = Writes(b.float()[:, :, None], (inputs.float() * steps)[..., None], steps)
    everything = new.behind(earlier)
    older = len(everything) - len(new)
    readers = functional.pad(c.float(), (0, 0, older, 0))
    size = max(1, STATES_AT_ONCE // (max(len(nodes) for nodes, _ in generations) * a.shape[1]))
    parts = [slice(begin, begin + size) for begin in range(0, len(a), size)]
    read = [_walk(everything, a[part], readers, state.float()[:, part], generations, part) for part in parts]
    return torch.cat(read, 2)[:, older:], new


def _walk(writes: Writes, a: Tensor, c: Tensor, root: Tensor, generations: Sequence[Generation], part: slice) -> Tensor:
    """What all nodes read, [batch, n, channels of `part`]; a and root are of these channels alone."""
    output = c.new_empty((*c.shape[:2], len(a)))
    above = root[:, None]
    for nodes, parents in generations:
        above = _step(above.index_select(1, parents), writes, nodes, a, part)
        output[:, nodes] = (above @ c[:, nodes, :, None]).squeeze(-1)
    return output


def mamba1_advance(a: Tensor, state: Tensor, writes: Writes, path: Sequence[int]) -> Tensor:
    """The state behind `path`, nodes from a child of the root downwards; float32 [batch, channels, state size]."""
    found = state.float()[:, None]
    for node in accelerator.sent(path, state.device)[:, None]:
        found = _step(found, writes, node, a, slice(None))
    return found[:, 0]


def _step(above: Tensor, writes: Writes, nodes: Tensor, a: Tensor, part: slice) -> Tensor:
    """States of `nodes`, int64 [w], from those of their parents; both [batch, w, channels of `part`, state size]."""
    decays = (a.float() * writes.log_decays[:, nodes, part, None]).exp()
    return above * decays + writes.values[:, nodes, part] * writes.keys[:, nodes]
