"""The gated delta rule over a token tree in one pass: Gated DeltaNet (Qwen3-Next, Qwen3.5, OLMo Hybrid), Kimi Linear.

Along every path `S = a S' (I - b k k^T) + b v k^T`, where S' is the parent's state (Yang et al. 2024,
arXiv 2412.06464). With `u = b (v - a S'^T k)`, what a node really writes, this is `S = a S' + k u^T`, so S at a node is
the root's state and the writes of the node's ancestors, each with the decays in between. Put in place of S', that gives
one system of equations for all u, unit-triangular because ancestors stand before their descendants: the chunked form of
the paper, with the ancestor mask where a chain has the causal one.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.model.state.tree_paths import TreePaths
from engine.model.state.writes import Writes, spread

NORM_EPSILON = 1e-6  # of transformers' `l2norm`, as every family calls it
BLOCK = 16  # nodes to compare at a time where every channel has its own decay
PAIRED_CHANNELS = 1 << 22  # numbers to hold at a time where every channel of every pair of nodes has its own decay


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
    [batch, heads, key dim, value dim] at the root. Kimi Linear's log_decay is [batch, m, heads, key dim], a decay for
    every channel of the key. `earlier`: of the nodes before `paths.begin`.
    """
    heads = value.shape[2]
    new = Writes(unit_length(key), value.float(), log_decay.float())
    everything = new.behind(earlier)
    sums = paths.sums(everything.log_decays)
    keys = spread(new.keys, heads).transpose(1, 2)
    queries = spread(unit_length(query) * query.shape[-1] ** -0.5, heads).transpose(1, 2)
    from_root = sums[:, paths.begin :].exp().float().transpose(1, 2)
    if log_decay.ndim == 3:
        from_root = from_root[..., None]

    compare = _compare_heads if log_decay.ndim == 3 else _compare_channels
    likeness, reading = compare((keys, queries), everything.keys.transpose(1, 2), sums, paths)
    root = state.float()
    values = new.values.transpose(1, 2) - keys * from_root @ root
    written = solve_writes(likeness, values, beta.float().transpose(1, 2)[..., None], earlier)
    output = queries * from_root @ root + reading @ _join(earlier, written)
    return output.transpose(1, 2).to(query.dtype), Writes(new.keys, written.transpose(1, 2), new.log_decays)


def _compare_heads(rows: Sequence[Tensor], keys: Tensor, sums: Tensor, paths: TreePaths) -> list[Tensor]:
    """Products of each of `rows` with the decayed keys of ancestors, [batch, heads, m, n]; one decay for a whole key.

    Each of rows: [batch, heads, m, key dim]; keys: [batch, groups, n, key dim]; sums: as from `TreePaths.sums`.
    """
    decays = paths.decays_between(sums)
    shared = decays.shape[1] // keys.shape[1]  # heads of one group have the same rows: each product is computed once
    return [spread(row[:, ::shared] @ keys.mT, decays.shape[1], 1) * decays for row in rows]


def _compare_channels(rows: Sequence[Tensor], keys: Tensor, sums: Tensor, paths: TreePaths) -> list[Tensor]:
    """As `_compare_heads`, with a decay for every channel; a block of nodes at a time bounds the memory."""
    count, heads = rows[0].shape[2], rows[0].shape[1]
    keys = spread(keys, heads, 1)
    size = min(BLOCK, max(1, PAIRED_CHANNELS // keys.numel()))
    found = [row.new_zeros((*row.shape[:3], keys.shape[2])) for row in rows]
    for begin in range(0, count, size):
        block = slice(begin, begin + size)
        seen = paths.begin + min(count, begin + size)  # no node sees one behind it
        decayed = paths.channel_decays(sums, begin, begin + size) * keys[:, :, None, :seen]
        for products, row in zip(found, rows, strict=True):
            products[:, :, block, :seen] = (decayed @ row[:, :, block, :, None]).squeeze(-1)
    return found


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
