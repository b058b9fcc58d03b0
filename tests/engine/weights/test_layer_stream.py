"""Streamed equals resident, bit for bit: every family, every mix of places, every ring; and no fault goes unnoticed."""

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import Cancelled, ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import StreamableNetwork, build_streamable
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.store.layer_file import read_layout, write_layer
from engine.weights.store.layout import LayerLayout, layout_of_shards
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.model.test_context import PREFIX, random_tree
from tests.engine.resident import load_resident
from tests.engine.tiny_models import SOME, save_tiny_model
from tests.engine.weights import stand_in
from tests.engine.weights.stand_in import Computation, StandInCopyStream

CPU = torch.device("cpu")
PASSES = 3
OPEN_FILES = Path("/proc/self/fd")
needs_preadv = pytest.mark.skipif(not hasattr(os, "preadv"), reason="reads are made to fail there")
TIERS: list[Tier] = ["device", "ram", "ssd"]


def pack(streamable: StreamableNetwork, folder: Path, codec_name: str = "plain") -> list[LayerLayout]:
    codec = codec_named(codec_name)
    layouts = []
    for index in range(len(streamable.network.layers)):
        stored: dict[str, Tensor] = {}
        for name, tensor in dict(streamable.converter.weights(index)).items():
            stored |= codec.encode(name, tensor)
        write_layer(folder / f"{index}.safetensors", index, stored, codec_name)
        layouts.append(read_layout(folder / f"{index}.safetensors"))
    return layouts


def passes(context: Context) -> list[Tensor]:
    """Logits of some rounds: prefill, a tree, a kept path, and so on."""
    found = []
    context.prefill(PREFIX)
    for seed in range(PASSES):
        tokens, parents = random_tree(12, seed)
        found.append(context.score(tokens, parents))
        context.keep([0])
    return found


class Streamed:
    """A network whose layers are streamed, and its expected logits."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32) -> None:
        self.folder = folder
        self.checkpoint = open_checkpoint(str(folder))
        self.streamable = build_streamable(self.checkpoint, dtype, CPU)
        self.expected = passes(Context(load_resident(self.checkpoint, dtype, CPU), 96))
        self.context = Context(self.streamable.network, 96)

    def stream(
        self,
        layouts: Sequence[LayerLayout],
        tiers: Sequence[Tier],
        copy_stream: StandInCopyStream | None = None,
        **options: Any,
    ) -> LayerStream:
        stream = LayerStream(
            list(self.streamable.network.layers),
            layouts,
            tiers,
            decoders=None if layouts[0].codec == "plain" else [codec_named(layout.codec) for layout in layouts],
            copy_stream=copy_stream,
            options=StreamOptions(**options),
        )
        assert sorted(stream.load()) == list(range(len(layouts)))
        return stream


def assert_same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


class Llama(Streamed):
    """Five layers, and where they lie."""

    def __init__(self, folder: Path) -> None:
        save_tiny_model("llama", folder, num_hidden_layers=5)
        super().__init__(folder)
        self.layouts = pack(self.streamable, folder)


@pytest.fixture(scope="module")
def lasting_llama(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    return Llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def llama(lasting_llama: Llama) -> Iterator[Llama]:
    """One model for all, which has read nothing; each test closes its streams and mends its files."""
    yield lasting_llama
    lasting_llama.context.rewind(0)


@pytest.mark.parametrize("family", SOME)
def test_every_family_from_every_place(family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path / "model")
    streamed = Streamed(tmp_path / "model")
    layouts = pack(streamed.streamable, tmp_path)
    for tiers in (["ssd"] * 4, ["device", "ram", "ssd", "ssd"]):
        for copy_stream in (None, StandInCopyStream()):
            stream = streamed.stream(layouts, tiers, copy_stream)  # type: ignore[arg-type]
            assert_same(passes(streamed.context), streamed.expected)
            stream.close()
            streamed.context.rewind(0)


@pytest.mark.parametrize("seed", range(choose(2, 12)))
def test_any_mix_of_places_through_rings_of_any_size(seed: int, llama: Llama) -> None:
    chance = random.Random(seed)
    tiers = [chance.choice(TIERS) for _ in range(5)]
    copy_stream = StandInCopyStream(seed) if chance.random() < 0.6 else None
    slots = {"disk_slots": chance.randint(1, 6), "device_slots": chance.randint(1, 6), "direct": chance.random() < 0.5}
    stream = llama.stream(llama.layouts, tiers, copy_stream, **slots)
    assert_same(passes(llama.context), llama.expected)
    moved = [
        layout.nbytes
        for layout, tier in zip(llama.layouts, tiers, strict=True)
        if tier == "ssd" or (tier == "ram" and copy_stream)
    ]
    assert stream.bytes_streamed == sum(moved) * (PASSES + 1)
    stream.close()


def test_straight_from_the_shards_of_a_checkpoint(tmp_path: Path) -> None:
    save_tiny_model("qwen3", tmp_path, dtype=torch.bfloat16, shard_size="100KB")
    streamed = Streamed(tmp_path, torch.bfloat16)
    layouts = [layout_of_shards(index, streamed.streamable.converter.one_to_one(index) or {}) for index in range(4)]
    assert all(layouts)
    stream = streamed.stream([layout for layout in layouts if layout], ["ssd", "ram", "ssd", "device"])
    assert_same(passes(streamed.context), streamed.expected)
    stream.close()


@pytest.mark.parametrize("codec", choose(["nf4"], ["nf4", "int8"]))
@pytest.mark.parametrize("family", choose(["gpt_oss"], ["llama", "mixtral", "gpt_oss"]))
def test_compressed_and_streamed_equals_compressed_and_resident(codec: str, family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path / "model", dtype=torch.bfloat16)
    streamed = Streamed(tmp_path / "model", torch.bfloat16)
    layouts = pack(streamed.streamable, tmp_path, codec)
    resident = load_resident(streamed.checkpoint, torch.bfloat16, CPU)
    coder = codec_named(codec)
    for index, layer in enumerate(resident.layers):
        for name, weight in layer.state_dict().items():
            coder.decode(coder.encode(name, dict(streamed.streamable.converter.weights(index))[name]), name, weight)
    expected = passes(Context(resident, 96))
    assert not torch.equal(expected[0], streamed.expected[0]), "nothing was compressed"
    for tiers, copy_stream in ((["ssd"] * 4, None), (["ram", "device", "ssd", "ram"], StandInCopyStream())):
        stream = streamed.stream(layouts, tiers, copy_stream)  # type: ignore[arg-type]
        assert_same(passes(streamed.context), expected)
        stream.close()
        streamed.context.rewind(0)


def test_idle_work_is_called_while_layers_are_on_their_way(
    llama: Llama, against_an_adversary: Computation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in, "PATIENCE_SECONDS", 60.0)  # what is late does not come before it is waited for
    stream = llama.stream(llama.layouts, ["ram"] * 5, StandInCopyStream())
    calls = 0

    def work() -> bool:
        nonlocal calls
        calls += 1
        against_an_adversary._add(1)  # it waits, whatever it does meanwhile
        return True

    stream.on_wait = work
    assert_same(passes(llama.context), llama.expected)
    assert calls > 0
    stream.close()


@pytest.mark.parametrize("layer", [0, 3])
def test_a_pass_stopped_in_the_middle_does_not_put_the_next_one_out_of_step(layer: int, llama: Llama) -> None:
    stream = llama.stream(llama.layouts, ["ssd", "ram", "ssd", "device", "ssd"], StandInCopyStream())

    def stop(_layer: object, _inputs: object) -> None:
        raise Cancelled

    hook = llama.streamable.network.layers[layer].register_forward_pre_hook(stop)
    with pytest.raises(Cancelled):
        llama.context.prefill(PREFIX)
    hook.remove()
    assert_same(passes(llama.context), llama.expected)
    stream.close()


@pytest.mark.parametrize("copy_stream", [None, StandInCopyStream()])
def test_a_file_that_is_cut_off_while_it_is_used_is_an_error_and_no_nonsense(
    copy_stream: StandInCopyStream | None, llama: Llama
) -> None:
    stream = llama.stream(llama.layouts, ["ssd"] * 5, copy_stream, disk_slots=1, device_slots=1)
    passes(llama.context)
    path = llama.layouts[2].segments[0].path
    content, state = path.read_bytes(), path.stat()
    os.truncate(path, 5000)
    with pytest.raises(ModelError, match=r"2\.safetensors ended \d+ bytes early"):
        llama.context.score([5], [-1])
    path.write_bytes(content)
    llama.context.rewind(0)
    with pytest.raises(ModelError, match=r"2\.safetensors was changed while its weights were in use"):
        passes(llama.context)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))  # the same file again: what was cut off is back
    llama.context.rewind(0)
    assert_same(passes(llama.context), llama.expected)
    stream.close()


@needs_preadv
@pytest.mark.parametrize("direct", [True, False])
def test_short_reads_are_completed(direct: bool, llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read may return less than was asked for at any time, in pages for direct reads."""
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, buffers, offset: read(file, [buffers[0][:4096]], offset))
    stream = llama.stream(llama.layouts, ["ssd"] * 5, direct=direct)
    assert_same(passes(llama.context), llama.expected)
    stream.close()


@needs_preadv
def test_a_disk_that_fails_is_an_error_with_the_file_s_name(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = llama.stream(llama.layouts, ["ssd"] * 5, disk_slots=1)
    passes(llama.context)

    def fail(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(ModelError, match=r"\.safetensors cannot be read: Input/output error"):
        passes(llama.context)
    stream.close()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="the system does not list open files")
def test_a_stream_that_cannot_be_made_leaves_no_file_open(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(OPEN_FILES.iterdir()))
    path = llama.layouts[4].segments[0].path
    path.rename(path.with_suffix(".away"))
    with pytest.raises(ModelError, match=r"4\.safetensors cannot be read"):
        llama.stream(llama.layouts, ["ssd"] * 5)
    assert len(list(OPEN_FILES.iterdir())) == before
    path.with_suffix(".away").rename(path)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(LayerStream, "_binding", fail)
    with pytest.raises(MemoryError):
        llama.stream(llama.layouts, ["ssd"] * 5)
    assert len(list(OPEN_FILES.iterdir())) == before


def test_a_copy_that_fails_is_raised(llama: Llama) -> None:
    copies = StandInCopyStream(fails_from=7)
    stream = llama.stream(llama.layouts, ["ram"] * 5, copies)
    with pytest.raises(RuntimeError, match="copy engine failed"):
        passes(llama.context)
    copies.fails_from = None
    llama.context.rewind(0)
    assert_same(passes(llama.context), llama.expected)
    stream.close()


def test_the_rings_take_what_was_planned_and_no_more(llama: Llama) -> None:
    copy_stream = StandInCopyStream()
    stream = llama.stream(llama.layouts, ["device", "ram", "ssd", "ram", "ssd"], copy_stream, device_slots=2)
    passes(llama.context)
    assert copy_stream.peak_bytes == llama.layouts[0].nbytes + 2 * max(layout.nbytes for layout in llama.layouts)
    stream.close()
