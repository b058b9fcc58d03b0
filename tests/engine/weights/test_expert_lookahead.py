"""Experts of the next layer, brought before its router has run: the same bits, whatever was foretold."""

import random
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import wait

import pytest
import torch
import transformers
from torch import Tensor, nn

from engine.errors import ModelError
from engine.model.network import find_layers
from engine.weights.streaming.experts import stream as expert_stream
from engine.weights.streaming.experts.binding import Experts, find_experts
from engine.weights.streaming.experts.cache import Expert
from engine.weights.streaming.experts.lookahead import foretold, router_of
from engine.weights.streaming.experts.meter import ExpertMeter
from engine.weights.streaming.experts.meter import Mixture as Alike
from engine.weights.streaming.experts.slots import ExpertSlots, Fetch
from engine.weights.streaming.experts.split_layout import slot_shape, split_layout
from engine.weights.streaming.layer_stream import LayerStream
from tests.campaigns.extent import choose
from tests.engine.family_models import tiny_config
from tests.engine.weights.reading import cache_use
from tests.engine.weights.test_expert_products import FEW_ROWS, lasting_qwen, qwen, small_matrices_count
from tests.engine.weights.test_expert_stream import PLENTY, Mixture, always, passes
from tests.engine.weights.test_layer_stream import assert_same

__all__ = ["lasting_qwen", "qwen", "small_matrices_count"]  # fixtures

ROUTED = choose(
    ("deepseek_v3", "glm4_moe", "gpt_oss", "jamba", "lfm2_moe", "minimax_m2", "mixtral", "qwen3_moe"),
    (
        "cohere2_moe", "deepseek_v2", "deepseek_v3", "dots1", "ernie4_5_moe", "exaone_moe", "flex_olmo", "glm4_moe",
        "glm4_moe_lite", "gpt_oss", "granitemoe", "hunyuan_v1_moe", "jamba", "lfm2_moe", "minimax", "minimax_m2",
        "minimax_m3_vl_text", "mixtral", "nemotron_h", "olmoe", "phimoe", "qwen2_moe", "qwen3_5_moe_text",
        "qwen3_moe", "qwen3_next", "solar_open",
    ),
)  # fmt: skip


@pytest.mark.parametrize("family", ROUTED)
def test_a_router_foretells_what_it_chooses(family: str) -> None:
    """If it is given what the network gives it, which other layers only nearly have."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(tiny_config(family), dtype=torch.float32).eval()
    seen: list[tuple[nn.Module, Experts, Tensor, Tensor]] = []
    for layer in find_layers(model):
        if experts := find_experts(layer):
            experts.module.register_forward_pre_hook(
                lambda _module, inputs, layer=layer, experts=experts: seen.append((layer, experts, *inputs[:2]))
            )
    with torch.inference_mode():
        model(torch.randint(3, 50, (1, 9)))
        assert seen
        for layer, experts, hidden, choice in seen:
            router = router_of(layer, experts)
            assert router
            for row in range(len(hidden)):
                assert sorted(foretold(router, hidden[row : row + 1], choice.shape[-1])) == sorted(choice[row].tolist())
            wanted = Counter(choice.flatten().tolist())
            found = foretold(router, hidden, choice.shape[-1])
            assert [wanted[expert] for expert in found] == sorted(wanted.values(), reverse=True)[: len(found)]
            assert len(found) == choice.shape[-1]


class Beside(nn.Module):
    """A layer whose experts have a router of this kind beside them."""

    def __init__(self, router: nn.Module | None) -> None:
        super().__init__()
        self.mlp = nn.Module()
        self.mlp.experts = nn.Module()
        if router is not None:
            self.mlp.gate = router


class Demanding(nn.Module):
    """A router that is given something that nobody has beside it."""

    def forward(self, hidden: Tensor, temperature: Tensor) -> Tensor:
        return hidden / temperature


@pytest.mark.parametrize("router", [None, Demanding()])
def test_what_cannot_be_asked_is_not(router: nn.Module | None) -> None:
    layer = Beside(router)
    assert router_of(layer, Experts(layer.mlp.experts, "mlp.experts.", 8)) is None  # type: ignore[arg-type]


# ---- streams --------------------------------------------------------------------------------------------------------


def stream_of(model: Mixture, slots: int = 0, trunks_stay: bool = True) -> LayerStream:
    """All from disk, with a cache of so many slots; 0: for all experts."""
    cache = slots * model.slot_bytes() if slots else PLENTY
    return model.stream(
        model.layouts,
        ["ssd"] * 4,
        expert_cache_bytes=cache,
        choose=always,
        few_rows=FEW_ROWS,
        trunks_stay=trunks_stay,
    )


def slots_of(stream: LayerStream) -> ExpertSlots:
    assert stream._experts
    (slots,) = stream._experts._slots
    return slots


def test_experts_that_were_foretold_are_there_when_they_are_asked_for(
    qwen: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = stream_of(qwen, slots=10, trunks_stay=False)
    expected = passes(qwen.context)
    _, misses = cache_use(without)
    without.close()
    qwen.context.rewind(0)
    monkeypatch.setattr(expert_stream, "foretold", lambda *_: range(8))  # all that there are
    stream = stream_of(qwen, slots=20)
    assert_same(passes(qwen.context), expected)
    assert 0 < cache_use(stream)[1] < misses
    stream.close()


@pytest.mark.parametrize("seed", range(choose(4, 40)))
def test_whatever_is_foretold_and_however_small_the_cache_bits_are_the_same(
    seed: int, qwen: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    without = stream_of(qwen, trunks_stay=False)
    expected = passes(qwen.context)
    without.close()
    qwen.context.rewind(0)
    monkeypatch.setattr(expert_stream, "foretold", lambda *_: chance.sample(range(8), chance.randint(0, 8)))
    stream = stream_of(qwen, slots=chance.choice((2, 8, 9, 11, 20, 32)))
    assert_same(passes(qwen.context), expected)
    qwen.context.rewind(0)
    assert_same(passes(qwen.context), expected)
    stream.close()


def test_a_router_that_fails_when_it_is_asked_alone_fails_no_pass(
    qwen: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = stream_of(qwen, trunks_stay=False)
    expected = passes(qwen.context)
    without.close()
    qwen.context.rewind(0)
    asked: list[int] = []

    def fail(*_: object) -> list[int]:
        asked.append(1)
        raise RuntimeError("not now")

    monkeypatch.setattr(expert_stream, "foretold", fail)
    stream = stream_of(qwen)
    assert_same(passes(qwen.context), expected)
    assert len(asked) == 3, "each layer but the first is asked for once"
    stream.close()


# ---- slots ----------------------------------------------------------------------------------------------------------


class Slow:
    """A source that reads when it may; `fails`: the experts that cannot be read."""

    takes_all = False

    def __init__(self) -> None:
        self.may = threading.Event()
        self.begun = threading.Event()
        self.read: list[int] = []
        self.fails: set[int] = set()

    def fetch(self, wanted: Sequence[Fetch]) -> None:
        for each in wanted:
            self.begun.set()
            self.may.wait(30)
            if each.expert in self.fails:
                raise ModelError("gone")
            self.read.append(each.expert)
            each.slot.fill_(each.expert)


class Slotted:
    """The slots of two layers of a model, and both layouts."""

    def __init__(self, model: Mixture, slots: int) -> None:
        found = [find_experts(layer) for layer in model.streamable.network.layers[:2]]
        layouts = zip(model.layouts, found, strict=False)
        self.splits = [split_layout(layout, each.prefix, each.count) for layout, each in layouts if each]
        first = self.splits[0]
        assert first
        shape = slot_shape(first)
        memory = torch.zeros(slots * shape.nbytes, dtype=torch.uint8)
        meter = ExpertMeter(Alike(2, 8, slots, first.expert_bytes, 0, decodes=False))
        self.slots = ExpertSlots(memory, shape, slots, meter, None, 2)
        self.source = Slow()

    def load(self, layer: int, experts: list[int]) -> dict[int, int]:
        """What lies in the slots of these experts: the number that the source wrote."""
        split = self.splits[layer]
        assert split
        found: dict[int, int] = {}
        for portion in self.slots.load(split, experts, self.source, None, True):
            for each in portion:
                found[each.expert] = int(next(iter(each.parts.values())).view(torch.uint8).flatten()[0])
        return found

    def expect(self, layer: int, experts: list[int], running: Collection[Expert] = ()) -> None:
        split = self.splits[layer]
        assert split
        self.slots.expect(split, experts, self.source, running)


def test_what_is_expected_and_asked_for_is_read_once(qwen: Mixture) -> None:
    slotted = Slotted(qwen, 8)
    slotted.source.may.set()
    slotted.expect(1, [2, 5])
    assert slotted.load(1, [2, 3, 5]) == {2: 2, 3: 3, 5: 5}
    assert sorted(slotted.source.read) == [2, 3, 5]
    assert slotted.slots.bytes_fetched == 3 * slotted.slots._bytes_expected
    slotted.slots.close()


def test_what_is_expected_in_vain_is_not_read_unless_it_has_begun(qwen: Mixture) -> None:
    """One that is just being read keeps its slot, into which nothing else is read meanwhile."""
    slotted = Slotted(qwen, 5)
    slotted.expect(0, [4, 5, 6, 7])  # two of them begin
    slotted.source.begun.wait(30)
    threading.Timer(0.05, slotted.source.may.set).start()
    assert slotted.load(1, [0, 1, 2]) == {0: 0, 1: 1, 2: 2}
    assert slotted.load(1, [0, 1, 2, 3]) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert {0, 1, 2, 3} <= set(slotted.source.read)
    assert len({4, 5, 6, 7} & set(slotted.source.read)) <= 2
    slotted.slots.close()


def test_a_pass_that_needs_all_slots_waits_for_what_is_being_read_into_them(qwen: Mixture) -> None:
    slotted = Slotted(qwen, 4)
    slotted.expect(0, [6, 7])
    slotted.source.begun.wait(30)
    threading.Timer(0.05, slotted.source.may.set).start()
    assert slotted.load(1, [0, 1, 2, 3]) == {0: 0, 1: 1, 2: 2, 3: 3}
    slotted.slots.close()


def test_no_slot_of_the_layer_that_runs_is_taken(qwen: Mixture) -> None:
    slotted = Slotted(qwen, 4)
    slotted.source.may.set()
    assert slotted.load(0, [0, 1, 2]) == {0: 0, 1: 1, 2: 2}
    slotted.expect(1, [3, 4, 5, 6], {(0, 0), (0, 1), (0, 2)})
    assert all((0, expert) in slotted.slots.cache for expert in (0, 1, 2))
    assert [expert for expert in (3, 4, 5, 6) if (1, expert) in slotted.slots.cache] == [3]
    slotted.slots.close()


def test_one_that_could_not_be_read_before_it_was_asked_for_is_read_again(qwen: Mixture) -> None:
    slotted = Slotted(qwen, 8)
    slotted.source.fails = {2}
    slotted.source.may.set()
    slotted.expect(1, [2, 3])
    wait_for(slotted)
    slotted.source.fails = set()
    assert slotted.load(1, [2, 3]) == {2: 2, 3: 3}
    slotted.source.fails = {4}
    slotted.expect(1, [4])
    with pytest.raises(ModelError, match="gone"):
        slotted.load(1, [4])
    slotted.source.fails = set()
    assert slotted.load(1, [4]) == {4: 4}
    slotted.slots.close()


def wait_for(slotted: Slotted) -> None:
    """Until all that is expected has come, or could not."""
    wait(slotted.slots._expected.values(), timeout=30)
