"""Memory is pinned as far as the system gives it; the rest is copied through small pieces; nothing else changes."""

import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.loading.loaded_pair import pageable_note
from engine.weights.planning.arrangement import Tier
from engine.weights.streaming import layer_store, pinning, staging
from engine.weights.streaming.copy_stream import Arrival
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.layer_store import HostShare, pinning_blocks
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from engine.weights.streaming.pinning import CudaPinning, PinnedBudget
from engine.weights.streaming.staging import Carrier
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import Llama, assert_same, lasting_llama, llama, passes

__all__ = ["lasting_llama", "llama"]  # fixtures

PAGE = 4096
GPU = torch.device("cuda")


class Limited:
    """A system that pins so many bytes and no more."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.asked: list[int] = []
        self.pinned: list[tuple[int, int]] = []  # addresses

    def pin(self, memory: Tensor) -> bool:
        self.asked.append(memory.nbytes)
        if memory.nbytes > self.left:
            return False
        self.left -= memory.nbytes
        self.pinned.append((memory.data_ptr(), memory.data_ptr() + memory.nbytes))
        return True

    def unpin(self, memory: Tensor) -> None:
        self.pinned.remove((memory.data_ptr(), memory.data_ptr() + memory.nbytes))

    def holds(self, memory: Tensor) -> bool:
        begin, end = memory.data_ptr(), memory.data_ptr() + memory.nbytes
        return any(first <= begin and end <= last for first, last in self.pinned)


class WatchedCopyStream(StandInCopyStream):
    """Notes which copies come from memory that is not pinned, and those that wait for nothing."""

    def __init__(self, system: Limited) -> None:
        super().__init__()
        self.system = system
        self.from_pageable = self.unguarded = 0

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        self.from_pageable += not self.system.holds(source)
        self.unguarded += after is None
        return super().start(source, target, after)


# ---- the runtime ----------------------------------------------------------------------------------------------------


class Runtime:
    """CUDA's, which keeps the error of a call until somebody asks for it."""

    def __init__(self, code: int) -> None:
        self.code, self.kept = code, 0
        self.calls: list[str] = []

    def cudaHostRegister(self, _address: int, _nbytes: int, _flags: int) -> int:
        self.calls.append("pin")
        self.kept = self.code
        return self.code

    def cudaHostUnregister(self, _address: int) -> int:
        self.calls.append("unpin")
        return 0


class TellingRuntime(Runtime):
    """One whose last error can be asked for."""

    def cudaGetLastError(self) -> int:
        kept, self.kept = self.kept, 0
        return kept


@pytest.mark.parametrize("kind", [Runtime, TellingRuntime])
def test_after_a_refusal_no_error_is_left_for_the_next_kernel(
    kind: type[Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, launches = kind(2), []

    def launch(_device: torch.device) -> None:
        launches.append(runtime.kept)
        runtime.kept = 0
        raise torch.AcceleratorError("CUDA error: out of memory")

    monkeypatch.setattr(pinning, "_runtime", lambda: runtime)
    monkeypatch.setattr(pinning, "_launch_kernel", launch)
    arena = HostArena(PAGE, CudaPinning(GPU))
    assert not arena.is_pinned
    assert runtime.kept == 0
    assert launches == ([] if kind is TellingRuntime else [2]), "a kernel only where there is no other way"
    arena.close()
    assert arena.take(PAGE).numel() == PAGE, "usable all the same"


def test_what_was_pinned_is_unpinned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = TellingRuntime(0)
    monkeypatch.setattr(pinning, "_runtime", lambda: runtime)
    arena = HostArena(PAGE, CudaPinning(GPU))
    assert arena.is_pinned
    arena.close()
    arena.close()
    assert runtime.calls == ["pin", "unpin"]


def test_a_system_that_refused_once_is_not_asked_again() -> None:
    system = Limited(3 * PAGE)
    budget = PinnedBudget(system)
    arenas = [HostArena(size * PAGE, budget) for size in (2, 2, 1)]
    assert [arena.is_pinned for arena in arenas] == [True, False, False]
    assert system.asked == [2 * PAGE, 2 * PAGE]
    for arena in arenas:
        arena.close()
    assert not system.pinned


# ---- blocks ---------------------------------------------------------------------------------------------------------


def test_blocks_are_small_and_the_first_ones_are_spread_over_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_store, "BLOCK_BYTES", 4 * PAGE)
    chance = random.Random(1)
    sizes = {index: chance.choice((1, 2, 9)) * PAGE - 3 for index in range(61)}
    blocks = pinning_blocks(sizes)
    assert sorted(index for block in blocks for index in block) == list(sizes)
    for block in blocks:
        assert len(block) == 1 or sum(-(-sizes[index] // PAGE) for index in block) <= 4
    order = [index for block in blocks for index in block]
    for count in range(1, len(order) + 1):
        edges = [-1, *sorted(order[:count]), len(order)]
        widest = max(end - begin for begin, end in pairwise(edges))
        assert widest <= 2 * 64 / count + 2, "the next power of two is 64; a gap is at most two of its even shares"


# ---- streams --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of one layer, and pieces much smaller than that; the bytes that the pieces take."""
    monkeypatch.setattr(layer_store, "BLOCK_BYTES", PAGE)
    monkeypatch.setattr(staging, "PIECE_BYTES", 2 * PAGE)
    monkeypatch.setattr(Carrier.__init__, "__defaults__", (2 * PAGE,))
    return 2 * 2 * PAGE


def loaded(llama: Llama, tiers: list[Tier], copy_stream: WatchedCopyStream) -> LayerStream:
    return llama.stream(llama.layouts, tiers, copy_stream, pinning=copy_stream.system)


@pytest.mark.parametrize("layers_pinned", [0, 2, 5])
def test_layers_are_pinned_or_not_and_come_the_same(llama: Llama, small_pieces: int, layers_pinned: int) -> None:
    size = llama.layouts[0].nbytes
    system = Limited(small_pieces + layers_pinned * size)
    copy_stream = WatchedCopyStream(system)
    stream = loaded(llama, ["ram"] * 5, copy_stream)
    assert_same(passes(llama.context), llama.expected)
    store = stream._store
    resident = [store.is_pinned(index) for index in range(5)]
    assert resident == [system.holds(store.resident[index]) for index in range(5)], "each wholly in one kind"
    assert sum(resident) == layers_pinned
    assert copy_stream.from_pageable == 0, "whatever is copied from is pinned"
    assert (stream.host_share.pageable == 0) == (layers_pinned == 5)
    assert stream.host_share.pinned + stream.host_share.pageable == 5 * size
    stream.close()
    assert not system.pinned, "all of it is given back"


def test_the_ring_from_disk_is_pinned_before_layers_are(llama: Llama, small_pieces: int) -> None:
    size = llama.layouts[0].nbytes
    system = Limited(small_pieces + 2 * size)
    stream = llama.stream(
        llama.layouts, ["ram", "ssd", "ram", "ssd", "ssd"], WatchedCopyStream(system), pinning=system, disk_slots=2
    )
    assert [stream._store.is_pinned(index) for index in range(5)] == [False, True, False, True, True]
    assert_same(passes(llama.context), llama.expected)
    stream.close()


def test_a_system_that_pins_nothing_at_all_streams_as_well(llama: Llama, small_pieces: int) -> None:
    assert small_pieces
    copy_stream = WatchedCopyStream(Limited(0))
    stream = loaded(llama, ["ram", "ssd", "device", "ram", "ssd"], copy_stream)
    assert_same(passes(llama.context), llama.expected)
    stream.close()  # until then layers are copied for the next pass
    assert copy_stream.from_pageable == copy_stream.copies > 0
    assert copy_stream.system.asked == [small_pieces], "asked once"


def test_a_load_stops_between_two_layers_however_much_is_to_be_pinned(llama: Llama, small_pieces: int) -> None:
    assert small_pieces
    system = Limited(1 << 30)
    options = StreamOptions(pinning=system)
    stream = LayerStream(
        list(llama.streamable.network.layers), llama.layouts, ["ram"] * 5, None, WatchedCopyStream(system), options
    )
    pinned = []
    for number, _ in enumerate(stream.load()):
        pinned.append(len(system.pinned))
        if number == 2:
            break
    assert pinned == [2, 3, 4], "the pieces, and a layer for every step"
    stream.close()
    assert not system.pinned


def test_no_copy_goes_to_memory_that_the_computation_may_still_use(llama: Llama) -> None:
    """Blocks of the allocator may have been freed a moment ago, while kernels that use them have yet to run."""
    copy_stream = WatchedCopyStream(Limited(1 << 30))
    stream = loaded(llama, ["device", "ram", "ssd", "ram", "ssd"], copy_stream)
    passes(llama.context)
    assert copy_stream.copies > 5
    assert copy_stream.unguarded == 0
    stream.close()


# ---- pieces ---------------------------------------------------------------------------------------------------------


class LateCopyStream(StandInCopyStream):
    """Copies only when somebody waits, all that were started until then, as one stream does."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = 0
        self.pending: list[tuple[Tensor, Tensor]] = []

    def start(self, source: Tensor, target: Tensor, after: Any) -> Arrival:
        del after
        self.pending.append((source, target))
        return self

    def synchronize(self) -> None:
        self.waits += 1
        for source, target in self.pending:
            target.copy_(source)
        self.pending.clear()


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 3 * 4096, 50_000])
def test_a_piece_is_filled_again_only_when_it_has_been_copied_from(size: int) -> None:
    copy_stream = LateCopyStream()
    carrier = Carrier(copy_stream, Limited(1 << 30), PAGE)
    sources = [torch.randint(0, 256, (size,), dtype=torch.uint8) for _ in range(2)]
    targets = [torch.zeros(size, dtype=torch.uint8) for _ in range(2)]
    copies = [(source, target, None) for source, target in zip(sources, targets, strict=True)]
    carrier.carry_all(copies, is_pinned=False)
    assert all(torch.equal(*pair) for pair in zip(sources, targets, strict=True))
    assert carrier.staged_bytes == 2 * size
    carrier.close()


def test_the_host_waits_once_for_any_number_of_copies_from_pinned_memory() -> None:
    copy_stream = LateCopyStream()
    carrier = Carrier(copy_stream, Limited(1 << 30), PAGE)
    source, target = torch.arange(96, dtype=torch.uint8), torch.zeros(96, dtype=torch.uint8)
    carrier.carry_all([(source[at : at + 8], target[at : at + 8], None) for at in range(0, 96, 8)], is_pinned=True)
    assert torch.equal(source, target)
    assert copy_stream.waits == 1
    carrier.close()


def test_what_was_not_pinned_is_told() -> None:
    assert pageable_note(HostShare(1 << 30)) == ""
    told = pageable_note(HostShare(1 << 30, 3 << 30, 9.94e9))
    assert "1.0 GiB of the 4.0 GiB" in told
    assert "9.9 GB/s" in told
    assert "slower" in pageable_note(HostShare(0, 1 << 30))
