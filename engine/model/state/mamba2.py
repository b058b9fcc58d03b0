"""Mamba-2's state space layer over a token tree in one pass (SSD: Bamba, Falcon-H1, Granite 4, Nemotron-H).

Along every path `S = exp(dt A) S' + dt x B^T` and `y = S C + D x`, where S' is the parent's state (Dao and Gu 2024,
arXiv 2405.21060; over trees: STree, arXiv 2505.14969). What a node writes does not depend on S', so there is nothing to
solve: the quadratic form of the paper, with the ancestor mask where a chain has the causal one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes, advance, spread


class Mamba2Weights(NamedTuple):
    """What a layer brings to its scan: A (negative), D and dt_bias, [heads] each, and the bounds of time steps."""

    a: Tensor
    d: Tensor
    dt_bias: Tensor
    dt_limit: tuple[float, float] = (0.0, float("inf"))


def mamba2_tree(
    inputs: Tensor,
    dt: Tensor,
    b: Tensor,
    c: Tensor,
    weights: Mamba2Weights,
    state: Tensor,
    paths: TreePaths,
    earlier: Writes | None = None,
) -> tuple[Tensor, Writes]:
    """Outputs, float32 [batch, m, heads, head dim], and what the m new nodes write.

    Shapes and meaning as of transformers' `mamba2_chunk_scan` with `dt_softplus`: inputs [batch, m, heads, head dim],
    dt [batch, m, heads] before bias and softplus, b and c [batch, m, groups, state size], state [batch, heads,
    head dim, state size] at the root. `earlier`: of the nodes before `paths.begin`.
    """
    steps = functional.softplus(dt + weights.dt_bias.to(dt.dtype)).clamp(*weights.dt_limit).float()
    new = Writes(b.float(), inputs.float() * steps[..., None], weights.a.float() * steps)
    everything = new.behind(earlier)
    sums = paths.sums(everything.log_decays)
    from_root = sums[:, paths.begin :].exp().float().transpose(1, 2)[..., None]  # [batch, heads, m, 1]

    heads = inputs.shape[2]
    queries, keys = c.float().transpose(1, 2), everything.keys.transpose(1, 2)
    reading = spread(queries @ keys.mT, heads, 1) * paths.decays_between(sums)
    output = reading @ everything.values.transpose(1, 2)
    output += spread(queries, heads, 1) @ state.float().mT * from_root
    return output.transpose(1, 2) + weights.d[:, None] * inputs.float(), new


def mamba2_advance(state: Tensor, writes: Writes, path: Sequence[int]) -> Tensor:
    """The state behind `path`, float32 [batch, heads, head dim, state size]; see `advance`."""
    return advance(state.mT, writes, path).mT.contiguous()
