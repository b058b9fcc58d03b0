"""Mixtures on made-up machines: where the processor beats the link, and where a tree of many rows beats both."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.advice import Basis, told
from engine.weights.planning.arrangement import all_in
from engine.weights.planning.expert_ways import ExpertWay
from engine.weights.planning.forecast import STREAMED_WAYS, Forecast, forecast
from engine.weights.planning.machine import GIB, Machine, Memory, Rates
from engine.weights.planning.needs import Layer, ModelNeeds, PassShape, Workload
from engine.weights.planning.placement import Override
from engine.weights.planning.usual_rates import GPU_RATES
from engine.weights.planning.ways import Case, TreeYield, Ways, ways_of
from tests.campaigns.extent import choose

SHAPE = PassShape(128_000, 2880, 64, 4096, 2880, 2)
CARD = replace(GPU_RATES, link=25.0, host_memory=60.0, host_tflops=0.8, call_seconds=2e-4)
# Tokens per pass of SpecExec's pair (arXiv 2406.02532), an optimistic one.
TREES = [TreeYield(4, 3.5, 4.0), TreeYield(16, 7.5, 8.0), TreeYield(64, 12.2, 12.0), TreeYield(256, 16.0, 16.0)]
DRAFT = ModelNeeds("plain", (Layer(1 << 20, 1 << 20, 1 << 19, 1 << 19),) * 2, 1 << 20, 100, SHAPE)


def mixture(experts: int, chosen: int, expert_elements: int, count: int, trunk: int = 40_000_000) -> ModelNeeds:
    """In some four bits, as checkpoints pack them."""
    of_experts, bits = experts * expert_elements, 4.25
    elements, active = trunk + of_experts, trunk + chosen * expert_elements
    stored = int(elements * bits / 8)
    layer = Layer(stored, 2 * elements, elements, active, int(of_experts * bits / 8), experts=experts, chosen=chosen)
    return ModelNeeds("packed", (layer,) * count, 1 << 30, 10_000, SHAPE)


GPT_OSS = mixture(128, 4, 3 * 2880 * 2880, 26)
MIXTRAL = mixture(8, 2, 3 * 4096 * 14336, 26)


def of(
    target: ModelNeeds, nodes: int, ways: tuple[ExpertWay, ...], rates: Rates = CARD, cache: int = 4 << 30
) -> Forecast:
    machine = Machine(Memory(256 * GIB, vram_free=24 * GIB, has_gpu=True), rates)
    arrangement = all_in("ram", len(target.layers))
    return forecast(target, None, arrangement, machine, Workload(64, nodes), cache, ways)


def compared(target: ModelNeeds) -> Ways:
    machine = Machine(Memory(256 * GIB, vram_free=24 * GIB, has_gpu=True), CARD)
    asked = Case("tree", target, DRAFT, machine, Workload(64, 64, 12.2, room=256), Override(place="ram"))
    plain = replace(asked, name="plain", draft=None, work=Workload(64))
    return ways_of(asked, asked.plan(), plain, (), TREES)


@pytest.mark.parametrize("way", ["whole", "single", "computed"])
def test_a_mixture_whose_tokens_take_all_experts_is_planned_as_a_whole(way: ExpertWay) -> None:
    target = mixture(2, 2, 3 * 4096 * 14336, 8)
    assert of(target, 4, (way, "whole")).expert_way == "whole"


@pytest.mark.parametrize("nodes", [0, 4, 16, 64])
def test_the_processor_beats_streaming_for_one_expert_in_thirty(nodes: int) -> None:
    computed, streamed = of(GPT_OSS, nodes, ("computed",)), of(GPT_OSS, nodes, STREAMED_WAYS)
    assert computed.expert_way == "computed"
    assert computed.seconds_per_pass < streamed.seconds_per_pass
    assert of(GPT_OSS, nodes, ("whole", "single", "computed")) == computed, "the fastest is taken"


def test_streaming_a_large_tree_wins_for_one_expert_in_four() -> None:
    assert of(MIXTRAL, 0, ("computed",)).seconds_per_pass < of(MIXTRAL, 0, STREAMED_WAYS).seconds_per_pass
    assert of(MIXTRAL, 256, ("computed",)).seconds_per_pass > of(MIXTRAL, 256, STREAMED_WAYS).seconds_per_pass


def test_ways_say_which_of_both_it_is() -> None:
    sparse, dense = compared(GPT_OSS), compared(MIXTRAL)
    assert sparse.best
    assert sparse.best.name == "experts"
    assert 0 < sparse.best.nodes <= 16
    assert [way.name for way in sparse.all][-2:] == ["experts", "experts"]
    said = told(sparse, Basis(True, False, False, False, has_gpu=True)).verdict
    assert "The processor computes experts where they lie in RAM: with trees of " in said
    assert dense.best
    assert (dense.best.name, dense.best.nodes) == ("tree", 256)
    assert "The processor" not in told(dense, Basis(True, False, False, False, has_gpu=True)).verdict


@settings(max_examples=choose(25, 200), deadline=None)
@given(st.integers(4, 256), st.data())
def test_a_streamed_tree_wins_exactly_where_it_brings_more_tokens_than_bytes(experts: int, data: st.DataObject) -> None:
    """Against one token per pass of the processor, where nothing counts but bytes.

    Tokens per pass times active bytes over touched bytes, against the rate of the RAM over that of the link.
    """
    chosen = data.draw(st.integers(1, experts - 1))
    nodes, tokens = data.draw(st.integers(1, 300)), data.draw(st.floats(1.0, 20.0))
    ram, link = data.draw(st.floats(10, 200)), data.draw(st.floats(5, 60))
    target = mixture(experts, chosen, 1_000_000, 4, trunk=1)
    rates = Rates(link, 1e9, 1e12, 1e12, 1e12, 0.0, host_memory=ram, host_tflops=math.inf)
    layer = target.layers[0]
    touched, active = layer.distinct(nodes + 1) / experts, chosen / experts
    gain = tokens * active / touched
    assume(abs(gain / (ram / link) - 1) > 0.01)
    slots = math.ceil(layer.distinct(nodes + 1))  # of one layer: none of the next one's are there already
    assume(slots < chosen * len(target.layers))  # or those of one token would still be there when the next one comes
    cache = slots * (layer.expert_bytes // experts)
    streamed = of(target, nodes, ("single",), rates, cache)
    computed = of(target, 0, ("computed",), rates, cache)
    wins = tokens / streamed.seconds_per_pass > 1 / computed.seconds_per_pass
    assert wins == (gain > ram / link)


def test_what_the_processor_takes_is_what_was_measured_of_it() -> None:
    rates = replace(CARD, host=PassTime((1.0, 64.0), (0.05, 0.05)))
    once, twice = (
        of(GPT_OSS, 0, ("computed",), each, cache=1 << 30)
        for each in (rates, replace(rates, host=PassTime((1.0, 64.0), (0.1, 0.1))))
    )
    elements = 26 * 4 * 3 * 2880 * 2880
    assert twice.expert_seconds - once.expert_seconds == pytest.approx(0.05 * elements / 1e9, rel=1e-3)


def test_without_a_gpu_there_is_no_other_place_for_experts() -> None:
    machine = Machine(Memory(8 * GIB), CARD)
    asked = Case("tree", GPT_OSS, DRAFT, machine, Workload(64, 64, 12.2, room=64))
    plain = replace(asked, name="plain", draft=None, work=Workload(64))
    assert ways_of(asked, asked.plan(), plain, (), TREES).experts == ()
