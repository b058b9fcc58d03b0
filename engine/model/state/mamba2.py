"""Mamba-2's state space layer over a token tree in one pass (SSD: Bamba, Falcon-H1, Granite 4, Nemotron-H).

Along every path `S = exp(dt A) S' + dt x B^T` and `y = S C + D x`, where S' is the parent's state (Dao and Gu 2024,
arXiv 2405.21060; over trees: STree, arXiv 2505.14969). What a node writes does not depend on S', so there is nothing to
solve: the quadratic form of the paper, with the ancestor mask where a chain has the causal one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes, advance, spread


def mamba2_tree(
    inputs: Tensor,
    steps: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    state: Tensor,
    paths: TreePaths,
    earlier: Writes | None = None,
) -> tuple[Tensor, Writes]:
    """Outputs, float32 [batch, m, heads, head dim], and what the m new nodes write.

    Shapes and meaning as of transformers' `mamba2_chunk_scan`: inputs [batch, m, heads, head dim], steps [batch, m,
    heads] as from `time_steps`, a (negative) and d [heads], b and c [batch, m, groups, state size], state
    [batch, heads, head dim, state size] at the root. `earlier`: of the nodes before `paths.begin`.
    """
    new = Writes(b.float(), inputs.float() * steps[..., None], a.float() * steps)
    everything = new.behind(earlier)
    sums = paths.sums(everything.log_decays)
    from_root = sums[:, paths.begin :].exp().float().transpose(1, 2)[..., None]  # [batch, heads, m, 1]

    heads = inputs.shape[2]
    queries, keys = c.float().transpose(1, 2), everything.keys.transpose(1, 2)
    reading = spread(queries @ keys.mT, heads, 1) * paths.decays_between(sums)
    output = reading @ everything.values.transpose(1, 2)
    output += spread(queries, heads, 1) @ state.float().mT * from_root
    output = output.transpose(1, 2) + d[:, None] * inputs.float()
    return output.contiguous(), new  # some networks only view it in another shape


def time_steps(dt: Tensor, bias: Tensor, limit: tuple[float, float], limited: Tensor) -> Tensor:
    """Time steps, float32 [batch, m, heads], of what the layer's projection gives; bias: [heads].

    Only the steps of nodes in `limited`, bool [m], are held to `limit`: transformers holds those of a prompt to it, but
    not those of the tokens that it then generates one by one.
    """
    steps = functional.softplus(dt + bias.to(dt.dtype))
    return torch.where(limited[:, None], steps.clamp(*limit), steps).float()


def mamba2_advance(state: Tensor, writes: Writes, path: Sequence[int]) -> Tensor:
    """The state behind `path`, float32 [batch, heads, head dim, state size]; see `advance`."""
    return advance(state.mT, writes, path).mT.contiguous()
