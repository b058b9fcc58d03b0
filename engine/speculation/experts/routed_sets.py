"""What a mixture's routers chose in a pass, as arrays: of a few layers, spread over all of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.speculation.interfaces import Routing
from engine.speculation.trees.arrays import Integers, Numbers

Shares = NDArray[np.float32]
"""Probabilities, or 0 and 1: enough digits for what is known of a router."""

MOST_LAYERS = 8  # that are looked at: a sum over some layers says nearly as much as over all
MOST_FIGURES = 1024  # layers looked at times experts of each: what one token takes in tables, and time in products


@dataclass(frozen=True, slots=True)
class RoutedSets:
    """The choices of one pass.

    `chosen`: int64 [layers looked at, rows, experts of a token]; `count`: experts of a layer; `scale`: layers of the
    mixture for every one that is looked at.
    """

    chosen: Integers
    count: int
    scale: float

    @property
    def rows(self) -> int:
        """Tokens in the pass."""
        return int(self.chosen.shape[1])

    @property
    def experts_per_token(self) -> int:
        """How many a layer's router chooses for every token."""
        return int(self.chosen.shape[2])

    def sets(self, rows: int) -> Shares:
        """float32 [rows, layers, count] of the first rows: 1 for what they touch, else 0."""
        found = np.zeros((len(self.chosen), min(rows, self.rows), self.count), dtype=np.float32)
        np.put_along_axis(found, self.chosen[:, :rows], 1.0, axis=2)
        return found.transpose(1, 0, 2)

    @property
    def distinct(self) -> float:
        """How many different experts the pass touched in all layers of the mixture, as those looked at tell."""
        is_used = np.zeros((len(self.chosen), self.count), dtype=np.bool_)
        np.put_along_axis(is_used, self.chosen.reshape(len(self.chosen), -1), True, axis=1)
        return float(is_used.sum()) * self.scale


def routed_sets(record: Routing | None, rows: int) -> RoutedSets | None:
    """The record of a pass over so many rows; None where there is none, or it is of another pass."""
    layers = list(record.layers) if record else []
    if record is None or not layers:
        return None
    wanted = max(1, min(MOST_LAYERS, MOST_FIGURES // record.count, len(layers)))
    looked_at = [layers[place * len(layers) // wanted] for place in range(wanted)]
    chosen = [record.chosen(layer) for layer in looked_at]
    if any(each.ndim != 2 or len(each) != rows or each.shape != chosen[0].shape for each in chosen):
        return None
    return RoutedSets(np.stack([each.numpy() for each in chosen]), record.count, len(layers) / wanted)


def expected_distinct(count: int, chosen: int, rows: Integers | Numbers) -> Numbers:
    """How many different ones of `count` experts so many tokens touch that are routed independently; float64 [n]."""
    found: Numbers = count * (1.0 - (1.0 - chosen / count) ** rows.astype(np.float64))
    return found
