"""One slow measurement, such as the first use of a device, must not decide what the automatic budget chooses."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from engine.speculation.interfaces import Choice, RoundResult
from engine.speculation.tuning.curve import Curve
from engine.speculation.tuning.draft_pace import DraftPace
from tests.campaigns.extent import choose
from tests.engine.speculation.simulation import Machine, Trial
from tests.engine.speculation.test_auto import resident, streamed

SEEDS = 3
SETTLED, COUNTED = 50, 30


@dataclass
class Spiked:
    """A machine on which the pass or the drafting of one round takes `times` as long."""

    machine: Machine
    part: str
    at: int
    times: float

    def round(self, choice: Choice, number: int) -> RoundResult:
        result = self.machine.round(choice, number)
        if number != self.at:
            return result
        seconds = getattr(result, self.part)
        return replace(result, **{self.part: seconds * self.times}, seconds=result.seconds + seconds * (self.times - 1))

    def yields(self, choice: Choice) -> tuple[float, float]:
        return self.machine.yields(choice)


MACHINES: dict[str, Callable[[], Machine]] = {"resident": resident, "streamed": lambda: streamed(110)}


@cache
def settled_rate(machine: str, seed: int, part: str = "", at: int = -1, times: float = 1.0) -> float:
    made = MACHINES[machine]()
    made.chance = random.Random(seed)
    trial = Trial(Spiked(made, part, at, times))  # type: ignore[arg-type]
    trial.run(SETTLED)
    return trial.rate(trial.run(COUNTED)[::3])


@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("part", ["target_seconds", "draft_seconds"])
@pytest.mark.parametrize("times", choose([5.0, 100.0], [5.0, 10.0, 20.0, 30.0, 100.0]))
def test_one_slow_first_round_costs_at_most_5_percent_after_50_rounds(machine: str, part: str, times: float) -> None:
    reached = [settled_rate(machine, seed, part, 0, times) / settled_rate(machine, seed) for seed in range(SEEDS)]
    assert sum(reached) / SEEDS >= 0.95
    assert min(reached) >= 0.85


def test_concave_costs_do_not_keep_it_from_large_trees() -> None:
    """A mixture whose experts are all read from some 64 rows on: the best tree is the largest."""
    for seed in range(choose(1, SEEDS)):
        mixture = Machine(lambda rows: 1 + 7 * (1 - math.exp(-rows / 16)), 0.003, 0.0001, 0.01)
        mixture.chance = random.Random(seed)
        trial = Trial(mixture)
        trial.run(200)
        assert trial.rate(trial.run(20)[::2]) > 0.9 * mixture.best_rate()


def test_a_first_measurement_far_above_the_others_is_believed_once_repeated() -> None:
    curve = Curve()
    for size in (1, 9, 33):
        curve.observe(size, 1.0)
    curve.observe(65, 30.0)
    assert curve.soberly_over(np.array([65.0]))[0] == pytest.approx(1.0)
    assert curve.largest == 33
    assert not curve.is_sure_near(65)
    curve.observe(65, 8.0)
    assert curve.soberly_over(np.array([65.0]))[0] == pytest.approx(8.0)
    assert curve.largest == 65


def test_the_second_measurement_of_a_size_takes_the_place_of_a_slow_first_one() -> None:
    curve = Curve()
    curve.observe(65, 50.0)
    curve.observe(65, 1.0)
    assert curve.at(65) <= 1.0


def test_a_slow_first_tree_tells_little_of_drafting() -> None:
    pace = DraftPace()
    pace.observe(20, 64, 100 * 0.1)
    assert pace.longest == pytest.approx(10.0)
    pace.observe(20, 64, 0.1)
    assert pace.seconds(20, 64) < 0.15


def test_what_was_kept_of_a_slow_beginning_is_left_soon() -> None:
    pace = DraftPace()
    pace.observe(20, 64, 10.0)
    again = DraftPace.restored(pace.state)
    for _ in range(3):
        again.observe(20, 64, 0.1)
    assert again.seconds(20, 64) < 0.15
