"""The mean over answers is what comes next; one on a busy machine does not count as much as it took."""

import pytest

from engine.loading.answered import Answered, given_by, steadied
from engine.speculation.tuning.pass_time import PassTime

USUAL = Answered(new_tokens=100, passes=20, seconds=2.0, drafted=320)


def test_every_pass_counts_as_much() -> None:
    hard = Answered(new_tokens=40, passes=40, seconds=4.0, drafted=40)
    given = given_by([USUAL, USUAL, hard])
    assert given
    assert given.tokens_per_pass == 240 / 80
    assert given.seconds == pytest.approx(0.1)
    assert given.nodes == 680 / 80
    assert (given.least, given.most) == (10.0, 50.0)


def test_a_few_passes_say_nothing() -> None:
    assert given_by([USUAL] * 2) is None
    assert given_by([Answered(10, 2, 0.2, 32)] * 20) is None


def test_an_answer_that_had_to_share_the_machine_counts_with_little_more_than_is_usual() -> None:
    busy = Answered(100, 20, 60.0, 320)
    given = given_by([USUAL] * 3 + [busy])
    assert given
    assert given.seconds == pytest.approx((3 * 2.0 + 2.6) / 80)


def test_larger_trees_take_longer_on_any_machine() -> None:
    small, large = Answered(60, 20, 1.0, 80), Answered(150, 10, 2.0, 320)
    given = given_by([small] * 12 + [large] * 12)
    assert given
    assert given.seconds == pytest.approx((12 * 1.0 + 12 * 2.0) / 360)


def test_passes_are_told_at_their_usual_pace() -> None:
    usual, busy = PassTime((1.0, 17.0), (0.1, 0.2)), PassTime((1.0, 17.0), (0.3, 0.6))
    assert steadied(usual, []) == usual
    assert steadied(busy, [usual]).seconds == pytest.approx(usual.seconds)
    assert steadied(busy, [usual, busy, busy]).seconds == pytest.approx(busy.seconds), "it is so for good"
    larger = PassTime((33.0,), (0.01,))
    assert steadied(busy, [larger]) == busy, "other sizes say nothing"
