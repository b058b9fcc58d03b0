"""Experts one by one equal the resident model, bit for bit: every family, place, codec and cache."""

import os
import random
import threading
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import Cancelled, ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import build_streamable
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.planning.expert_ways import ExpertWay, Situation
from engine.weights.store.layout import LayerLayout
from engine.weights.streaming.experts.binding import find_experts
from engine.weights.streaming.experts.setup import cache_slots, split_layers
from engine.weights.streaming.experts.split_layout import slot_shape, split_layout
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.family_models import save_tiny
from tests.engine.family_proof import loaded
from tests.engine.model.test_context import PREFIX, random_tree
from tests.engine.resident import load_resident
from tests.engine.tiny_models import save_tiny_model, tiny_model
from tests.engine.weights.reading import cache_use
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import CPU, TIERS, Streamed, assert_same, pack

FAMILIES = ("mixtral", "qwen3_moe", "gpt_oss")
ROWS = (1, 8, 64, 1, 8)
WAYS: tuple[ExpertWay, ...] = ("whole", "single", "computed")
PLENTY = 1 << 30


def always(_situation: Situation) -> ExpertWay:
    return "single"


def passes(context: Context) -> list[Tensor]:
    """Logits of trees of many sizes."""
    found = []
    context.prefill(PREFIX)
    for seed, rows in enumerate(ROWS):
        tokens, parents = random_tree(rows, seed)
        found.append(context.score(tokens, parents))
        context.keep([0])
    return found


def pass_upon_pass(context: Context) -> None:
    """Until something is raised."""
    while True:
        passes(context)
        context.rewind(0)


class Mixture(Streamed):
    """A tiny mixture, its packed layers, and what it gives when they are resident."""

    def __init__(self, folder: Path, codec: str = "plain") -> None:
        super().__init__(folder)
        self.context = Context(self.streamable.network, 160)
        self.layouts = pack(self.streamable, folder, codec)
        resident = load_resident(self.checkpoint, torch.float32, CPU)
        coder = codec_named(codec)
        for index, layer in enumerate(resident.layers):
            tensors = dict(self.streamable.converter.weights(index))
            for name, weight in layer.state_dict().items():
                coder.decode(coder.encode(name, tensors[name]), name, weight)
        self.expected = passes(Context(resident, 160))

    def slot_bytes(self) -> int:
        experts = find_experts(self.streamable.network.layers[0])
        assert experts
        split = split_layout(self.layouts[0], experts.prefix, experts.count)
        assert split
        return slot_shape(split).nbytes


def mixture(family: str, folder: Path, codec: str = "plain") -> Mixture:
    save_tiny_model(family, folder)
    return Mixture(folder, codec)


@pytest.fixture(scope="module")
def lasting_qwen(tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    return mixture("qwen3_moe", tmp_path_factory.mktemp("qwen"))


@pytest.fixture
def qwen(lasting_qwen: Mixture) -> Iterator[Mixture]:
    """One model for all, which has read nothing; each test closes its streams and mends its files."""
    yield lasting_qwen
    lasting_qwen.context.rewind(0)


@pytest.mark.parametrize(
    ("family", "codec"),
    choose(
        [("mixtral", "cast"), ("gpt_oss", "nf4")],
        list(product(FAMILIES, ("plain", "cast", "int8", "nf4"))),
    ),
)
def test_every_family_and_codec_from_every_place(family: str, codec: str, tmp_path: Path) -> None:
    model = mixture(family, tmp_path, codec)
    places: list[list[Tier]] = [["ssd"] * 4, ["device", "ram", "ssd", "ssd"]]
    for tiers in places:
        for copy_stream in (None, StandInCopyStream()):
            stream = model.stream(
                model.layouts, tiers, copy_stream, expert_cache_bytes=PLENTY, choose=always,
                trunks_stay=(copy_stream is None) == (tiers is places[0]),
            )  # fmt: skip
            assert_same(passes(model.context), model.expected)
            hits, misses = cache_use(stream)
            assert hits > misses > 0, "nearly all experts were used, and used again"
            stream.close()
            model.context.rewind(0)


@pytest.mark.parametrize("family", choose(("minimax_m3_vl",), ("glm5_next", "minimax", "minimax_m3_vl", "deepseek_v4")))
def test_mixtures_beside_states_and_indexers_stream_with_the_same_bits(family: str, tmp_path: Path) -> None:
    save_tiny(family, tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    expected = passes(Context(loaded(checkpoint), 160))
    streamable = build_streamable(checkpoint, torch.float32, CPU)
    options = StreamOptions(expert_cache_bytes=PLENTY, choose=always)
    layouts = pack(streamable, tmp_path)
    stream = LayerStream(list(streamable.network.layers), layouts, ["ssd"] * len(layouts), options=options)
    assert len(list(stream.load())) == len(layouts)
    assert_same(passes(Context(streamable.network, 160)), expected)
    assert cache_use(stream)[1] > 0, "experts were read one by one"
    stream.close()


def test_some_layers_of_a_model_are_numbered_as_they_lie_in_their_stream(tmp_path: Path) -> None:
    """As those that a self-draft has copies of."""
    model = mixture("mixtral", tmp_path, "nf4")
    layers, coder = list(model.streamable.network.layers), codec_named("nf4")
    for index, layer in enumerate(layers[:2]):
        made = dict(model.streamable.converter.weights(index))
        for name, weight in made.items():
            coder.decode(coder.encode(name, weight.clone()), name, weight)
        layer.load_state_dict(made, assign=True)
    stream = LayerStream(layers[2:], model.layouts[2:], ["device"] * 2, [coder] * 2)
    assert sorted(stream.load()) == [0, 1]
    assert_same(passes(model.context), model.expected)
    stream.close()


@pytest.mark.parametrize("seed", range(choose(2, 12)))
def test_any_cache_any_mix_of_places_and_any_choice(seed: int, qwen: Mixture) -> None:
    """From one slot, which no pass can use, to all experts; each pass in the way that a coin decides."""
    chance = random.Random(seed)
    stream = qwen.stream(
        qwen.layouts,
        [chance.choice(TIERS) for _ in range(3)] + ["ssd"],
        StandInCopyStream(seed) if chance.random() < 0.5 else None,
        expert_cache_bytes=chance.choice((1, 2, 3, 8, 9, 20, 32)) * 4 * qwen.slot_bytes(),
        choose=lambda _: chance.choice(WAYS),
        direct=chance.random() < 0.5,
        disk_slots=chance.randint(1, 3),
        trunks_stay=chance.random() < 0.5,
    )
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


@pytest.mark.parametrize("trunks_stay", [False, True])
def test_every_byte_is_counted_that_was_read_and_no_other(trunks_stay: bool, qwen: Mixture) -> None:
    stream = qwen.stream(qwen.layouts, ["ssd"] * 4, expert_cache_bytes=PLENTY, choose=always, trunks_stay=trunks_stay)
    passes(qwen.context)
    experts = find_experts(qwen.streamable.network.layers[0])
    assert experts
    splits = [split_layout(layout, experts.prefix, experts.count) for layout in qwen.layouts]
    assert all(splits)
    trunks = 0 if trunks_stay else sum(split.trunk.nbytes for split in splits if split) * (len(ROWS) + 1)
    single = splits[0].expert_bytes if splits[0] else 0
    _, misses = cache_use(stream)
    assert misses <= 4 * experts.count, "with room for all, none is read twice"
    assert stream.bytes_streamed == trunks + misses * single
    stream.close()


def test_each_pass_is_asked_about_once_with_what_is_known(qwen: Mixture) -> None:
    seen: list[Situation] = []

    def choose(at: Situation) -> ExpertWay:
        seen.append(at)
        return "whole" if len(seen) % 2 else "single"

    stream = qwen.stream(qwen.layouts, ["ssd"] * 4, expert_cache_bytes=PLENTY, choose=choose)
    assert_same(passes(qwen.context), qwen.expected)
    assert [at.rows for at in seen] == [len(PREFIX), *ROWS]
    assert {(at.experts, at.chosen, at.slots) for at in seen} == {(8, 2, 32)}
    assert seen[-1].compute_seconds > 0
    assert seen[-1].whole_rate > 0
    assert 0 < seen[-1].correlation <= 1.5
    stream.close()


def test_the_network_is_as_it_was_between_passes(qwen: Mixture) -> None:
    """Whoever counts parameters must not find the small stack of the last pass."""
    before = {name: tensor.shape for name, tensor in qwen.streamable.network.model.named_parameters()}
    stream = qwen.stream(qwen.layouts, ["ssd"] * 4, expert_cache_bytes=PLENTY, choose=always)
    passes(qwen.context)
    assert {name: tensor.shape for name, tensor in qwen.streamable.network.model.named_parameters()} == before
    assert all(layer.mlp.experts.num_experts == 8 for layer in qwen.streamable.network.layers)  # type: ignore[union-attr]
    stream.close()


def test_a_model_without_experts_and_a_cache_without_room_stream_as_ever(tmp_path: Path, qwen: Mixture) -> None:
    stream = qwen.stream(qwen.layouts, ["ssd"] * 4, expert_cache_bytes=1, choose=always)
    assert_same(passes(qwen.context), qwen.expected)
    assert cache_use(stream) == (0, 0)
    assert stream.bytes_streamed == sum(layout.nbytes for layout in qwen.layouts) * (len(ROWS) + 1)
    stream.close()
    dense = tiny_model("llama")
    assert all(find_experts(layer) is None for layer in dense.model.layers)


@pytest.mark.parametrize("copy_stream", [None, StandInCopyStream()])
def test_a_file_that_is_cut_off_is_an_error_and_the_next_pass_is_right(
    copy_stream: StandInCopyStream | None, qwen: Mixture
) -> None:
    stream = qwen.stream(
        qwen.layouts, ["ssd"] * 4, copy_stream, expert_cache_bytes=9 * qwen.slot_bytes(), choose=always, disk_slots=1
    )
    passes(qwen.context)
    path, content, changed = cut(qwen.layouts)
    with pytest.raises(ModelError, match=r"2\.safetensors ended \d+ bytes early"):
        qwen.context.score(*random_tree(8, 5))
    path.write_bytes(content)
    os.utime(path, ns=(changed, changed))  # as it was before
    qwen.context.rewind(0)
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


def cut(layouts: Sequence[LayerLayout]) -> tuple[Path, bytes, int]:
    """Cut a layer's file off behind its first page; returns what it held, and when it was changed before."""
    path = layouts[2].segments[0].path
    content, changed = path.read_bytes(), path.stat().st_mtime_ns
    os.truncate(path, 5000)
    return path, content, changed


def test_a_copy_that_fails_is_raised_and_the_next_pass_is_right(qwen: Mixture) -> None:
    copies = StandInCopyStream(fails_from=31)
    stream = qwen.stream(qwen.layouts, ["ram"] * 4, copies, expert_cache_bytes=PLENTY, choose=always)
    with pytest.raises(RuntimeError, match="copy engine failed"):
        passes(qwen.context)
    copies.fails_from = None
    qwen.context.rewind(0)
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


@pytest.mark.parametrize("copy_stream", [None, StandInCopyStream()])
def test_experts_that_no_thread_could_be_started_for_are_not_taken_for_those_that_came(
    copy_stream: StandInCopyStream | None, qwen: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Systems limit how many threads a user has."""
    stream = qwen.stream(
        qwen.layouts, ["ssd"] * 4, copy_stream, expert_cache_bytes=9 * qwen.slot_bytes(), choose=always
    )
    start, last = threading.Thread.start, "experts to their slots_0" if copy_stream else "experts to their slots_1"

    def refuse(thread: threading.Thread) -> None:
        if thread.name == last:
            monkeypatch.undo()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        passes(qwen.context)
    qwen.context.rewind(0)
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


def test_idle_work_is_done_while_experts_are_awaited_and_may_be_cancelled(qwen: Mixture) -> None:
    stream = qwen.stream(
        qwen.layouts, ["ssd"] * 4, StandInCopyStream(), expert_cache_bytes=9 * qwen.slot_bytes(), choose=always
    )
    calls = 0

    def work() -> bool:
        nonlocal calls
        calls += 1
        if calls == 200:
            raise Cancelled
        return True

    stream.on_wait = work
    with pytest.raises(Cancelled):
        pass_upon_pass(qwen.context)
    stream.on_wait = None
    qwen.context.rewind(0)
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


@pytest.mark.parametrize(("layer", "copy_stream"), [(0, None), (2, None), (2, StandInCopyStream())])
def test_a_pass_cancelled_between_layers_does_not_harm_the_next(
    layer: int, copy_stream: StandInCopyStream | None, qwen: Mixture
) -> None:
    stream = qwen.stream(
        qwen.layouts, ["ssd"] * 4, copy_stream, expert_cache_bytes=9 * qwen.slot_bytes(), choose=always
    )

    def stop(_layer: object, _inputs: object) -> None:
        raise Cancelled

    hook = qwen.streamable.network.layers[layer].register_forward_pre_hook(stop)
    with pytest.raises(Cancelled):
        qwen.context.prefill(PREFIX)
    hook.remove()
    assert_same(passes(qwen.context), qwen.expected)
    stream.close()


@given(allowed=st.integers(0, 1 << 20))
@settings(max_examples=choose(50, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slots_never_take_more_bytes_than_the_cache_may(allowed: int, qwen: Mixture) -> None:
    parts = split_layers(
        list(qwen.streamable.network.layers), qwen.layouts, ["ssd"] * 4, False, True, allowed, few_rows=4
    )
    sizes = {part.split.shape: slot_shape(part.split).nbytes for part in parts.values()}
    slots = cache_slots(parts.values(), allowed)
    assert sum(count * sizes[shape] for shape, count in slots.items()) <= allowed
    assert all(count <= 4 * 8 for count in slots.values()), "no more than there are experts"


def test_the_cache_takes_no_more_of_the_device_than_it_may(qwen: Mixture) -> None:
    copy_stream, whole = StandInCopyStream(), StandInCopyStream()
    qwen.stream(qwen.layouts, ["ram"] * 4, whole).close()
    allowed = 11 * qwen.slot_bytes() + 5
    stream: LayerStream = qwen.stream(qwen.layouts, ["ram"] * 4, copy_stream, expert_cache_bytes=allowed, choose=always)
    pages = 2 * 2 * 4096  # trunk and experts, each in whole pages, in each of two slots
    assert copy_stream.peak_bytes <= whole.peak_bytes + pages + allowed
    stream.close()
