"""Sequoia's hardware-aware optimiser (arXiv 2402.12374, section 3.3): the tree that costs the least time per token."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.speculation.trees.tree_program import TreeProgram
from engine.speculation.tuning.pass_time import PassTime

Gain = Callable[[int, int], float]
"""(nodes, levels), both with the root -> expected tokens of a pass."""


@dataclass(frozen=True, slots=True)
class TreeSize:
    """The most drafted nodes and drafted levels, the root counted in neither; `seconds_per_token` is a prediction."""

    budget: int
    depth: int
    seconds_per_token: float


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
    program: TreeProgram, draft_seconds: PassTime, target_seconds: PassTime, most_levels: int | None = None
) -> TreeSize:
    """`best_size` over all that the programme covers, of at most `most_levels` drafted levels."""
    depths = range(1, min(program.levels, (most_levels or program.levels) + 1))
    budgets = sizes_up_to(program.nodes - 1)
    return best_size(program.gain, budgets, depths, draft_seconds, target_seconds)
