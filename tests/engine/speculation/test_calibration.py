"""Calibrated scores: the draft's word at first, then what is really accepted; and trees that are better for it."""

import math
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.methods.acceptance_rates import Calibration
from engine.speculation.trees.arrays import Numbers
from engine.speculation.trees.best_first import BestFirst
from tests.campaigns.extent import choose

ROUND = 10  # tokens that are told of at once


def candidates(generator: torch.Generator, width: int = 6, spread: float = 3.0) -> Numbers:
    """Log-probabilities of a draft's likeliest tokens."""
    logits = torch.randn(40, generator=generator, dtype=torch.float64) * spread
    return logits.log_softmax(-1).topk(width).values.numpy()


def taught(temperature: float, count: int = 4000, seed: int = 0) -> Calibration:
    """By a target that says what the draft would say at another temperature."""
    return deepcopy(_taught(temperature, count, seed))


@cache
def _taught(temperature: float, count: int, seed: int) -> Calibration:
    listed, hits = drawn(temperature, count, torch.Generator().manual_seed(seed))
    calibration = Calibration()
    ranks = [hit.index(True) if True in hit else None for hit in hits.tolist()]
    for begin in range(0, count, ROUND):
        calibration.observe(listed[begin : begin + ROUND].numpy(), ranks[begin : begin + ROUND])
    return calibration


def drawn(temperature: float, count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """A draft's likeliest tokens in `count` places, and which of them the target said."""
    logits = torch.randn(count, 40, generator=generator, dtype=torch.float64) * 3
    said = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
    listed = logits.log_softmax(-1).topk(6)
    return listed.values, listed.indices == said


def test_at_first_the_draft_is_taken_at_its_word() -> None:
    listed = candidates(torch.Generator().manual_seed(1))[None]
    np.testing.assert_array_equal(Calibration().log_acceptance(listed), listed)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.6])
def test_scores_become_the_rates_of_acceptance(temperature: float) -> None:
    """On texts it has not seen, what the scores promise is what is accepted: for first choices and for the others."""
    listed, hits = drawn(temperature, 4000, torch.Generator().manual_seed(99))
    chances = torch.from_numpy(np.exp(taught(temperature).log_acceptance(listed.numpy())))
    promised, accepted, plain = (
        torch.stack([values[:, 0].sum(), values[:, 1:].sum()]) for values in (chances, hits.double(), listed.exp())
    )
    torch.testing.assert_close(promised, accepted, rtol=0.08, atol=0)  # 4000 draws: an error of 3 %
    if temperature != 1.0:
        assert float((plain - accepted).abs().max()) > 3 * float((promised - accepted).abs().max())


def test_a_draft_that_judges_itself_well_is_left_alone() -> None:
    listed = candidates(torch.Generator().manual_seed(3))[None]
    honest, flat = taught(1.0), taught(1.6)
    assert not honest.is_proven
    np.testing.assert_array_equal(honest.log_acceptance(listed), listed)
    assert flat.is_proven
    assert not np.allclose(flat.log_acceptance(listed), listed)


def test_what_may_not_follow_stays_impossible() -> None:
    rates = taught(2.0).log_acceptance(np.array([[-1e-7, -np.inf]]))
    assert rates[0, 1] == -np.inf < rates[0, 0] <= 0.0


@settings(max_examples=choose(10, 40), deadline=None)
@given(temperature=st.sampled_from([0.3, 1.0, 3.0]), count=st.integers(0, 300), seed=st.integers(0, 1000))
def test_a_likelier_token_never_scores_less(temperature: float, count: int, seed: int) -> None:
    calibration = taught(temperature, count, seed)
    chances = np.log(np.linspace(1e-7, 1 - 1e-7, 2000))
    for column in range(2):
        listed = np.full((len(chances), 2), -20.0)
        listed[:, column] = chances
        scores = calibration.log_acceptance(listed)[:, column]
        assert (np.diff(scores) >= -1e-12).all()
        assert scores.max() <= 0.0


def test_what_is_new_counts_for_more_than_what_is_old() -> None:
    calibration = Calibration()
    sure = np.log([0.9, 0.05])
    for taken in (0, 1):
        for _ in range(3000 // ROUND):
            calibration.observe(sure[None].repeat(ROUND, 0), [taken] * ROUND)
    scores = np.exp(calibration.log_acceptance(sure[None])[0])
    assert scores[0] < 0.3
    assert scores[1] > 0.7


def test_the_tree_holds_what_is_likely_accepted_not_what_is_likely_drafted() -> None:
    """The draft is sure of its first choices, and wrong half of the time: so its second choices are worth a node."""
    calibration = Calibration()
    listed = np.log([[0.97, 0.02]])
    for _ in range(2000 // ROUND):
        calibration.observe(listed.repeat(ROUND, 0), [0, 1] * (ROUND // 2))
    trees = []
    for scorer in (None, calibration):
        search = BestFirst(9, 0.95)
        while len(frontier := search.frontier(1, 2, 4)):
            children = listed.repeat(len(frontier), 0)
            scores = scorer.log_acceptance(children) if scorer else None
            search.expand(frontier, children, np.array([[4, 5]]).repeat(len(frontier), 0), 2, scores)
        trees.append(search.tree(search.best(2, 4)))
    plain, calibrated = trees
    assert plain.tokens == (9, 4, 4)
    assert sorted(calibrated.tokens[1:]) == [4, 5]
    assert calibrated.log_probs[calibrated.tokens.index(5)] == pytest.approx(math.log(0.02), rel=1e-5)
    assert math.exp(calibrated.scores[calibrated.tokens.index(5)]) == pytest.approx(0.5, abs=0.05)
