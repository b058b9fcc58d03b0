"""How often the target accepted the k-th child, counted over rounds; from this the acceptance vector."""

from collections.abc import Iterable, Iterator, Sequence

from engine.speculation.interfaces import RoundResult
from engine.speculation.trees.arrays import State, figures, shortened
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import PRIOR, AcceptanceVector

MOST_KEPT = 2000.0  # tries of a child that a file may claim: later rounds must still be able to change the vector


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
        self.rounds = 0  # seen since the start

    @property
    def state(self) -> State:
        """What was counted, to be kept."""
        return {"tried": [shortened(each) for each in self._tried], "accepted": [shortened(x) for x in self._accepted]}

    @classmethod
    def restored(cls, state: State) -> "AcceptanceCounts":
        """As it was kept, with the same rates from at most `MOST_KEPT` tries; raises for what is no state."""
        counts, shape = cls(), (len(PRIOR),)
        tried, accepted = figures(state["tried"], shape, 0.0), figures(state["accepted"], shape, 0.0)
        if (accepted > tried).any() or not tried.all():
            raise ValueError("no child is accepted more often than it was tried")
        share = (MOST_KEPT / tried).clip(max=1.0)
        counts._tried, counts._accepted = (tried * share).tolist(), (accepted * share).tolist()
        return counts

    def observe_ranks(self, ranks: Iterable[int | None], listed: int) -> None:
        """Of some nodes, which of the draft's `listed` likeliest tokens the target said, from 0 on; None for no one."""
        self.rounds += 1
        for found in ranks:
            last = min(listed if found is None else found + 1, len(PRIOR))
            for rank in range(last):
                self._tried[rank] += 1.0
            if found is not None and found < len(PRIOR):
                self._accepted[found] += 1.0

    def observe(self, tree: Tree, path: Path, most: int = len(PRIOR)) -> None:
        """One round. The children of a node stand in the tree in the order in which they were drawn and tried.

        `most`: only so many children of a node count.
        """
        self.rounds += 1
        for node, token in zip(path.nodes, path.tokens(tree), strict=True):
            children = [child for child, parent in enumerate(tree.parents) if parent == node][:most]
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


def counted(results: Iterable[RoundResult], counts: AcceptanceCounts, is_greedy: bool) -> Iterator[RoundResult]:
    """The same rounds, counted where their trees show how Sequoia's children would be accepted.

    A chain tells of first children. So do SpecInfer's sequences, and when greedy, as their beginnings are then the
    likeliest tokens, of all. SpecExec's trees do not list the children by rank: it counts by itself.
    """
    most = {"sequoia": len(PRIOR), "chain": 1, "specinfer": len(PRIOR) if is_greedy else 1}
    for result in results:
        if children := most.get(result.choice.method.name):
            counts.observe(result.tree, result.path, children)
        yield result


def has_moved(now: Sequence[float], before: Sequence[float], share: float = 0.1, ranks: int = 8) -> bool:
    """Whether the chance that none of the first children is accepted differs by this share, for any number of them."""
    missed = missed_before = 1.0
    for probability, probability_before in zip(now[:ranks], before[:ranks], strict=False):
        missed, missed_before = missed - probability, missed_before - probability_before
        if abs(missed - missed_before) > share * max(missed_before, 1e-3):
            return True
    return False


def _rates(acceptance: AcceptanceVector) -> list[float]:
    """r_1, r_2, ...: the acceptance of each child, once all before were rejected."""
    rates, none_before = [], 1.0
    for probability in acceptance:
        rates.append(min(1.0, probability / none_before))
        none_before -= probability
    return rates
