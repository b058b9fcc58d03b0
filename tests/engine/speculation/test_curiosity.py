"""Time lost by looking is bounded, and shared: nothing that is cheap to look at keeps out what is dear."""

import pytest

from engine.speculation.tuning.curiosity import LOST, Curiosity, Look
from engine.speculation.tuning.plan import Plan

BEST = Plan("specexec", 64, 8, tokens=10.0, seconds=1.0)
CHEAP = Look("cheap", Plan("none", 0, 0, tokens=1.0, seconds=0.12), is_free=True)
DEAR = Look("dear", Plan("specexec", 256, 8, tokens=10.0, seconds=3.0))


def looked(rounds: int, looks: list[Look]) -> tuple[list[Look], float]:
    """What was looked at in so many rounds, and the seconds that all of them took."""
    curiosity, chosen, seconds = Curiosity(), list[Look](), 0.0
    for _ in range(rounds):
        look = curiosity.choose(looks, BEST)
        chosen += [look] if look else []
        took = look.plan.seconds if look else BEST.seconds
        curiosity.earn(took)
        seconds += took
    return chosen, seconds


def test_what_is_cheap_does_not_keep_out_what_is_dear() -> None:
    chosen, seconds = looked(2000, [CHEAP, DEAR])
    for look in (CHEAP, DEAR):
        lost = chosen.count(look) * look.loss(BEST)
        assert lost == pytest.approx(LOST / 2 * seconds, abs=look.loss(BEST)), "an even share"
    assert chosen.count(CHEAP) > 10 * chosen.count(DEAR) > 0


def test_no_more_is_lost_than_may_be() -> None:
    chosen, seconds = looked(500, [CHEAP, DEAR, Look("another", CHEAP.plan)])
    assert 0 < sum(look.loss(BEST) for look in chosen) <= LOST * seconds


def test_a_fixed_size_is_taken_to_lose_something_even_where_it_promises_as_much_as_the_best() -> None:
    assert 0 < Look("free", BEST, is_free=True).loss(BEST) < Look("fixed", BEST).loss(BEST) < BEST.seconds / 2


def test_what_little_is_known_of_is_cheaper_to_look_at() -> None:
    plan = Plan("specexec", 64, 8, tokens=5.0, seconds=1.0)
    certain, likely, hopeful = (Look("", plan, is_free=True, hope=hope).loss(BEST) for hope in (1.0, 1.5, 3.0))
    assert certain == pytest.approx(0.5)
    assert likely == pytest.approx(0.25)
    assert 0 < hopeful < 0.05


def test_empty_purses_buy_nothing() -> None:
    curiosity = Curiosity()
    assert curiosity.choose([CHEAP], BEST) is None
    curiosity.earn(100.0)
    curiosity.forget()
    assert curiosity.choose([CHEAP], BEST) is None
    curiosity.earn(100.0)
    assert curiosity.choose([CHEAP], BEST) is CHEAP
