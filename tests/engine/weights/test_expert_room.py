"""What single experts are given: from what is left, within every limit, and never at the cost of time."""

from dataclasses import replace

from hypothesis import given, settings

from engine.weights.planning.machine import Machine
from engine.weights.planning.needs import ModelNeeds, Workload
from engine.weights.planning.placement import Override, plan
from tests.campaigns.extent import choose
from tests.engine.weights.planned import machines, models

WORK = Workload(context_tokens=1000, budget=64)
many = settings(max_examples=choose(30, 150), deadline=None)


@many
@given(models(), machines())
def test_experts_take_half_of_what_is_left_and_make_no_pass_slower(target: ModelNeeds, machine: Machine) -> None:
    found = plan(target, None, machine, WORK)
    dense = replace(target, layers=tuple(replace(layer, expert_bytes=0) for layer in target.layers))
    without = plan(dense, None, machine, WORK)
    plain = replace(found.bytes, expert_cache=0, expert_stack=0)
    assert found.forecast.seconds_per_pass <= without.forecast.seconds_per_pass * (1 + 1e-9)
    assert found.arrangement != without.arrangement or plain == without.bytes
    assert 0 <= found.bytes.experts * 2 <= max(0, found.room.device - plain.device)
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
