"""How often a drafted token is really accepted, learnt online from the draft's probability for it."""

import math
from collections.abc import Sequence

import numpy as np

from engine.speculation.trees.arrays import Integers, Numbers, State, figure, figures, shortened
from engine.speculation.trees.monotone import isotonic

LOWEST, HIGHEST, BUCKETS = -14.0, 12.0, 27  # log-odds of the draft's probability, a bucket per unit
PRIOR = 5.0  # observations that the draft's own word counts for, in every bucket
MEMORY = 1500.0  # observations after which an old one counts for a third of a new one
FIRST_PROOF, PROOF = 3.0, 0.01  # nats that must be gained before the map is used: at once, and per observation
SUMS = ("seen", "taken", "promised")  # candidates, those that were accepted, and what q said of them
CENTRES = np.linspace(LOWEST, HIGHEST, BUCKETS)


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
        return _log_sigmoid(self._mapped(_log_odds(log_probs))) if self.is_proven else log_probs

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
            prior = PRIOR * np.exp(_log_sigmoid(CENTRES))
            seen, taken, promised = self._sums
            accepted, expected = ((prior + counted) / (PRIOR + seen) for counted in (taken, promised))
            odds = CENTRES + _logit(accepted) - _logit(expected)
            weights = PRIOR + seen
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
