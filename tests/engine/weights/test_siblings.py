"""Weights that are handed the same numbers are multiplied in one batch, and nobody is given what he did not ask for."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.model.products.product import Batch
from engine.weights.streaming.siblings import Siblings

ROWS = [torch.full((2, 4), float(number)) for number in range(9)]


@dataclass(eq=False)
class Told:
    """A product that tells what it was computed of, alone or in a batch; it stands for its own weight, too."""

    factor: float
    batched: list[Tensor] = field(default_factory=list)
    is_decoded: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return self.factor * x

    def begin(self, x: Tensor, batch: Batch) -> Callable[[], Tensor]:
        self.batched.append(x)
        return lambda: self.factor * x

    def wide(self, x: Tensor) -> Tensor | None:
        raise NotImplementedError

    def ready(self, rows: int) -> "Told | None":
        assert rows == 2
        return None if self.is_decoded else self


def family() -> tuple[Siblings, Told, Told, Told]:
    """Three of which the first two are handed the same tensor, after the first pass."""
    siblings, query, key, output = Siblings(), Told(2.0), Told(3.0), Told(5.0)
    run(siblings, (query, ROWS[0]), (key, ROWS[0]), (output, ROWS[1]))
    assert not query.batched
    return siblings, query, key, output


def run(siblings: Siblings, *calls: tuple[Told, Tensor]) -> None:
    """A pass of the layer: what comes is right, whatever was computed when."""
    for told, states in calls:
        assert torch.equal(siblings.times(told.ready, told, states, states), told.factor * states)


def test_those_of_one_tensor_are_computed_by_the_first_that_is_asked_for() -> None:
    siblings, query, key, output = family()
    for states in ROWS[2:4]:
        run(siblings, (query, states), (key, states.clone()), (output, states))
    assert [len(each.batched) for each in (query, key, output)] == [2, 2, 0]


def test_other_numbers_are_computed_anew_and_the_family_parts() -> None:
    """Also those that were changed where they lie."""
    siblings, query, key, _ = family()
    states = ROWS[4].clone()
    run(siblings, (query, states))
    states += 1
    run(siblings, (key, states))
    assert len(key.batched) == 1
    run(siblings, (query, ROWS[5]), (key, ROWS[5]))
    assert len(key.batched) == 1, "nothing is computed ahead for a weight that did not ask for it"


def test_a_weight_that_is_not_asked_for_is_no_longer_computed() -> None:
    siblings, query, key, _ = family()
    run(siblings, (query, ROWS[6]), (query, ROWS[7]), (query, ROWS[8]))
    assert len(key.batched) == 1


def test_a_decoded_sibling_is_left_out_and_nothing_is_kept_of_a_family_that_has_its_products() -> None:
    siblings, query, key, _ = family()
    key.is_decoded = True
    run(siblings, (query, ROWS[2]))
    assert not query.batched
    key.is_decoded = False
    run(siblings, (query, ROWS[3]), (key, ROWS[3]))
    assert (siblings._x, siblings._ahead) == (None, {})
