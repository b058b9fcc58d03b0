"""Routing is foretold as far as it can be, within bounds; what experts cost is found in what passes took."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.experts.accuracy import Accuracy
from engine.speculation.experts.predictor import RoutingPredictor
from engine.speculation.experts.routed_sets import MOST_FIGURES, RoutedSets, expected_distinct, routed_sets
from engine.speculation.trees.tree_program import PRIOR, AcceptanceVector
from engine.speculation.tuning.expert_time import ExpertTime
from engine.speculation.tuning.sampled_size import Mixture, size_for
from tests.campaigns.extent import choose
from tests.engine.speculation.simulation import grow
from tests.engine.speculation.skewed_router import Record, Router


def routed(router: Router, tokens: list[int], topic: int = 0) -> RoutedSets:
    choice = np.stack([router.sets([token], topic) for token in tokens])
    found = routed_sets(Record(router, choice), len(tokens))
    assert found
    return found


@settings(max_examples=choose(5, 60), deadline=None)
@given(st.integers(1, 40), st.integers(2, 40), st.integers(1, 4), st.integers(0, 9))
def test_a_prediction_is_never_more_than_there_is(layers: int, count: int, chosen: int, seed: int) -> None:
    router = Router(layers, count, min(chosen, count), seed=seed)
    chance, predictor = random.Random(seed), None
    for _ in range(4):
        tokens = [chance.randrange(50) for _ in range(chance.randint(1, 9))]
        sets = routed(router, tokens)
        assert sets.chosen.shape[0] * count <= max(MOST_FIGURES, count)
        predictor = predictor or RoutingPredictor(len(sets.chosen), count, router.chosen)
        expected = predictor.expected(tokens)
        assert expected.shape == (len(tokens), len(sets.chosen), count)
        assert expected.min() >= 0.0
        assert expected.max() <= 1.0
        assert expected.sum(2) == pytest.approx(router.chosen, rel=0.01)
        assert layers <= sets.distinct <= layers * min(count, len(tokens) * router.chosen)
        predictor.learn(tokens, sets, last=0)


def test_the_table_of_tokens_is_bounded_and_forgets_what_was_not_seen_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router, bound = Router(2, 16, 1), 100 * 4 * 2 * 16
    monkeypatch.setattr("engine.speculation.experts.predictor.MOST_BYTES", bound)
    predictor = RoutingPredictor(2, 16, 1)
    for token in range(0, 256, 16):
        tokens = [7, *range(token + 100, token + 116)]
        predictor.learn(tokens, routed(router, tokens), last=0)
        assert predictor.nbytes <= bound
    assert len(predictor) == 100
    assert 7 in predictor._places
    assert 101 not in predictor._places


def test_without_a_record_of_this_pass_there_is_nothing_to_learn() -> None:
    record = Record(Router())
    assert routed_sets(None, 3) is None
    assert routed_sets(record, 3) is None
    record.read(grow(4, 4, 0.8, 0))
    assert routed_sets(record, 3) is None, "of another pass"
    assert routed_sets(record, 5) is not None

    class Prefilled(Record):
        def chosen(self, layer: int) -> torch.Tensor:
            return torch.empty(0, 0, dtype=torch.int64)

    assert routed_sets(Prefilled(record.router, record.choice), 5) is None


def test_what_a_token_touched_before_is_expected_of_it() -> None:
    router = Router(4, 64, 2, by_token=1.0, by_topic=0.0)
    predictor, tokens = RoutingPredictor(4, 64, 2), list(range(12))
    sets = routed(router, tokens)
    for _ in range(12):
        predictor.learn(tokens, sets, last=3)
    expected, real = predictor.expected(tokens), sets.sets(12)
    assert expected[real == 1].mean() > 0.6
    assert predictor.expected([999])[0].max() < 0.5, "nothing is known of a token that was never seen"


@pytest.mark.parametrize(("by_token", "is_better"), [(0.8, True), (0.0, False)])
def test_a_prediction_is_trusted_only_where_it_is_better_than_independent_routing(
    by_token: float, is_better: bool
) -> None:
    router = Router(4, 64, 2, by_token=by_token, by_topic=0.0)
    predictor, accuracy = RoutingPredictor(4, 64, 2), Accuracy()
    record = Record(router)
    for number in range(25):
        record.read(grow(8, 4, 0.6, number), salt=number)
        tokens = list(grow(8, 4, 0.6, number).tokens)
        sets = routed_sets(record, len(tokens))
        assert sets
        accuracy.observe(predictor.expected(tokens), sets.sets(64), 2)
        predictor.learn(tokens, sets, last=0)
    assert accuracy.is_better == is_better


def passes(per_expert: float, per_row: float, count: int, noise: float = 0.05) -> ExpertTime:
    chance, time = random.Random(2), ExpertTime()
    for _ in range(count):
        rows = chance.choice((1, 1, 2, 4, 6, 8, 12))
        independent = 8 * float(expected_distinct(64, 4, np.array([rows]))[0])
        distinct = independent * chance.uniform(0.5, 1.0)
        seconds = 1.0 + per_row * rows + per_expert * distinct
        seconds *= chance.lognormvariate(0.0, noise) * (5.0 if chance.random() < 0.08 else 1.0)
        time.observe(rows, distinct, seconds, independent)
    return time


def test_what_an_expert_costs_is_found_though_some_passes_are_slow() -> None:
    assert passes(0.02, 0.01, 48).seconds_per_expert == pytest.approx(0.02, rel=0.25)


@pytest.mark.parametrize("per_row", [0.0, 0.2])
def test_where_seconds_do_not_depend_on_experts_these_cost_nothing(per_row: float) -> None:
    assert passes(0.0, per_row, 48).seconds_per_expert < 0.002
    assert passes(0.02, per_row, 4).seconds_per_expert == 0.0, "of so few passes nothing follows"


def test_passes_over_more_rows_touch_no_fewer_experts() -> None:
    time = ExpertTime()
    rows = np.arange(1, 40)
    assert time.typical(rows, 8, 64, 4) == pytest.approx(8 * expected_distinct(64, 4, rows))
    time.observe(1, 32.0, 1.0, 32.0)
    time.observe(8, 150.0, 1.0, 8 * float(expected_distinct(64, 4, np.array([8]))[0]))
    typical = time.typical(rows, 8, 64, 4)
    assert (np.diff(typical) >= 0).all()
    assert typical[0] == pytest.approx(32)
    assert typical[7] == pytest.approx(150, rel=0.01)


@pytest.mark.parametrize(
    ("mixture", "acceptance", "least", "most"),
    [
        (Mixture(128, 4, 0.6, 0.05), (0.9, 0.05), 2, 8),
        (Mixture(128, 4, 0.6, 0.05), PRIOR, 0, 0),
        (Mixture(8, 2, 0.9, 0.02), PRIOR, 32, 64),  # all experts are touched soon, and then nodes cost nothing
    ],
)
def test_sampled_trees_are_as_large_as_pays_for_their_experts(
    mixture: Mixture, acceptance: AcceptanceVector, least: int, most: int
) -> None:
    size = size_for(mixture, acceptance, 64, 32)
    assert least <= size[0] <= most
    assert size == size_for(mixture, acceptance, 64, 32), "from nothing that was measured"
    seconds = [mixture.relative_seconds(rows) for rows in range(1, 65)]
    assert seconds[0] == pytest.approx(1.0)
    assert seconds == sorted(seconds)
