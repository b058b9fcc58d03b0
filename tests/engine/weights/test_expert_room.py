"""What single experts are given: from what is left, within every limit, and at the cost of little time."""

from dataclasses import replace

from hypothesis import given, settings

from engine.weights.planning.arrangement import Tier, footprint, streamed_layers, with_experts
from engine.weights.planning.forecast import forecast
from engine.weights.planning.machine import GIB, Machine, Memory
from engine.weights.planning.needs import Layer, ModelNeeds, PassShape, Workload, fixed_bytes
from engine.weights.planning.placement import CRAMPED, Override, plan
from engine.weights.planning.usual_rates import CPU_RATES
from tests.campaigns.extent import choose
from tests.engine.weights.planned import machines, models

WORK = Workload(context_tokens=1000, budget=64)
many = settings(max_examples=choose(30, 150), deadline=None)


@many
@given(models(), machines())
def test_experts_take_part_of_what_is_left_and_make_passes_hardly_slower(target: ModelNeeds, machine: Machine) -> None:
    found = plan(target, None, machine, WORK)
    dense = replace(target, layers=tuple(replace(layer, expert_bytes=0) for layer in target.layers))
    without = plan(dense, None, machine, WORK)
    plain = replace(found.bytes, expert_cache=0, expert_stack=0)
    assert found.forecast.seconds_per_pass <= without.forecast.seconds_per_pass * CRAMPED * (1 + 1e-9)
    assert found.arrangement != without.arrangement or plain == without.bytes
    left, largest = found.room.device - plain.device, max(layer.expert_bytes for layer in target.layers)
    spare = min(left // 2, largest) if found.arrangement.trunks and found.room.shared else left // 2
    assert 0 <= found.bytes.experts <= max(0, left - spare)
    assert found.fits == without.fits


@many
@given(models(), machines())
def test_the_cache_is_for_experts_that_move_and_no_larger_than_they_are(target: ModelNeeds, machine: Machine) -> None:
    found = plan(target, None, machine, WORK, Override(force=True))
    moves = {"ssd", "ram"} if machine.memory.has_gpu else {"ssd"}
    moving = [
        layer.expert_bytes
        for layer, tier in zip(target.layers, found.arrangement.tiers, strict=True)
        if tier in moves and not found.arrangement.ready
    ]
    assert found.bytes.expert_cache <= sum(moving)
    if found.bytes.expert_cache:
        assert found.bytes.expert_stack == (max(moving) if target.codec == "plain" else 0)
        assert found.fits
    else:
        assert found.bytes.expert_stack == 0


def test_a_layer_gives_way_to_experts_that_a_small_tree_brings_one_by_one() -> None:
    """128 of a GiB a layer; what is left over beside the layers that fit would hold a few of them."""
    layer = Layer(GIB + GIB // 50, 4 * GIB, 2 * 10**9, 10**8, GIB, experts=128, chosen=8)
    target = ModelNeeds("packed", (layer,) * 40, 1 << 27, 10_000, PassShape(32_000, 4096, 32, 4096, 4096, 2))
    machine = Machine(Memory(ram_free=20 * GIB, has_gpu=False), CPU_RATES)
    found = plan(target, None, machine, WORK)
    assert found.arrangement.count("device") >= 8
    assert found.bytes.expert_cache >= GIB
    more = replace(found.arrangement, tiers=_more(found.arrangement.tiers))
    taken = footprint(target, fixed_bytes(target, None, WORK, on_gpu=False), more, machine)
    assert found.room.holds(taken.device, taken.ram)
    cache = with_experts(taken, target, more, found.room).expert_cache
    assert cache < GIB
    faster = forecast(target, None, more, machine, WORK, cache).seconds_per_pass
    assert found.forecast.seconds_per_pass < CRAMPED * faster


@many
@given(models(), machines())
def test_trunks_that_stay_are_counted_where_they_are_and_move_no_more(target: ModelNeeds, machine: Machine) -> None:
    found = plan(target, None, machine, WORK)
    kept, taken = found.arrangement, found.bytes
    assert not kept.trunks or (taken.expert_cache > 0 and found.fits)
    if kept.trunks:
        streamed = streamed_layers(kept.tiers, machine.memory.has_gpu)
        assert all(target.layers[index].expert_bytes for index in streamed), "a layer without experts is all trunk"
        whole = replace(kept, trunks=False)
        plain = footprint(target, fixed_bytes(target, None, WORK, machine.memory.has_gpu), whole, machine)
        trunks = sum(target.layers[index].stored_bytes - target.layers[index].expert_bytes for index in streamed)
        assert taken.layers - plain.layers == trunks
        assert taken.ring <= plain.ring
        assert taken.ram_layers <= plain.ram_layers


def test_a_pass_of_one_token_reads_the_experts_that_it_chose_alone() -> None:
    layer = Layer(GIB + GIB // 50, 4 * GIB, 2 * 10**9, 10**8, GIB, experts=128, chosen=8)
    target = ModelNeeds("packed", (layer,) * 40, 1 << 27, 10_000, PassShape(32_000, 4096, 32, 4096, 4096, 2))
    machine = Machine(Memory(ram_free=20 * GIB, has_gpu=False), CPU_RATES)
    found = plan(target, None, machine, Workload(context_tokens=1000)).forecast
    assert (found.expert_way, found.ssd_seconds) == ("single", 0.0)


def _more(tiers: tuple[Tier, ...]) -> tuple[Tier, ...]:
    """One more of them in memory."""
    place = tiers.index("ssd")
    return (*tiers[:place], "device", *tiers[place + 1 :])
