"""What engines elsewhere tell of their steps, plausible or not."""

import math

from app.engine.steps import KEPT_STEPS, LONGEST, MOST, StepHistory, plausible
from engine.protocol.messages import Seconds, Statistics, Steps


def test_steps_are_counted() -> None:
    steps = StepHistory()
    steps.add(Steps(1, (5, 5, 3), (2, 0, 3)))
    steps.add(Steps(1, (0,), (0,)))
    assert (steps.count, steps.drafted, steps.accepted) == (4, 13, 5)
    assert steps.tokens_per_step == 2.25
    assert steps.acceptance == 5 / 13
    assert steps.by_accepted[:4] == [2, 0, 1, 1]
    assert (steps.reached[:4], steps.went_on[:4]) == ([3, 2, 2, 0], [2, 2, 1, 0])
    assert list(steps.newest) == [(5, 2), (5, 0), (3, 3), (0, 0)]


def test_no_number_is_too_strange() -> None:
    steps = StepHistory()
    assert (steps.tokens_per_step, steps.acceptance) == (0.0, 0.0)
    strange: tuple[object, ...] = (-5, 10**30, math.nan, math.inf, 2.9, None, "7")
    steps.add(Steps(1, strange, (10**30,) * 9))  # type: ignore[arg-type]
    assert list(steps.newest) == [(0, 0), (MOST, MOST), (0, 0), (0, 0), (2, 2), (0, 0), (0, 0)]
    assert steps.by_accepted[LONGEST] == 1
    for _ in range(2):
        steps.add(Steps(1, (1,) * KEPT_STEPS, (1,) * KEPT_STEPS))
    assert len(steps.newest) == KEPT_STEPS
    assert steps.count == 2 * KEPT_STEPS + 7


def test_figures_become_plausible_and_good_ones_stay() -> None:
    good = Statistics("mtp", 8, 10, 2, 30, 10, 50, 0.5, 7, Seconds(decode=2.0), "Why")
    assert plausible(good) == good
    bad = Statistics(new_tokens=10**30, passes=-1, first_token_seconds=math.nan, seconds=Seconds(decode=math.inf))
    told = plausible(bad)
    assert (told.new_tokens, told.passes, told.first_token_seconds, told.seconds.decode) == (MOST, 0, 0.0, 1e9)
