"""For every machine and model: plans keep within limits, are even, and only get faster with more memory."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.weights.planning.arrangement import Tier, spread, streamed_layers
from engine.weights.planning.machine import Machine
from engine.weights.planning.needs import ModelNeeds, Workload
from engine.weights.planning.placement import CRAMPED, Override, Plan, plan
from tests.campaigns.extent import choose
from tests.engine.weights.planned import MIB, machines, models

works = st.builds(Workload, st.integers(1, 20_000), st.integers(0, 2048), st.floats(1, 30))
limits = st.none() | st.integers(0, 4000).map(lambda mib: mib * MIB)
drafts = st.none() | models()
many = settings(max_examples=choose(30, 150), deadline=None)


def taken_of_ram(found: Plan) -> int:
    return found.bytes.ram + (found.bytes.device if found.room.shared else 0)


@many
@given(models(), drafts, machines(), works, limits, limits)
def test_no_limit_is_ever_exceeded(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload, vram: int | None, ram: int | None
) -> None:
    found = plan(target, draft, machine, work, Override(vram_limit=vram, ram_limit=ram))
    memory = machine.memory
    assert (found.verdict == "no") == (not found.fits)
    if not found.fits:
        return
    for free, limit, taken in (
        (memory.ram_free - memory.ram_reserve, ram, taken_of_ram(found)),
        (memory.vram_free - memory.vram_reserve if memory.has_gpu else taken_of_ram(found), vram, found.bytes.device),
    ):
        assert taken <= max(0, free)
        assert limit is None or taken <= limit


@many
@given(models(), drafts, machines(), works)
def test_every_layer_has_one_place_and_residents_lie_evenly(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload
) -> None:
    found = plan(target, draft, machine, work)
    tiers = found.arrangement.tiers
    assert len(tiers) == len(found.layer_bytes) == len(target.layers)
    assert sum(found.arrangement.count(tier) for tier in ("device", "ram", "ssd")) == len(target.layers)
    kept = {tier: sum(b for b, t in zip(found.layer_bytes, tiers, strict=True) if t == tier) for tier in set(tiers)}
    streamed = streamed_layers(tiers, machine.memory.has_gpu) if found.arrangement.trunks else []
    trunks = {index: target.layers[index].stored_bytes - target.layers[index].expert_bytes for index in streamed}
    of_ram = sum(nbytes for index, nbytes in trunks.items() if tiers[index] == "ram")
    assert kept.get("device", 0) + sum(trunks.values()) == found.bytes.layers
    assert kept.get("ram", 0) - of_ram == found.bytes.ram_layers
    assert kept.get("ssd", 0) == found.bytes.ssd
    assert_even([tier == "device" for tier in tiers])
    assert_even([tier == "ram" for tier in tiers if tier != "device"])


@given(st.integers(1, 200), st.data())
def test_chosen_places_are_as_many_as_asked_for_and_even(count: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, count))
    places = spread(count, chosen)
    assert (len(places), sum(places)) == (count, chosen)
    assert_even(places)


def assert_even(places: list[bool]) -> None:
    """Gaps between chosen places differ by at most one; the pass after the last layer begins with the first."""
    chosen = [place for place, is_chosen in enumerate(places) if is_chosen]
    if chosen:
        gaps = [after - before for before, after in zip(chosen, [*chosen[1:], chosen[0] + len(places)], strict=True)]
        assert max(gaps) - min(gaps) <= 1


@many
@given(models(), drafts, machines(), works, st.integers(0, 2000), st.integers(0, 2000))
def test_more_memory_is_never_slower(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload, more_vram: int, more_ram: int
) -> None:
    machine = without_experts_on_the_processor(machine)
    memory = machine.memory
    larger = replace(memory, vram_free=memory.vram_free + more_vram * MIB, ram_free=memory.ram_free + more_ram * MIB)
    before = plan(target, draft, machine, work)
    after = plan(target, draft, replace(machine, memory=larger), work)
    assert after.fits >= before.fits
    if before.fits:
        assert_not_slower(after, before)


@many
@given(models(), drafts, machines(), works, st.integers(0, 20_000), st.integers(0, 2048))
def test_more_context_or_budget_never_needs_less(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload, tokens: int, nodes: int
) -> None:
    machine = without_experts_on_the_processor(machine)
    before = plan(target, draft, machine, work)
    more = replace(work, context_tokens=work.context_tokens + tokens, budget=work.budget + nodes)
    after = plan(target, draft, machine, more)
    assert after.fits <= before.fits
    fixed = [found.bytes.kv + found.bytes.buffers + found.bytes.draft for found in (before, after)]
    assert fixed[0] <= fixed[1]
    if after.fits:
        assert_not_slower(before, after)


def without_experts_on_the_processor(machine: Machine) -> Machine:
    """Held experts are decoded by the device: beside a fast processor more of them may take longer."""
    return replace(machine, rates=replace(machine.rates, host=None, host_memory=1e-9, host_tflops=1e-9))


def assert_not_slower(fast: Plan, slow: Plan) -> None:
    """But for what room for single experts costs."""
    assert fast.forecast.seconds_per_pass <= slow.forecast.seconds_per_pass * CRAMPED
    assert fast.forecast.seconds_per_round <= slow.forecast.seconds_per_round * CRAMPED


@many
@given(models(), drafts, machines(), works, st.data())
def test_own_places_are_obeyed(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload, data: st.DataObject
) -> None:
    count = len(target.layers)
    kinds: Any = st.sampled_from(("device", "ram", "ssd"))
    tiers: tuple[Tier, ...] = tuple(data.draw(st.lists(kinds, min_size=count, max_size=count)))
    found = plan(target, draft, machine, work, Override(tiers=tiers))
    forced = plan(target, draft, machine, work, Override(tiers=tiers, force=True))
    assert found.arrangement.tiers == forced.arrangement.tiers == tiers
    assert forced.bytes == found.bytes
    assert (found.verdict == "no") == (not found.fits)
    assert forced.verdict == ("ssd" if "ssd" in tiers else "offload" if "ram" in tiers else "device")


@many
@given(models(), drafts, machines(), works)
def test_a_pass_takes_as_long_as_its_slowest_part_and_no_longer(
    target: ModelNeeds, draft: ModelNeeds | None, machine: Machine, work: Workload
) -> None:
    seconds = plan(target, draft, machine, work).forecast
    parts = (seconds.compute_seconds, seconds.link_seconds, seconds.ssd_seconds)
    assert seconds.seconds_per_pass == max(parts) + seconds.expert_seconds > 0
    assert seconds.tokens_per_second == pytest.approx(work.tokens_per_pass / seconds.seconds_per_round)
