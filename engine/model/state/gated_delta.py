"""The gated delta rule over a token tree in one pass (Gated DeltaNet: Qwen3-Next, Qwen3.5, OLMo Hybrid).

Along every path `S = a S' (I - b k k^T) + b v k^T`, where S' is the parent's state (Yang et al. 2024,
arXiv 2412.06464). With `u = b (v - a S'^T k)`, what a node really writes, this is `S = a S' + k u^T`, so S at a node is
the root's state and the writes of the node's ancestors, each with the decays in between. Put in place of S', that gives
one system of equations for all u, unit-triangular because ancestors stand before their descendants: the chunked form of
the paper, with the ancestor mask where a chain has the causal one.
"""

import torch
from torch import Tensor

from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes, spread

NORM_EPSILON = 1e-6  # of transformers' `l2norm`, as every family calls it


def gated_delta_tree(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    log_decay: Tensor,
    beta: Tensor,
    state: Tensor,
    paths: TreePaths,
    earlier: Writes | None = None,
) -> tuple[Tensor, Writes]:
    """Outputs [batch, m, heads, value dim] in the type of `query`, and what the m new nodes write.

    Shapes and meaning as of transformers' `torch_chunk_gated_delta_rule` with `use_qk_l2norm_in_kernel`: query and key
    [batch, m, groups, key dim], value [batch, m, heads, value dim], log_decay (`g`) and beta [batch, m, heads], state
    [batch, heads, key dim, value dim] at the root. `earlier`: of the nodes before `paths.begin`.
    """
    heads = value.shape[2]
    new = Writes(unit_length(key), value.float(), log_decay.float())
    everything = new.behind(earlier)
    sums = paths.sums(everything.log_decays)
    between = paths.decays_between(sums)  # [batch, heads, m, n]
    from_root = sums[:, paths.begin :].exp().float().transpose(1, 2)[..., None]  # [batch, heads, m, 1]

    keys = everything.keys.transpose(1, 2)
    queries = (unit_length(query) * query.shape[-1] ** -0.5).transpose(1, 2)
    root = state.float()
    likeness = spread(keys[:, :, paths.begin :] @ keys.mT, heads, 1) * between
    reading = spread(queries @ keys.mT, heads, 1) * between

    predicted = spread(keys[:, :, paths.begin :], heads, 1) @ root * from_root
    values = new.values.transpose(1, 2) - predicted
    written = solve_writes(likeness, values, beta.float().transpose(1, 2)[..., None], earlier)
    output = spread(queries, heads, 1) @ root * from_root + reading @ _join(earlier, written)
    writes = Writes(new.keys, written.transpose(1, 2), new.log_decays)
    return output.transpose(1, 2).to(query.dtype), writes


def solve_writes(likeness: Tensor, values: Tensor, beta: Tensor, earlier: Writes | None) -> Tensor:
    """What the new nodes write, [batch, heads, m, value dim]: `u_i = b_i (v_i - sum over ancestors j of l_ij u_j)`.

    likeness: [batch, heads, m, n], 0 where j is no ancestor of i; values: [batch, heads, m, value dim], less what the
    root's state predicts; beta: [batch, heads, m, 1].
    """
    before = 0 if earlier is None else len(earlier)
    if earlier is not None:
        values = values - likeness[..., :before] @ earlier.values.transpose(1, 2)
    # The solver takes the diagonal for 1 and does not read what is above it.
    system = likeness[..., before:] * beta
    written: Tensor = torch.linalg.solve_triangular(system, values * beta, upper=False, unitriangular=True)
    return written


def unit_length(vectors: Tensor) -> Tensor:
    """float32 vectors of length 1 in the last dimension, as transformers normalises queries and keys."""
    vectors = vectors.float()
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + NORM_EPSILON)


def _join(earlier: Writes | None, written: Tensor) -> Tensor:
    return written if earlier is None else torch.cat([earlier.values.transpose(1, 2), written], 2)
