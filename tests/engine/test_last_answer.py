"""What an answer gave is what the next plan of the same pair expects."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import Cancellation
from engine.loading.learned import LearnedState
from engine.loading.loading import plan_target
from engine.loading.pair import Pair, open_pair
from engine.loading.rates import (
    LEAST_PASSES,
    MeasuredHere,
    Place,
    question_for,
    recall_answer,
    remember_answer,
)
from engine.model.device import choose_device
from engine.protocol.messages import Seconds, Statistics
from engine.protocol.options import LoadOptions, SpeculationOptions
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.placement import Plan
from engine.weights.planning.seen import Seen

EIGHT = SpeculationOptions("specexec", 8)
ANSWER = Statistics("specexec", 8, new_tokens=66, passes=20, drafted_nodes=160, seconds=Seconds(decode=5.0))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return open_pair(LoadOptions(weights="float32", device="cpu", budget=8, cache_dir=str(tmp_path)))


def planned(pair: Pair, **changes: int | str) -> Plan:
    options, cancellation = replace(pair.options, **changes), Cancellation()  # type: ignore[arg-type]
    cancellation.begin(1)
    steps = plan_target(1, pair.target, pair.draft, options, choose_device("cpu"), cancellation)
    with pytest.raises(StopIteration) as end:
        next(steps)
    plan: Plan = end.value.value
    return plan


def test_the_last_answer_is_expected_of_the_next_one(pair: Pair) -> None:
    assert planned(pair).forecast.tokens_per_pass == 5.3
    remember_answer(pair, EIGHT, ANSWER)
    found = recall_answer(pair.identity, 8)
    assert found
    assert (found.tokens_per_pass, found.seconds_per_pass) == (3.3, 0.25)
    assert planned(pair).forecast.tokens_per_pass == 3.3
    assert planned(pair, budget=16).forecast.tokens_per_pass == 7.5, "another budget has figures of its own"


@pytest.mark.parametrize("changes", [{"passes": LEAST_PASSES - 1}, {"drafted_nodes": 0}])
def test_an_answer_that_says_little_is_not_kept(changes: dict[str, int], pair: Pair) -> None:
    remember_answer(pair, EIGHT, replace(ANSWER, **changes))  # type: ignore[arg-type]
    assert recall_answer(pair.identity, 8) is None


def test_what_rounds_took_is_planned_with_on_this_machine_alone(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, cpu = LearnedState(), choose_device("cpu")
    for _ in range(2):
        learned.throughput.passes.observe(1, 0.4)
        learned.throughput.passes.observe(9, 0.5)
    place = Place(cpu, ["device"] * 8)
    remember_answer(pair, EIGHT, ANSWER, learned, place)
    here = MeasuredHere(cpu)
    assert question_for(pair.identity, here).seen == Seen((8, 0, 0), PassTime((1.0, 9.0), (0.4, 0.5)))
    assert planned(pair).forecast.seconds_per_pass == pytest.approx(0.5)
    assert planned(pair, kv="8").forecast.seconds_per_pass != pytest.approx(0.5), "attention takes another time there"
    remember_answer(pair, EIGHT, ANSWER, learned, replace(place, kv_form="8 bits"))
    assert planned(pair, kv="8").forecast.seconds_per_pass == pytest.approx(0.5)
    assert planned(pair).forecast.seconds_per_pass != pytest.approx(0.5)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    assert question_for(pair.identity, here).seen is None


def test_a_target_that_drafts_for_itself_is_another_pair_than_one_without_a_draft(tmp_path: Path) -> None:
    own, alone = (open_pair(LoadOptions(draft=draft, cache_dir=str(tmp_path))) for draft in ("self", "none"))
    remember_answer(own, EIGHT, ANSWER)
    assert recall_answer(own.identity, 8)
    assert recall_answer(alone.identity, 8) is None


def test_without_a_draft_there_is_nothing_to_keep(pair: Pair) -> None:
    alone = replace(pair, draft=None)
    remember_answer(alone, EIGHT, ANSWER)
    assert recall_answer(alone.identity, 8) is None


def test_another_method_s_answer_is_not_expected_of_the_planned_one(pair: Pair) -> None:
    remember_answer(pair, EIGHT, ANSWER)
    for method in ("chain", "specinfer", "sequoia", "lookup"):
        remember_answer(pair, SpeculationOptions(method, 8), replace(ANSWER, method=method, new_tokens=20))
    found = recall_answer(pair.identity, 8)
    assert found
    assert found.tokens_per_pass == 3.3
