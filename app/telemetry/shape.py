"""The shape of a round's tree as arrays, checked; what the figures are taken from."""

from dataclasses import dataclass

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
