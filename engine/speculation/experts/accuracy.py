"""Whether a prediction of routing is worth anything: what nodes were expected to touch first, and what they did."""

import numpy as np

from engine.speculation.experts.routed_sets import Shares, expected_distinct
from engine.speculation.trees.arrays import Numbers

FADING = 0.95  # what a pass counts for when the next one is seen
ENOUGH = 6  # passes with trees, before a prediction is trusted
BETTER = 0.9  # of the squared errors of independent routing, which a prediction must stay below


class Accuracy:
    """Compares both with what happened: for every node, how many experts it touched that no node before it did.

    Each of the two is first scaled by what it was wrong by so far, on average: nodes of one tree are more alike than
    independent ones.
    """

    def __init__(self) -> None:
        self.passes = 0
        self._real = self._predicted = self._independent = 0.0
        self._errors = np.zeros(2)  # squared, of the prediction and of independent routing

    @property
    def scale(self) -> float:
        """What a predicted number of experts is to be multiplied with."""
        return self._real / self._predicted if self._predicted else 1.0

    @property
    def is_better(self) -> bool:
        """Whether the prediction has been clearly better than independent routing."""
        return self.passes >= ENOUGH and bool(self._errors[0] < BETTER * self._errors[1])

    def observe(self, touched: Shares, sets: Shares, chosen: int) -> None:
        """A pass: the probabilities foretold and what was touched, both [rows, layers, count]; the root is no node."""
        if len(sets) < 2:
            return
        predicted, real = (_new(each)[1:] for each in (touched, sets))
        layers, count = sets.shape[1:]
        among = layers * expected_distinct(count, chosen, np.arange(1, len(sets) + 1))
        independent = np.diff(among)
        if self.passes:
            scales = self.scale, self._real / self._independent
            errors = [
                ((real - scale * each) ** 2).mean()
                for scale, each in zip(scales, (predicted, independent), strict=True)
            ]
            self._errors = FADING * self._errors + errors
        self.passes += 1
        self._real = FADING * self._real + float(real.sum())
        self._predicted = FADING * self._predicted + float(predicted.sum())
        self._independent = FADING * self._independent + float(independent.sum())


def _new(touched: Shares) -> Numbers:
    """float64 [rows]: how many experts each row is expected to touch that none before it does."""
    untouched = np.ones_like(touched)
    untouched[1:] = np.cumprod(1.0 - touched[:-1], axis=0)
    found: Numbers = (touched * untouched).sum((1, 2), dtype=np.float64)
    return found
