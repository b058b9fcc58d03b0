"""How often the target accepted the k-th child, counted over rounds; from this the acceptance vector."""

from engine.speculation.acceptance_vector import PRIOR, AcceptanceVector
from engine.speculation.tree import Path, Tree


class AcceptanceCounts:
    """Sequoia's acceptance vector (arXiv 2402.12374, section 3.1), measured.

    The children of an accepted node are tried in their order until one is accepted. Of child k it is known, whenever it
    was tried, whether it was accepted: accepted / tried estimates r_k, its acceptance once all before were rejected. A
    node with fewer than k children tells nothing about child k, and counts for those it has (as in Kaplan and Meier
    1958). What the dynamic programme needs is the probability that the k-th is the one accepted:

        p_k = r_k (1 - r_1) ... (1 - r_{k-1}),  so that the sum of all p_k = 1 - (1 - r_1) (1 - r_2) ... is at most 1.

    Far children are tried seldom. The counts begin as if each had been tried a few times, and accepted as the prior
    says: seen nothing, the vector is the prior; and none is taken for impossible because it never happened.
    """

    def __init__(self, prior_tries: float = 2.0) -> None:
        """`prior_tries`: what the prior counts for, in tries of each child."""
        self._tried = [prior_tries] * len(PRIOR)
        self._accepted = [prior_tries * rate for rate in _rates(PRIOR)]

    def observe(self, tree: Tree, path: Path) -> None:
        """One round. The children of a node stand in the tree in the order in which they were drawn and tried."""
        for node, token in zip(path.nodes, path.tokens(tree), strict=True):
            children = [child for child, parent in enumerate(tree.parents) if parent == node][: len(PRIOR)]
            for rank, child in enumerate(children):
                self._tried[rank] += 1.0
                if tree.tokens[child] == token:  # also where it ended the answer as the bonus token
                    self._accepted[rank] += 1.0
                    break

    def vector(self) -> AcceptanceVector:
        """p_1, p_2, ..., up to the last child that was ever tried or has a prior; empty if there is none."""
        found, none_before = [], 1.0
        for tried, accepted in zip(self._tried, self._accepted, strict=True):
            if not tried:
                break
            found.append(none_before * accepted / tried)
            none_before *= 1.0 - accepted / tried
        return tuple(found)


def _rates(acceptance: AcceptanceVector) -> list[float]:
    """r_1, r_2, ...: the acceptance of each child, once all before were rejected."""
    rates, none_before = [], 1.0
    for probability in acceptance:
        rates.append(min(1.0, probability / none_before))
        none_before -= probability
    return rates
