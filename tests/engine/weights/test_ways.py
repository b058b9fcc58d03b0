"""Ways to run a pair: never slower on a faster machine, advised only where faster, and in sentences that say so."""

from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.advice import Basis, Told, told
from engine.weights.planning.arrangement import all_in
from engine.weights.planning.forecast import STREAMED_WAYS, forecast
from engine.weights.planning.machine import GIB, Machine, Memory
from engine.weights.planning.needs import Layer, ModelNeeds, PassShape, Workload, expected_distinct
from engine.weights.planning.placement import Override
from engine.weights.planning.seen import Given, Seen
from engine.weights.planning.usual_rates import CPU_RATES, GPU_RATES
from engine.weights.planning.ways import ADVISED, Case, TreeYield, Ways, counts_of, largest_kept, ways_of
from tests.campaigns.extent import choose
from tests.engine.weights.planned import machines, models

many = settings(max_examples=choose(15, 100), deadline=None)
PROSPECTS = [TreeYield(nodes, 1.0 + nodes**0.5) for nodes in (1, 4, 16, 64, 256)]
WORK = Workload(1024, 64, 9.0, room=256)
DRAFT = ModelNeeds(
    "plain", (Layer(10 << 20, 10 << 20, 5 << 20, 5 << 20),) * 4, 10 << 20, 1000, PassShape(9000, 512, 8, 512, 2048, 2)
)
BASIS = Basis(is_measured=True, has_learned=False, is_given=False, is_limited=False, has_gpu=True)


def ways(target: ModelNeeds, machine: Machine, *others: Case, draft: ModelNeeds | None = DRAFT) -> Ways:
    asked = Case("tree", target, draft, machine, WORK, is_measured=True)
    plain = replace(asked, name="plain", draft=None, work=replace(WORK, budget=0, room=0))
    return ways_of(asked, asked.plan(), plain, others, PROSPECTS)


def model(experts: int = 0, chosen: int = 0, count: int = 48) -> ModelNeeds:
    """48 layers of 2 GB in 16 bits: dense, or nearly all of it experts."""
    elements, trunk = 1_000_000_000, 40_000_000
    active = trunk + (elements - trunk) * chosen // experts if experts else elements
    expert_bytes = 2 * (elements - trunk) if experts else 0
    layer = Layer(2 * elements, 2 * elements, elements, active, expert_bytes, experts=experts, chosen=chosen)
    return ModelNeeds("plain", (layer,) * count, 1 << 30, 100_000, PassShape(128_000, 8192, 64, 8192, 28_672, 2))


def card(vram: float = 24, ram: float = 256) -> Machine:
    return Machine(Memory(int(ram * GIB), vram_free=int(vram * GIB), has_gpu=True), GPU_RATES)


def in_words(found: Ways, basis: Basis = BASIS) -> Told:
    return told(found, basis)


# ---- every model, every machine -------------------------------------------------------------------------------------


@many
@given(models(), machines(), st.sampled_from(("link", "ssd", "memory", "tflops", "decode")), st.floats(1, 20))
def test_a_faster_machine_is_never_slower(
    target: ModelNeeds, machine: Machine, name: Literal["link", "ssd", "memory", "tflops", "decode"], times: float
) -> None:
    faster = replace(machine, rates=replace(machine.rates, **{name: times * getattr(machine.rates, name)}))
    before, after = ways(target, machine), ways(target, faster)
    assert (before.best is None) == (after.best is None)
    for slow, fast in ((before.plain, after.plain), (before.best, after.best)):
        if slow and fast:
            assert fast.tokens_per_second >= slow.tokens_per_second * (1 - 1e-9)


@many
@given(models(), machines())
def test_the_best_is_no_slower_than_one_token_per_pass_nor_than_a_small_tree(
    target: ModelNeeds, machine: Machine
) -> None:
    found = ways(target, machine)
    for each in (found.plain, found.small, found.tree):
        assert each is None or (found.best and found.best.tokens_per_second >= each.tokens_per_second)
    if found.small:
        assert found.tree
        assert found.tree.tokens_per_second >= found.small.tokens_per_second
    assert bool(in_words(found).verdict) == bool(found.plain and found.tree)


@many
@given(models(), machines())
def test_only_what_is_faster_is_advised(target: ModelNeeds, machine: Machine) -> None:
    larger = replace(machine, memory=replace(machine.memory, ram_free=8 << 30, vram_free=8 << 30))
    asked = Case("tree", target, DRAFT, machine, WORK)
    smaller = largest_kept(asked)
    found = ways(target, machine, replace(asked, name="kept", machine=larger), *filter(None, [smaller]))
    best = found.best.tokens_per_second if found.best else 0.0
    assert all(way.tokens_per_second >= ADVISED * best for way in found.advised)
    assert len(in_words(found).advice) == len(found.advised) <= 2


# ---- mixtures -------------------------------------------------------------------------------------------------------


@given(st.integers(2, 256), st.data())
def test_bytes_grow_with_rows_up_to_all_experts(experts: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, experts - 1))
    target, machine = model(experts, chosen), card()
    arrangement, cache = all_in("ram", 48), 4 << 30
    passes = [
        forecast(target, None, arrangement, machine, Workload(64, rows - 1), cache) for rows in (1, 2, 8, 64, 1024)
    ]
    moving = [each.link_seconds + each.expert_seconds for each in passes]
    assert moving == sorted(moving)
    whole = forecast(target, None, arrangement, machine, Workload(64))
    assert moving[-1] <= whole.seconds_per_pass, "never more than whole layers"


def test_a_row_of_a_sparse_mixture_streams_its_own_experts() -> None:
    target, machine = model(experts=128, chosen=4), card()
    given_ = forecast(target, None, all_in("ram", 48), machine, Workload(64), 2 << 30, STREAMED_WAYS)
    experts_bytes = 48 * 4 / 128 * 1.92e9
    assert given_.expert_seconds == pytest.approx(experts_bytes / 22e9 + 48 * 4 / 128 * 0.96e9 * 4 / 400e9)
    assert given_.link_seconds == pytest.approx(48 * 0.08e9 / 22e9)
    assert expected_distinct(128, 4, 1) == 4


def test_a_processor_finds_more_of_what_a_text_uses_in_its_cache_than_chance_would_have_it() -> None:
    target, machine = model(experts=128, chosen=4, count=4), Machine(Memory(1 << 40, has_gpu=False), CPU_RATES)
    every = sum(layer.expert_bytes for layer in target.layers)
    nearly_none, quarter = (
        forecast(target, None, all_in("ssd", 4), machine, Workload(64), cache, ("single",)).expert_seconds
        for cache in (every // 128, every // 4)
    )
    reading = 4 / 128 * every / (CPU_RATES.ssd * 1e9)
    assert nearly_none - quarter == pytest.approx(reading / 2, rel=0.05), "of which a quarter would be chance"


def test_a_cache_that_holds_all_experts_in_use_reads_fewer() -> None:
    target, machine = model(experts=128, chosen=4, count=4), card()
    small, large = (
        forecast(target, None, all_in("ram", 4), machine, Workload(64), cache) for cache in (70 << 20, 4 << 30)
    )
    assert large.expert_seconds < 0.7 * small.expert_seconds


# ---- in words -------------------------------------------------------------------------------------------------------


def test_a_tree_pays_for_a_dense_target_that_streams() -> None:
    found = ways(model(), card())
    assert found.tree
    assert found.tree.bound == "link"
    verdict = f"A tree of 256 nodes gives about {found.gain:.0f} times the speed of one token per pass, "
    assert in_words(found).verdict == verdict + "bound by the way from RAM to the GPU."
    assert [each.name for each in found.all] == ["plain", "small", "tree"]


@pytest.mark.parametrize("nodes", [0.2, 16.0, 20.4])
def test_what_answers_took_beyond_their_passes_counts_in_every_way(nodes: float) -> None:
    case = Case("tree", model(), DRAFT, card(), WORK, is_measured=True)
    found, alone = case.plan(), replace(case, name="plain", draft=None, work=replace(WORK, budget=0, room=0))
    passes = PassTime((1.0, 257.0), (5.0, 6.0))
    asked, plain = (replace(each, seen=Seen(counts_of(found), passes)) for each in (case, alone))
    before = ways_of(asked, found, plain, (), PROSPECTS)
    assert (before.answers, before.beyond) == (None, 1.0)
    given_ = Given(9, 4.0, 8.0, nodes, 0.3, 0.7, beyond=1.2)
    asked, plain = (replace(each, seen=Seen(counts_of(found), passes, given=given_)) for each in (case, alone))
    after = ways_of(asked, found, plain, (), PROSPECTS)
    assert after.answers
    assert after.answers.seconds == pytest.approx(8.0)
    assert after.answers.forecast
    assert after.answers.forecast.seconds_per_round == pytest.approx(8.0)
    assert after.answers.nodes == round(nodes)
    assert after.beyond == 1.2
    for one, other in ((before.plain, after.plain), (before.small, after.small), (before.tree, after.tree)):
        assert one
        assert other
        assert other.seconds == pytest.approx(1.2 * one.seconds)
        assert other.forecast
        assert other.forecast.seconds_per_round == pytest.approx(other.seconds)


def test_a_tree_cannot_pay_where_every_row_streams_other_experts() -> None:
    hopeless = [TreeYield(nodes, 1.0 + 0.05 * nodes**0.5) for nodes in (2, 4, 16)]
    asked = Case("tree", model(experts=128, chosen=4), DRAFT, card(), replace(WORK, budget=2))
    plain = replace(asked, name="plain", draft=None, work=replace(WORK, budget=0))
    found = ways_of(asked, asked.plan(), plain, (), hopeless)
    assert found.best
    assert (found.best.name, found.best.nodes) == ("experts", 0)
    verdict = "A tree cannot pay here, as each token touches other experts: the best, of 2 nodes, gives about "
    assert in_words(found).verdict.startswith(verdict)


def test_without_a_draft_there_is_nothing_to_say_of_trees() -> None:
    found = ways(model(), card(), draft=None)
    assert [each.name for each in found.all] == ["plain"]
    assert (in_words(found).verdict, in_words(found).basis) == ("", "")


def test_another_place_and_a_smaller_target_are_advised_with_what_they_take() -> None:
    machine = card(ram=40)
    asked = Case("tree", model(), DRAFT, machine, WORK)
    roomy = replace(asked, name="kept", machine=card(ram=256))
    smaller = largest_kept(asked)
    assert smaller
    assert 0 < len(smaller.target.layers) <= 12
    found = ways(model(), machine, roomy, smaller)
    assert [way.name for way in found.advised] == ["kept", "smaller"]
    advice = in_words(found).advice
    assert advice[0].startswith("If other programs leave ")
    assert advice[0].endswith(", 5.8 times as fast.")
    assert "A target of this kind with at most " in advice[1]
    limited = in_words(found, replace(BASIS, is_limited=True)).advice
    assert limited[0].startswith("If it may take ")


def test_a_format_whose_speed_was_not_measured_says_so() -> None:
    asked = Case("tree", model(), DRAFT, card(ram=40), WORK)
    layer = replace(model().layers[0], stored_bytes=500_000_000)
    packed = replace(asked, name="nf4", target=replace(model(), codec="nf4", layers=(layer,) * 48))
    found = ways(model(), asked.machine, packed)
    assert in_words(found).advice[0].endswith(" How fast these unpack here is assumed.")
    measured = ways(model(), asked.machine, replace(packed, is_measured=True))
    assert in_words(measured).advice[0].startswith("With weights in 4 bits (nf4): about ")
    assert "assumed" not in in_words(measured).advice[0]


def test_what_does_not_fit_has_no_ways_but_those_that_would() -> None:
    asked = Case("tree", model(), DRAFT, card(2, 2), WORK, Override(place="ram"))
    roomy = replace(asked, name="kept", machine=card(), override=Override())
    found = ways_of(asked, asked.plan(), replace(asked, name="plain", draft=None), [roomy], PROSPECTS)
    assert [each.name for each in found.all] == ["kept"]
    assert found.advised
    assert in_words(found, replace(BASIS, fits=False)).verdict == ""
