"""How often drafted tokens were accepted, by depth and by the probability that the draft gave them: pure counting.

A node is *tried* when its parent is on the accepted path: only then did the target decide about it. Of nodes deeper
in branches that were left, it is not known what it would have said.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.protocol.messages import Round


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """`parents` and `depths` int32 [nodes], the root first with -1 and 0.

    `probabilities` float64 [nodes]: how likely the draft found each node behind its parent; 1 for the root.
    """

    parents: NDArray[np.int32]
    depths: NDArray[np.int32]
    probabilities: NDArray[np.float64]


def shape_of(round: Round) -> Shape:
    """Decode a round's tree. Raises `ValueError` if its arrays are not one, or the accepted path is not in it."""
    parents = np.frombuffer(round.tree.parents, "<i4")
    log_probs = np.frombuffer(round.tree.log_probs, "<f4").astype(np.float64)
    if not 0 < len(parents) == len(log_probs) or parents[0] != -1:
        raise ValueError("the arrays of the tree do not belong together")
    if (parents[1:] < 0).any() or (parents[1:] >= np.arange(1, len(parents))).any():
        raise ValueError("a node stands before its parent")
    path = np.asarray(round.accepted, np.int32)
    if not len(path) or path[0] != 0 or path.max() >= len(parents) or (parents[path[1:]] != path[:-1]).any():
        raise ValueError("the accepted path is not in the tree")
    return Shape(parents, _depths(parents), _probabilities(parents, log_probs))


def _depths(parents: NDArray[np.int32]) -> NDArray[np.int32]:
    """One step towards the root at a time, all nodes at once."""
    depths = np.zeros(len(parents), np.int32)
    ancestors = parents
    while (below := ancestors >= 0).any():
        depths += below
        ancestors = np.where(below, parents[ancestors], -1)
    return depths


def _probabilities(parents: NDArray[np.int32], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is impossible, or behind something impossible, has probability 0."""
    above = log_probs[np.maximum(parents, 0)]
    possible = np.isfinite(log_probs) & np.isfinite(above)
    steps = np.where(possible, log_probs, 0.0) - np.where(possible, above, 0.0)
    found = np.where(possible, np.exp(np.minimum(steps, 0.0)), 0.0)
    found[0] = 1.0
    return found


BUCKETS = 10
DEPTHS = 64  # what lies deeper is counted with the deepest
FEW_ROUNDS = 10  # fewer do not say much about a share
EDGES = np.linspace(0.0, 1.0, BUCKETS + 1)

Counts = NDArray[np.int64]


def _none(length: int) -> Counts:
    return np.zeros(length, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Acceptance:
    """Counts of some rounds.

    `reached` [DEPTHS]: rounds whose accepted path led to a node at depth d - 1 that has children; `accepted` [DEPTHS]:
    those of them in which one of these children was accepted; index 0 is depth 1. `tried` and `taken` [BUCKETS]: nodes
    tried and accepted, by the draft's probability of the node behind its parent; `probability` [BUCKETS] is its sum
    over the tried ones.
    """

    reached: Counts = field(default_factory=lambda: _none(DEPTHS))
    accepted: Counts = field(default_factory=lambda: _none(DEPTHS))
    tried: Counts = field(default_factory=lambda: _none(BUCKETS))
    taken: Counts = field(default_factory=lambda: _none(BUCKETS))
    probability: NDArray[np.float64] = field(default_factory=lambda: np.zeros(BUCKETS))

    def __add__(self, other: "Acceptance") -> "Acceptance":
        """The counts of both."""
        return Acceptance(
            self.reached + other.reached,
            self.accepted + other.accepted,
            self.tried + other.tried,
            self.taken + other.taken,
            self.probability + other.probability,
        )

    @property
    def deepest(self) -> int:
        """The greatest depth that was reached at all."""
        return int(np.flatnonzero(self.reached).max(initial=-1)) + 1

    def rate_by_depth(self) -> NDArray[np.float64]:
        """Accepted of reached, [deepest]."""
        return self.accepted[: self.deepest] / np.maximum(self.reached[: self.deepest], 1)

    def calibration(self) -> tuple[NDArray[np.float64], NDArray[np.float64], Counts]:
        """The draft's mean probability, the share accepted, and how many were tried, of the buckets that have any."""
        filled = self.tried > 0
        tried = self.tried[filled]
        return self.probability[filled] / tried, self.taken[filled] / tried, tried


def bucket_of(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bucket of each probability from 0 to 1; the last one includes 1."""
    return np.clip((probabilities * BUCKETS).astype(np.int64), 0, BUCKETS - 1)


def count_acceptance(shape: Shape, path: NDArray[np.int32]) -> Acceptance:
    """Count one round: its tree, and the accepted path, root first."""
    on_path = np.zeros(len(shape.parents), bool)
    on_path[path] = True
    tried = np.flatnonzero(on_path[shape.parents[1:]]) + 1  # the root itself was not guessed
    taken = tried[on_path[tried]]
    levels = np.minimum(shape.depths[tried], DEPTHS) - 1
    reached = np.bincount(np.unique(levels), minlength=DEPTHS)
    accepted = np.bincount(np.unique(np.minimum(shape.depths[taken], DEPTHS) - 1), minlength=DEPTHS)
    buckets = bucket_of(shape.probabilities[tried])
    return Acceptance(
        reached,
        accepted,
        np.bincount(buckets, minlength=BUCKETS),
        np.bincount(buckets[on_path[tried]], minlength=BUCKETS),
        np.bincount(buckets, weights=shape.probabilities[tried], minlength=BUCKETS).astype(np.float64),
    )
