"""How much of the drafting a pass makes up for is found in noisy rounds, and believed only as far as it is sure."""

import random

import pytest

from engine.speculation.tuning.hiding import Hiding

PASS = 0.3


def taught(share: float, rounds: int, seed: int, noise: float = 0.03) -> Hiding:
    """After so many rounds, of trees of two sizes, on a machine that hides this share of its drafting."""
    chance, hiding = random.Random(seed), Hiding()
    for _ in range(rounds):
        size = chance.choice((33, 129))
        drafting = chance.uniform(0.0, 0.1) + size * 0.0005
        computing = PASS + size * 0.001  # larger trees take longer to draft and to verify
        hiding.observe(size, drafting, (computing - share * drafting) * chance.lognormvariate(0.0, noise))
    return hiding


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_it_comes_close_in_a_hundred_rounds(share: float) -> None:
    found = [taught(share, 100, seed).share for seed in range(10)]
    assert sum(found) / len(found) == pytest.approx(share, abs=0.12)
    assert all(abs(each - share) < 0.35 for each in found)


def test_it_believes_little_at_first() -> None:
    assert Hiding().share == 0.0
    assert taught(1.0, 1, 0).share == 0.0, "one round tells nothing"
    noisy = [taught(0.0, 6, seed, noise=0.1).share for seed in range(20)]
    assert sum(noisy) / len(noisy) < 0.15
    assert taught(1.0, 100, 0, noise=0.0).share == pytest.approx(1.0)


def test_a_busy_minute_that_slows_both_down_hides_nothing() -> None:
    chance, hiding = random.Random(0), Hiding()
    for _ in range(50):
        slow = chance.uniform(1.0, 2.0)
        hiding.observe(65, 0.05 * slow, PASS * slow)
    assert hiding.share == 0.0


def test_a_pass_that_was_held_up_once_counts_little() -> None:
    hiding = taught(1.0, 50, 0)
    hiding.observe(33, 0.1, 30 * PASS)
    assert hiding.share > 0.4


def test_it_is_kept() -> None:
    hiding = taught(0.7, 40, 0)
    assert Hiding.restored(hiding.state).share == pytest.approx(hiding.share, rel=1e-3)
    assert Hiding.restored({**hiding.state, "rounds": 0.0}).share == 0.0
    for name, value in (("drafting", -1.0), ("passing", float("nan")), ("both", "much")):
        with pytest.raises(ValueError, match=r"not from|could not convert"):
            Hiding.restored({**hiding.state, name: value})
