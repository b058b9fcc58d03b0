"""Sequoia's hardware-aware optimiser (arXiv 2402.12374, section 3.3): the tree that costs the least time per token."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.speculation.trees.tree_program import TreeProgram

Gain = Callable[[int, int], float]
"""(nodes, levels), both with the root -> expected tokens of a pass."""


@dataclass(frozen=True, slots=True)
class TreeSize:
    """The most drafted nodes and drafted levels, the root counted in neither; `seconds_per_token` is a prediction."""

    budget: int
    depth: int
    seconds_per_token: float


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Seconds of a pass, measured at ascending numbers of nodes.

    In between they lie on a line; below the first they stay the same, above the last they grow in proportion, which is
    the most that they can: so the sizes measured should reach as far as what is chosen from.
    """

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __call__(self, nodes: float) -> float:
        """Seconds of a pass over `nodes` nodes."""
        right = bisect_left(self.nodes, nodes)
        if right == 0:
            return self.seconds[0]
        if right == len(self.nodes):
            return self.seconds[-1] * nodes / self.nodes[-1]
        low, high = self.nodes[right - 1], self.nodes[right]
        share = (nodes - low) / (high - low)
        return self.seconds[right - 1] * (1 - share) + self.seconds[right] * share


def best_size(
    gain: Gain,
    budgets: Iterable[int],
    depths: Iterable[int],
    draft_seconds: Callable[[float], float],
    target_seconds: Callable[[float], float],
) -> TreeSize:
    """The size and depth that minimise (d t_draft + t_target(n)) / G(n, d); of equals the first, and first of all none.

    `draft_seconds`: of one draft pass, a level, by the nodes it reads, taken to be a level's average; `target_seconds`:
    of one pass of the target, by its nodes, the root counted.
    """
    depths = list(depths)
    best = TreeSize(0, 0, target_seconds(1))
    for budget in budgets:
        for depth in depths:
            if depth > budget:
                continue
            drafting = depth * draft_seconds(budget / depth)
            seconds = (drafting + target_seconds(budget + 1)) / gain(budget + 1, depth + 1)
            if seconds < best.seconds_per_token:
                best = TreeSize(budget, depth, seconds)
    return best


def sizes_up_to(most: int) -> list[int]:
    """Budgets worth trying: every one at first, then in steps of about an eighth."""
    sizes = [1]
    while sizes[-1] < most:
        sizes.append(min(most, sizes[-1] + max(1, sizes[-1] // 8)))
    return sizes


def best_tree(
    program: TreeProgram, draft_seconds: PassTimes, target_seconds: PassTimes, most_levels: int | None = None
) -> TreeSize:
    """`best_size` over all that the programme covers, of at most `most_levels` drafted levels."""
    depths = range(1, min(program.levels, (most_levels or program.levels) + 1))
    budgets = sizes_up_to(program.nodes - 1)
    return best_size(program.gain, budgets, depths, draft_seconds, target_seconds)
