"""What rounds took counts more than what was computed, where they were seen, and only there."""

from dataclasses import replace

import pytest

from engine.speculation.tuning.pass_time import ENOUGH, MeasuredPasses, PassTime
from engine.weights.planning.forecast import forecast
from engine.weights.planning.machine import GIB, Machine, Memory
from engine.weights.planning.needs import Layer, ModelNeeds, PassShape, Workload
from engine.weights.planning.placement import Override
from engine.weights.planning.seen import Seen
from engine.weights.planning.usual_rates import GPU_RATES
from engine.weights.planning.ways import NO_TREE, Case, TreeYield, fastest

SHAPE = PassShape(32_000, 4096, 32, 4096, 11_008, 2)
LAYER = Layer(400 << 20, 400 << 20, 200 << 20, 200 << 20)
TARGET = ModelNeeds("plain", (LAYER,) * 8, 1 << 28, 10_000, SHAPE)
DRAFT = replace(TARGET, layers=(Layer(1 << 20, 1 << 20, 1 << 19, 1 << 19),) * 4)
MACHINE = Machine(Memory(64 * GIB, vram_free=24 * GIB, has_gpu=True), GPU_RATES)
CASE = Case("tree", TARGET, DRAFT, MACHINE, Workload(256, 16, 4.0, room=64), Override(place="ram"))
SEEN = Seen((0, 8, 0), PassTime((1.0, 17.0), (0.5, 0.8)), 0.25, PassTime((1.0, 64.0), (0.01, 0.02)))


def seconds(case: Case, tree: TreeYield = NO_TREE) -> float:
    found = case.plan()
    way = fastest(case, found, [tree])
    assert way
    return way.seconds


def test_sizes_that_were_seen_take_what_they_took() -> None:
    case = replace(CASE, seen=SEEN)
    assert seconds(case) == pytest.approx(0.5)
    assert seconds(case, TreeYield(16, 4.0, 16.0)) == pytest.approx(0.8 + 0.75 * 16 * 0.01)


def test_other_sizes_take_as_many_times_what_was_computed() -> None:
    case = replace(CASE, seen=replace(SEEN, passes=PassTime((1.0,), (0.5,)), hidden=0.0, levels=None))
    tree = TreeYield(64, 8.0, 8.0)
    computed, plain = (
        forecast(TARGET, draft, CASE.plan().arrangement, MACHINE, Workload(256, nodes, levels=8.0))
        for draft, nodes in ((DRAFT, 64), (None, 0))
    )
    factor = 0.5 / plain.seconds_per_pass
    assert seconds(case, tree) == pytest.approx(factor * computed.seconds_per_pass + computed.draft_seconds)


def test_elsewhere_only_the_drafting_is_known() -> None:
    case = replace(CASE, seen=replace(SEEN, tiers=(8, 0, 0)))
    assert seconds(case) == seconds(CASE)
    found = fastest(case, case.plan(), [TreeYield(16, 4.0, 16.0)])
    assert found
    assert found.forecast
    assert found.forecast.draft_seconds == pytest.approx(16 * 0.01)


def test_a_draft_is_as_fast_as_its_own_weights() -> None:
    slow = replace(GPU_RATES, memory=GPU_RATES.memory / 10, tflops=GPU_RATES.tflops / 10, call_seconds=5e-3)
    own = replace(MACHINE, drafting=slow)
    work = Workload(256, 16, 4.0, levels=4.0)
    arrangement = CASE.plan().arrangement
    alike, different = (forecast(TARGET, DRAFT, arrangement, each, work) for each in (MACHINE, own))
    assert different.draft_seconds == pytest.approx(10 * alike.draft_seconds)
    assert different.seconds_per_pass == alike.seconds_per_pass


def test_every_part_of_a_round_follows_its_rate() -> None:
    rates = replace(
        GPU_RATES,
        products=PassTime((1.0, 64.0), (0.01, 0.02)),
        attention=PassTime((1.0,), (0.0,)),
        calls=PassTime((1.0, 64.0), (1e-3, 2e-3)),
        pass_seconds=0.1,
        round_seconds=0.2,
        levels=PassTime((1.0, 64.0), (0.03, 0.03)),
    )
    machine, place = Machine(MACHINE.memory, rates), replace(CASE, override=Override(place="device")).plan().arrangement
    given = forecast(TARGET, None, place, machine, Workload(256))
    elements = 8 * LAYER.elements + 32_000 * 4096
    assert given.compute_seconds == pytest.approx(0.01 * elements / 1e9 + 8 * 1e-3 + 0.1)
    assert given.seconds_per_round == pytest.approx(given.compute_seconds + 0.2)
    drafted = forecast(TARGET, DRAFT, place, machine, Workload(256, 4, levels=4.0))
    of_draft = 0.01 * (4 * (1 << 19) + 32_000 * 4096) / 1e9 + 4 * 1e-3 + 0.1
    assert drafted.draft_seconds == pytest.approx(4 * (of_draft + 0.03))


def test_only_sizes_that_were_measured_often_enough_are_known() -> None:
    passes = MeasuredPasses()
    assert passes.known is None
    passes.observe(1, 0.4)
    assert passes.known is None
    for _ in range(ENOUGH):
        passes.observe(1, 0.4)
        passes.observe(17, 0.9)
    passes.observe(65, 2.0)
    assert passes.known == PassTime((1.0, 17.0), (0.4, 0.9))
