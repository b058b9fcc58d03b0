"""Random trees, and decays as networks have them: near 0, near 1, and mixed."""

from collections.abc import Sequence

import torch
from hypothesis import strategies
from torch import Tensor

from tests.campaigns.extent import choose

EXAMPLES = choose(15, 400)
Case = tuple[list[int], str, torch.Generator]
DECAYS = ("near 0", "near 1", "mixed", "one zero")


def grow(nodes: int, bushiness: float, generator: torch.Generator) -> list[int]:
    """Parents of a random tree: chains where `bushiness` is 0, anything from one generation upwards where it is 1."""
    anywhere = torch.rand(nodes, generator=generator) < bushiness
    draws = torch.rand(nodes, generator=generator)
    return [int(draws[node] * (node + 1)) - 1 if anywhere[node] else node - 1 for node in range(nodes)]


def ancestor_mask(parents: Sequence[int]) -> Tensor:
    """bool [n, n] of `parents`, -1 for the root: row i tells which nodes are above node i, itself included."""
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        assert parent < node, "a parent stands before its children"
        if parent >= 0:
            mask[node] |= mask[parent]
    return mask


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    """The nodes from a child of the root down to `node`."""
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


def log_decays(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Logarithms of decays [batch, nodes, ...]."""
    draws = torch.rand(shape, generator=generator)
    if kind == "near 0":
        return -30 - 100 * draws
    if kind == "near 1":
        return -1e-4 * draws
    logs = -torch.where(torch.rand(shape, generator=generator) < 0.2, 200 * draws, 1e-2 * draws)
    if kind == "one zero":
        logs[:, shape[1] // 2] = -torch.inf
    return logs


@strategies.composite
def cases(draw: strategies.DrawFn) -> Case:
    """A tree of 1 to 256 nodes, a kind of decays, and the generator to draw numbers from."""
    generator = torch.Generator().manual_seed(draw(strategies.integers(0, 2**32 - 1)))
    nodes = draw(strategies.sampled_from((1, 2, 3, 17, 64, 256)))
    parents = grow(nodes, draw(strategies.sampled_from((0.0, 0.3, 1.0))), generator)
    return parents, draw(strategies.sampled_from(DECAYS)), generator
