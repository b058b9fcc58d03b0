"""The expert cache against a plain count of uses; and the choice between the ways of having experts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.weights.planning.expert_ways import (
    Situation,
    fastest_way,
    seconds_of,
    single_seconds,
    whole_seconds,
)
from engine.weights.planning.needs import expected_distinct
from engine.weights.streaming.experts.cache import HALF_LIFE, Expert, ExpertCache
from engine.weights.streaming.experts.meter import ExpertMeter, LinearCost, Mixture

EXPERTS = st.tuples(st.integers(0, 3), st.integers(0, 7))


@given(st.integers(1, 12), st.lists(st.lists(EXPERTS, min_size=1, max_size=12, unique=True), max_size=20))
def test_what_is_used_least_goes_and_never_what_is_needed_now(slots: int, calls: list[list[Expert]]) -> None:
    cache = ExpertCache(slots)
    uses: dict[Expert, list[int]] = {}  # by expert: in which calls
    held: set[Expert] = set()
    hits = misses = 0
    for now, asked in enumerate(call[:slots] for call in calls):
        missing = [expert for expert in asked if expert not in held]
        taken = cache.take(asked)
        assert list(taken.missing) == missing
        assert len(set(taken.slots)) == len(asked), "two experts in one slot"
        for expert in asked:
            uses.setdefault(expert, []).append(now)
        hits, misses = hits + len(asked) - len(missing), misses + len(missing)
        assert (cache.hits, cache.misses) == (hits, misses)
        everything = [(layer, number) for layer in range(4) for number in range(8)]
        found = {expert for expert in everything if expert in cache}
        assert set(asked) <= found <= held | set(asked)
        assert len(found) == min(slots, len(held | set(asked)))
        gone = (held | set(asked)) - found
        assert all(_score(uses[one]) <= _score(uses[other]) + 1e-9 for one in gone for other in found - set(asked))
        held = found
        assert cache.is_full == (len(held) == slots)


def _score(calls: list[int]) -> float:
    return sum(2 ** (call / HALF_LIFE) for call in calls)


def test_one_that_is_used_often_outlives_others_that_are_used_once() -> None:
    cache = ExpertCache(2)
    for _ in range(8):
        cache.take([(0, 0)])
    for other in range(1, 8):
        cache.take([(0, other)])
        assert (0, 0) in cache
    for _ in range(8 * HALF_LIFE):
        cache.take([(1, 0), (1, 1)])
    assert (0, 0) not in cache, "what was used long ago goes"


def test_scores_stay_finite_and_the_heap_small() -> None:
    cache = ExpertCache(3)
    cache._growth = 2.0**100
    for turn in range(60):
        cache.take([(0, turn % 5), (0, 5)])
        assert cache._use < 2.0**600
        assert len(cache._lowest) <= 5 * 3 + 3
    assert (0, 5) in cache


@given(st.lists(EXPERTS, min_size=1, max_size=12, unique=True), st.integers(0, 4), st.integers(1, 6))
def test_a_slot_is_only_given_for_one_that_is_used_more(asked: list[Expert], most: int, slots: int) -> None:
    cache = ExpertCache(slots)
    cache.take(asked[:slots])
    assert cache.worthy(asked[:slots], most) == []
    free = slots - len(asked[:slots])
    assert len(cache.worthy(asked[slots:], most)) <= free, "never used: only for a slot that nobody has"
    cache.note(asked[slots:])
    cache.note(asked[slots:])
    assert len(cache.worthy(asked[slots:], most)) == min(most, slots, len(asked[slots:]))


@given(st.lists(EXPERTS, min_size=1, max_size=6, unique=True), st.integers(0, 6))
def test_what_never_came_is_not_there_and_its_slots_are_used_again(asked: list[Expert], kept: int) -> None:
    cache = ExpertCache(6)
    slots = cache.take(asked).slots
    cache.forget(asked[kept:])
    assert [expert in cache for expert in asked] == [number < kept for number in range(len(asked))]
    again = cache.take(asked)
    assert list(again.missing) == asked[kept:]
    assert again.slots[:kept] == slots[:kept]
    assert len(set(again.slots)) == len(asked)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    experts = draw(st.integers(2, 256))
    seconds = st.floats(0, 1)
    return Situation(
        rows=draw(st.integers(1, 2048)),
        experts=experts,
        chosen=draw(st.integers(1, experts)),
        slots=draw(st.integers(1, 2048)),
        expert_bytes=draw(st.integers(1, 10**8)),
        trunk_bytes=draw(st.integers(0, 10**8)),
        whole_rate=draw(st.floats(1e7, 1e11)),
        single_rate=draw(st.floats(1e7, 1e11)),
        compute_seconds=draw(seconds),
        bind_seconds=draw(seconds),
        decodes=draw(st.booleans()),
        correlation=draw(st.floats(0.01, 1)),
        hit_share=draw(st.floats(0, 1)),
    )


@given(situations(), st.integers(0, 2048), st.floats(0, 1), st.floats(1, 10))
def test_more_rows_never_speak_for_single_experts_and_more_hits_and_speed_never_against(
    at: Situation, more_rows: int, more_hits: float, faster: float
) -> None:
    better = replace(at, hit_share=max(at.hit_share, more_hits), single_rate=at.single_rate * faster)
    assert single_seconds(better) <= single_seconds(at)
    assert fastest_way(better) == "single" or fastest_way(at) == "whole"
    worse = replace(at, rows=at.rows + more_rows)
    assert fastest_way(at) == "single" or fastest_way(worse) == "whole"


@given(situations())
def test_single_experts_need_room_and_a_clear_gain(at: Situation) -> None:
    assert at.chosen <= at.distinct <= at.experts + 1e-9
    if fastest_way(at) == "single":
        assert at.distinct <= at.slots
        assert single_seconds(at) < whole_seconds(at)
    assert fastest_way(replace(at, slots=0)) == "whole"


@pytest.mark.parametrize(("rows", "single"), [(1, True), (4, True), (64, False), (1024, False)])
def test_a_few_rows_take_experts_and_a_prompt_takes_layers(rows: int, single: bool) -> None:
    """A layer of Qwen3-30B-A3B in 16 bit, from an SSD that reads 2 GB a second, with a cache of one layer."""
    at = Situation(rows, 128, 8, 128, 9_437_184, 38_000_000, 2e9, 2e9, compute_seconds=0.02)
    assert (fastest_way(at) == "single") == single


def test_different_experts_are_as_many_as_chance_says() -> None:
    assert expected_distinct(8, 2, 1) == pytest.approx(2)
    assert expected_distinct(8, 2, 2) == pytest.approx(2 + 2 * 6 / 8)
    assert expected_distinct(8, 8, 1) == 8


MIXTURE = Mixture(layers=4, experts=8, slots=16, expert_bytes=1000, trunk_bytes=100, decodes=False)


def test_the_meter_tells_what_was_seen() -> None:
    meter = ExpertMeter(MIXTURE)
    fresh = meter.situation(1, 2, 0.0)
    assert fresh.whole_rate == fresh.single_rate > 0
    assert fresh.hit_share == 0.5, "half of all experts will be in the cache"
    meter.fetched(1000, 1e-6, waited=1e-6)
    meter.computed(1, 0.25)
    meter.bound(2, 0.5)
    meter.routed(1, 2, distinct=2, hits=None)
    meter.routed(1, 2, distinct=2, hits=2)
    seen = meter.situation(1, 2, 5e8)
    assert (seen.single_rate, seen.whole_rate) == (1e9, 1e9), "whole layers are not slower than single experts"
    assert (seen.compute_seconds, seen.bind_seconds, seen.correlation, seen.hit_share) == (0.25, 0.25, 1.0, 1.0)
    assert meter.situation(1, 2, 3e9).whole_rate == 3e9
    assert meter.situation(900, 2, 0.0).compute_seconds == 0.25, "the nearest that was seen"
    meter.fetched(1000, 1e-6)
    assert meter.situation(1, 2, 5e8).single_rate == pytest.approx(1e9), "nobody waited for these"
    meter.fetched(1000, 1e-6, waited=0.2e-6)
    assert meter.situation(1, 2, 5e8).single_rate == pytest.approx(1e9 / 0.8), "a part came while others were computed"


def test_a_cache_smaller_than_one_pass_promises_no_hits() -> None:
    assert ExpertMeter(replace(MIXTURE, slots=7)).situation(1, 2, 0.0).hit_share == 0


@given(st.floats(0, 1e-2), st.floats(0, 1e-3), st.lists(st.tuples(st.integers(1, 60), st.integers(0, 400)), min_size=1))
def test_what_experts_and_rows_cost_is_found_again(each: float, row: float, measured: list[tuple[int, int]]) -> None:
    cost = LinearCost()
    for experts, more in measured:
        cost.add(experts, experts + more, each * experts + row * (experts + more))
    found = cost.per_expert_and_row()
    assert min(found) >= 0
    if len(set(measured)) == 1:
        experts, more = measured[0]
        expected = each * experts + row * (experts + more)
        assert found[0] * experts + found[1] * (experts + more) == pytest.approx(expected, rel=0.05)


def test_experts_are_computed_where_they_lie_while_that_is_faster() -> None:
    """gpt-oss-120b over a link of 25 GB/s, from RAM that the processor reads with 60: as in the issue."""
    at = Situation(
        1, 128, 4, 512, 13_000_000, 40_000_000, 25e9, 25e9, compute_seconds=1e-3, in_place=True,
        place_seconds=13e6 / 60e9, row_seconds=1e-5,
    )  # fmt: skip
    assert fastest_way(at) == "computed"
    assert "single" not in seconds_of(replace(at, slots=3))
    assert fastest_way(replace(at, in_place=False)) == "single"
    assert fastest_way(replace(at, rows=1024, row_seconds=1e-4)) == "whole"
    slow = replace(at, place_seconds=13e6 / 20e9)
    assert fastest_way(slow) == "single"
    assert fastest_way(replace(slow, unmeasured=frozenset({"computed"}))) == "computed", "near enough to be tried once"
    assert fastest_way(replace(slow, place_seconds=1.0, unmeasured=frozenset({"computed"}))) == "single"


def test_a_way_counts_as_tried_once_it_was_measured() -> None:
    meter = ExpertMeter(replace(MIXTURE, in_place=True))
    assert meter.situation(1, 2, 0.0).unmeasured == {"single", "computed"}
    meter.multiplied(2, 2, 1e-3)
    meter.fetched(1000, 1e-6, waited=1e-6)
    assert meter.situation(1, 2, 0.0).unmeasured == frozenset()
    assert ExpertMeter(MIXTURE).situation(1, 2, 0.0).unmeasured == frozenset()
