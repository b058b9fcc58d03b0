"""How often a drafted token is really accepted, learnt online: by the draft's probability for it, and by its rank."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from engine.speculation.interfaces import RoundResult
from engine.speculation.trees.arrays import Integers, Numbers, State, figure, figures, isotonic, shortened
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.trees.tree_program import PRIOR, AcceptanceVector

LOWEST, HIGHEST, BUCKETS = -14.0, 12.0, 27  # log-odds of the draft's probability, a bucket per unit
PRIOR_SEEN = 5.0  # observations that the draft's own word counts for, in every bucket
MEMORY = 1500.0  # observations after which an old one counts for a third of a new one
FIRST_PROOF, PROOF = 3.0, 0.01  # nats that must be gained before the map is used: at once, and per observation
SUMS = ("seen", "taken", "promised")  # candidates, those that were accepted, and what q said of them
CENTRES = np.linspace(LOWEST, HIGHEST, BUCKETS)
MOST_KEPT = 2000.0  # tries of a child that a file may claim: later rounds must still be able to change the vector


class Calibration:
    """A monotone map from the draft's conditional probability q to the rate at which such tokens are accepted.

    Two maps, one for the draft's first choice behind a node and one for all others: a greedy target takes the first
    choice more often than its q says, and the others less. A bucket of log-odds holds a Beta posterior whose prior is
    centred on q, so that what was never seen is as the draft says. The map is used only while it has foretold what the
    target took better than the draft's own word did, by a margin: a draft that judges itself well is left alone.

    What is observed is the draft's list of candidates behind an *accepted* node, and which of them the target took.
    Nothing is known behind a node that was not reached. The list is all that the draft proposed, not just what the
    budget let into the tree, so that tokens kept out for their low score can still earn a better one. Which lists are
    seen depends on what was accepted before, never on the outcome that is counted, so the rates are not biased.
    """

    def __init__(self) -> None:
        self.observations = 0
        self._sums = np.zeros((len(SUMS), 2, BUCKETS))
        self._curve: Numbers | None = None
        self._gain = 0.0  # nats, by which the map foretold each outcome better than the draft, before it learnt of it

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        sums = {name: shortened(sum_) for name, sum_ in zip(SUMS, self._sums, strict=True)}
        return {"observations": self.observations, "gain": shortened(self._gain), **sums}

    @classmethod
    def restored(cls, state: State) -> "Calibration":
        """As it was kept; raises for what is no state."""
        found = cls()
        found.observations, found._gain = int(figure(state["observations"], 0)), figure(state["gain"])
        found._sums = np.stack([figures(state[name], (2, BUCKETS), 0.0) for name in SUMS])
        return found

    @property
    def is_proven(self) -> bool:
        """Whether the map is better than the draft's own word."""
        return self._gain > FIRST_PROOF + PROOF * min(self.observations, MEMORY)

    def log_acceptance(self, log_probs: Numbers) -> Numbers:
        """[n, width]: the logarithm of each candidate's rate of acceptance, never above 0.

        log_probs: [n, width], conditional, the likeliest first in every row.
        """
        if not self.is_proven:
            return log_probs
        mapped = _log_sigmoid(self._mapped(_log_odds(log_probs)))
        return np.where(np.isneginf(log_probs), log_probs, mapped)  # what may not follow never does

    def observe(self, log_probs: Numbers, taken: Sequence[int | None]) -> None:
        """What the target took of the candidates of some accepted nodes, all of one round.

        log_probs: [nodes, width], conditional, the likeliest first in every row; `taken`: of every row in turn its
        number, None if the token was not listed.
        """
        odds = _log_odds(log_probs)
        left, part = _place(odds)
        hits = np.zeros_like(odds)
        for row, number in enumerate(taken):
            if number is not None:
                hits[row, number] = 1.0
        self._prove(odds, hits)
        bucket = left + BUCKETS * _choices(log_probs.shape[-1])  # of both maps together
        # Of each bucket, how many rows there are of which anything falls into it, however many of a row do.
        rows_in = np.zeros(2 * BUCKETS)
        for row in bucket:
            rows_in[row] += 1.0
        fading = np.exp(-rows_in / MEMORY).reshape(2, BUCKETS)
        # What lies between two centres counts for both.
        places, shares = np.concatenate([bucket, bucket + 1]).ravel(), np.concatenate([1.0 - part, part]).ravel()
        counted = (np.ones_like(odds), hits, np.exp(log_probs))
        added = [np.bincount(places, shares * np.tile(values.ravel(), 2), 2 * BUCKETS) for values in counted]
        self._sums = self._sums * fading + np.stack(added).reshape(self._sums.shape)
        self.observations += len(taken)
        self._curve = None

    def _mapped(self, odds: Numbers) -> Numbers:
        """The log-odds of acceptance, for the draft's log-odds, [..., width]."""
        left, part = _place(odds)
        curve, choice = self._shifts(), _choices(odds.shape[-1])
        mapped: Numbers = odds + (1.0 - part) * curve[choice, left] + part * curve[choice, left + 1]
        return mapped

    def _prove(self, odds: Numbers, hits: Numbers) -> None:
        """Score both forecasts of an outcome that neither has seen."""
        gained = float((_log_sigmoid(_outcome(self._mapped(odds), hits)) - _log_sigmoid(_outcome(odds, hits))).sum())
        self._gain = self._gain * math.exp(-len(hits) / MEMORY) + gained

    def _shifts(self) -> Numbers:
        """[2, BUCKETS]: what is added to the log-odds at every bucket's centre; kept until more is observed."""
        if self._curve is None:
            prior = PRIOR_SEEN * np.exp(_log_sigmoid(CENTRES))
            seen, taken, promised = self._sums
            accepted, expected = ((prior + counted) / (PRIOR_SEEN + seen) for counted in (taken, promised))
            odds = CENTRES + _logit(accepted) - _logit(expected)
            weights = PRIOR_SEEN + seen
            rising = [isotonic(odds[row].tolist(), weights[row].tolist()) for row in range(2)]
            self._curve = np.array(rising) - CENTRES
        return self._curve


def _outcome(odds: Numbers, hits: Numbers) -> Numbers:
    """The log-odds of what came: of a hit, or of none."""
    return np.where(hits > 0, odds, -odds)


def _log_sigmoid(odds: Numbers) -> Numbers:
    """The logarithm of the probability with these log-odds."""
    return -np.logaddexp(0.0, -odds)


def _logit(rates: Numbers) -> Numbers:
    """The log-odds of rates from 0 to 1."""
    rates = rates.clip(1e-9, 1.0 - 1e-9)
    odds: Numbers = np.log(rates / (1.0 - rates))
    return odds


def _log_odds(log_probs: Numbers) -> Numbers:
    """log(q / (1 - q)), as far as anything can be told apart."""
    with np.errstate(divide="ignore"):  # what is certain
        return (log_probs - np.log1p(-np.exp(log_probs))).clip(2 * LOWEST, HIGHEST)


def _place(odds: Numbers) -> tuple[Integers, Numbers]:
    """The bucket to the left of each, and how far it is on the way to the next one, from 0 to 1."""
    place = (odds - LOWEST).clip(0.0, BUCKETS - 1.000001)
    left = place.astype(np.int64)
    return left, place - left


def _choices(width: int) -> Integers:
    """int64 [width]: 0 for a list's first candidate, 1 for the others."""
    return (np.arange(width) > 0).astype(np.int64)


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
