"""Layers that stream to a real GPU: the resident model's logits, pinned memory, marks that hold, memory given back."""

import gc
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.streamable_network import build_streamable
from engine.weights.codecs.codec import codec_named
from engine.weights.planning.arrangement import Tier
from engine.weights.store.layout import layout_of_shards
from engine.weights.streaming.copy_stream import CudaCopyStream
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from engine.weights.streaming.pinning import pinning_for
from tests.engine.resident import load_resident
from tests.engine.tiny_models import FAMILIES, tiny_model
from tests.engine.weights.stand_in import Computation
from tests.engine.weights.test_layer_stream import PASSES, TIERS, assert_same, pack, passes

pytestmark = pytest.mark.gpu
MIB = 1 << 20
LAYERS = 5


@pytest.fixture
def device() -> Iterator[torch.device]:
    """The GPU, with nothing left on it by the tests before."""
    torch.cuda.empty_cache()
    yield torch.device("cuda", torch.cuda.current_device())
    torch.cuda.empty_cache()


def saved(folder: Path, family: str = "llama", dtype: torch.dtype = torch.bfloat16, **shape: int) -> Checkpoint:
    tiny_model(family, dtype=dtype, **shape).save_pretrained(folder)
    return open_checkpoint(str(folder))


def streamed_passes(
    checkpoint: Checkpoint,
    folder: Path,
    tiers: list[Tier],
    device: torch.device,
    codec: str = "plain",
    options: StreamOptions | None = None,
) -> tuple[list[torch.Tensor], int]:
    """Logits of some rounds, and the bytes that were streamed for them."""
    dtype = torch.bfloat16
    streamable = build_streamable(checkpoint, dtype, device)
    folder.mkdir()
    layouts = pack(streamable, folder, codec)
    decoders = None if codec == "plain" else [codec_named(codec)] * len(layouts)
    stream = LayerStream(list(streamable.network.layers), layouts, tiers, decoders, CudaCopyStream(device), options)
    try:
        assert sorted(stream.load()) == list(range(len(layouts)))
        return passes(Context(streamable.network, 96)), stream.bytes_streamed
    finally:
        stream.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_from_every_place(family: str, tmp_path: Path, device: torch.device) -> None:
    checkpoint = saved(tmp_path / "model", family)
    expected = passes(Context(load_resident(checkpoint, torch.bfloat16, device), 96))
    mixes: list[list[Tier]] = [["device"] * 4, ["ram"] * 4, ["ssd"] * 4, ["device", "ram", "ssd", "ram"]]
    for number, tiers in enumerate(mixes):
        assert_same(streamed_passes(checkpoint, tmp_path / str(number), tiers, device)[0], expected)


@pytest.mark.parametrize("seed", range(8))
def test_any_mix_of_places_through_rings_of_any_size(seed: int, tmp_path: Path, device: torch.device) -> None:
    chance = random.Random(seed)
    tiers = [chance.choice(TIERS) for _ in range(LAYERS)]
    checkpoint = saved(tmp_path / "model", num_hidden_layers=LAYERS)
    expected = passes(Context(load_resident(checkpoint, torch.bfloat16, device), 96))
    slots = StreamOptions(chance.randint(1, LAYERS), chance.randint(1, LAYERS))
    found, moved = streamed_passes(checkpoint, tmp_path / "layers", tiers, device, options=slots)
    assert_same(found, expected)
    assert (moved > 0) == any(tier != "device" for tier in tiers)
    assert moved % (PASSES + 1) == 0


@pytest.mark.parametrize("codec", ["nf4", "int8"])
@pytest.mark.parametrize("family", ["llama", "mixtral"])
def test_compressed_and_streamed_equals_compressed_and_resident(
    codec: str, family: str, tmp_path: Path, device: torch.device
) -> None:
    checkpoint = saved(tmp_path / "model", family)
    on_host = build_streamable(checkpoint, torch.bfloat16, torch.device("cpu"))
    resident, coder = load_resident(checkpoint, torch.bfloat16, device), codec_named(codec)
    for index, layer in enumerate(resident.layers):
        tensors = dict(on_host.converter.weights(index))
        for name, weight in layer.state_dict().items():
            stored = {part: tensor.to(device) for part, tensor in coder.encode(name, tensors[name]).items()}
            coder.decode(stored, name, weight)
    expected = passes(Context(resident, 96))
    mixes: list[list[Tier]] = [["device"] * 4, ["ram", "device", "ssd", "ram"]]
    for number, tiers in enumerate(mixes):
        assert_same(streamed_passes(checkpoint, tmp_path / str(number), tiers, device, codec)[0], expected)


def test_straight_from_the_shards_of_a_checkpoint(tmp_path: Path, device: torch.device) -> None:
    """Weights lie there as the shards have them, perhaps not where a kernel likes them best: close, not equal."""
    checkpoint = saved(tmp_path / "model", "qwen3", torch.float32)
    expected = passes(Context(load_resident(checkpoint, torch.float32, device), 96))
    streamable = build_streamable(checkpoint, torch.float32, device)
    layouts = [layout_of_shards(index, streamable.converter.one_to_one(index) or {}) for index in range(4)]
    places: list[Tier] = ["ssd", "ram", "device", "ssd"]
    complete = [layout for layout in layouts if layout]
    stream = LayerStream(list(streamable.network.layers), complete, places, copy_stream=CudaCopyStream(device))
    assert sorted(stream.load()) == [0, 1, 2, 3]
    for found, one in zip(passes(Context(streamable.network, 96)), expected, strict=True):
        torch.testing.assert_close(found, one, atol=1e-2, rtol=1e-2)  # TF32 may be on
    stream.close()


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_an_arena_is_pinned_as_long_as_it_is_open(device: torch.device) -> None:
    arena = HostArena(3 * MIB, pinning_for(device))
    piece = arena.take(MIB)
    assert piece.is_pinned()
    piece.fill_(7)
    arena.close()
    assert not piece.is_pinned()
    assert int(piece.sum(dtype=torch.int64)) == 7 * MIB, "the memory itself is still there"


def test_a_layer_that_streams_leaves_nothing_on_the_gpu(
    tmp_path: Path, device: torch.device, against_an_adversary: Computation
) -> None:
    checkpoint = saved(tmp_path / "model")
    streamed_passes(checkpoint, tmp_path / "warm", ["ram"] * 4, device)  # libraries take their workspaces once
    against_an_adversary.watch.forget()
    gc.collect()
    before = torch.cuda.memory_allocated(device)
    streamed_passes(checkpoint, tmp_path / "layers", ["device", "ram", "ssd", "ram"], device)
    against_an_adversary.watch.forget()
    gc.collect()
    assert torch.cuda.memory_allocated(device) <= before


def test_after_memory_ran_out_a_smaller_placement_loads(
    tmp_path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = saved(tmp_path / "model")
    expected = passes(Context(load_resident(checkpoint, torch.bfloat16, device), 96))
    allocate, asked = CudaCopyStream.allocate, []

    def third_fails(copy_stream: CudaCopyStream, nbytes: int) -> torch.Tensor:
        asked.append(nbytes)
        return allocate(copy_stream, nbytes if len(asked) != 3 else 1 << 50)

    monkeypatch.setattr(CudaCopyStream, "allocate", third_fails)
    with pytest.raises(torch.OutOfMemoryError):
        streamed_passes(checkpoint, tmp_path / "first", ["device"] * 4, device)
    assert_same(streamed_passes(checkpoint, tmp_path / "second", ["ram"] * 4, device)[0], expected)


# ---- marks ----------------------------------------------------------------------------------------------------------


def long_work(square: torch.Tensor) -> Any:
    """Computation that is under way for a while after this returns."""
    for _ in range(50):
        square = square @ square
    return square


def test_a_copy_waits_for_the_computation_that_still_reads_its_slot(device: torch.device) -> None:
    copy_stream = CudaCopyStream(device)
    slot = copy_stream.allocate(4 * MIB).fill_(1)
    arena = HostArena(4 * MIB, pinning_for(device))
    source = arena.take(4 * MIB).fill_(9)
    square = torch.eye(4096, device=device)
    torch.cuda.synchronize(device)
    long_work(square)
    total = slot.sum(dtype=torch.int64)  # queued behind the long work
    copy_stream.copy(source, slot, copy_stream.record_event())
    assert int(total) == 4 * MIB, "the copy overtook the computation"
    assert int(slot.sum(dtype=torch.int64)) == 9 * 4 * MIB
    arena.close()


def test_a_copy_without_a_mark_goes_on_beside_the_computation(device: torch.device) -> None:
    copy_stream = CudaCopyStream(device)
    slot, arena = copy_stream.allocate(MIB), HostArena(MIB, pinning_for(device))
    square = torch.eye(8192, device=device)
    torch.cuda.synchronize(device)
    long_work(square)
    behind = copy_stream.record_event()
    copy_stream.copy(arena.take(MIB).fill_(3), slot, None)
    overlapped = not behind.query()
    torch.cuda.synchronize(device)
    assert overlapped, "the copy was there only after the computation was"
    arena.close()
