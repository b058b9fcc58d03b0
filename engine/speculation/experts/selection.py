"""Which nodes of a draft are worth their rows and the experts that only they would touch."""

from collections.abc import Sequence

import numpy as np

from engine.speculation.experts.routed_sets import Shares
from engine.speculation.trees.arrays import Numbers

PATIENCE = 8  # further nodes that are looked at behind the best tree so far, and as many again as it has


def worthwhile(chances: Numbers, parents: Sequence[int], touched: Shares, dear: Numbers, rows: Numbers) -> list[int]:
    """The nodes behind the root of the tree that is worth most, ascending: a set that is closed under ancestors.

    Best first: of the nodes whose parents are in, the one whose chance exceeds most what the experts are expected to
    cost that nothing in the tree touches yet. So a node that shares its experts with the path is cheap, and every
    node makes others cheaper. Of all trees on this way, the one with the most tokens less its price is taken: at the
    best rate that is the one with the most tokens per second (Dinkelbach, 1967).

    `chances`: float64 [n] of being accepted, the root first; `parents`: -1 for the root; `touched`: [n, figures], the
    probability that a node touches an expert. For trees of 0, 1, ... nodes up to the largest that may be chosen, in
    float64, `dear`: tokens that each expert costs, and `rows`: tokens that a pass costs besides.
    """
    parent = np.asarray(parents)
    untouched = 1.0 - touched[0]
    is_open = parent == 0  # not in, but its parent is
    tokens, experts, best, taken = 0.0, float(touched[0].sum()), 0, list[int]()
    best_worth = -float(dear[0]) * experts - float(rows[0])
    while len(taken) + 1 < len(rows) and is_open.any() and len(taken) < 2 * best + PATIENCE:
        first = touched @ untouched  # experts that nothing in the tree touches yet
        node = int(np.where(is_open, chances - dear[len(taken) + 1] * first, -np.inf).argmax())
        tokens, experts = tokens + float(chances[node]), experts + float(first[node])
        taken.append(node)
        untouched = untouched * (1.0 - touched[node])
        is_open[node] = False
        is_open |= parent == node
        worth = tokens - float(dear[len(taken)]) * experts - float(rows[len(taken)])
        if worth > best_worth:
            best, best_worth = len(taken), worth
    return sorted(taken[:best])
