"""Which experts one row is routed to, and what steps that follow are told of them."""

import numba
import numpy as np

from engine.model.products.addresses import floats, integers
from engine.model.products.compiling import compiled


@compiled
def choose(logits: int, experts: int, chosen: int, of_all: bool, normalised: bool, choice: int, weights: int) -> None:
    """Write the `chosen` experts of the largest logits, largest first, int64, and their weights, float32.

    A weight is the softmax of a logit among all (`of_all`), and with `normalised` a part of what all chosen ones have;
    otherwise among those that are chosen.
    """
    some, numbers = numba.carray(floats(logits), experts), numba.carray(integers(choice), chosen)
    out, taken = numba.carray(floats(weights), chosen), np.zeros(experts, np.bool_)
    for k in range(chosen):
        best = -1
        for expert in range(experts):
            if not taken[expert] and (best < 0 or some[expert] > some[best]):
                best = expert
        taken[best], numbers[k] = True, best
    most, whole, part = some[numbers[0]], 0.0, 0.0
    for expert in range(experts):
        whole += np.exp(np.float64(some[expert] - most))
    for k in range(chosen):
        part += np.exp(np.float64(some[numbers[k]] - most))
    by = whole if of_all and not normalised else part
    for k in range(chosen):
        out[k] = np.exp(np.float64(some[numbers[k]] - most)) / by


@compiled
def choose_scored(
    logits: int, experts: int, chosen: int, bias: int, normalised: bool, choice: int, weights: int, scaling: float
) -> None:
    """Write the `chosen` experts of the largest scores, largest first, int64, and their weights, float32.

    A score is 1 / (1 + e to the power of -logit). A `bias` of each expert, float32, counts for the choice alone. With
    `normalised` weights are made to add up to 1; then all are multiplied with `scaling`.
    """
    some, offsets = numba.carray(floats(logits), experts), numba.carray(floats(bias), experts)
    numbers, out = numba.carray(integers(choice), chosen), numba.carray(floats(weights), chosen)
    scores, taken, whole = np.empty(experts, np.float32), np.zeros(experts, np.bool_), np.float64(0)
    for expert in range(experts):
        scores[expert] = 1 / (1 + np.exp(-np.float64(some[expert])))
    for k in range(chosen):
        best = -1
        for expert in range(experts):
            if not taken[expert] and (best < 0 or scores[expert] + offsets[expert] > scores[best] + offsets[best]):
                best = expert
        taken[best], numbers[k] = True, best
        whole += scores[best]
    by = (whole + 1e-20 if normalised else 1.0) / scaling
    for k in range(chosen):
        out[k] = scores[numbers[k]] / by


@compiled
def tell(choice: int, owners: int, count: int, pieces: int, places: int, field: int, step: int) -> None:
    """Write `count` numbers, `step` bytes from one to the next: of each, the place of what its owner stands for.

    `owners`, int64: which of the chosen experts, times `pieces`, and which of its pieces. `places`: int64, of all
    experts' pieces.
    """
    experts, own = numba.carray(integers(choice), count), numba.carray(integers(owners), count)
    for line in range(count):
        place = places + 8 * (experts[own[line] // pieces] * pieces + own[line] % pieces)
        numba.carray(integers(field + step * line), 1)[0] = numba.carray(integers(place), 1)[0]
