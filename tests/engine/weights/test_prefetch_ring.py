"""The ring: right layer in the right slot at the right time, whatever the order of events."""

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import Cancelled
from engine.weights.streaming.prefetch_ring import PrefetchRing
from tests.campaigns.extent import choose

PATIENCE_SECONDS = 60


class Recorder:
    """A fill that notes what it put where, and can be held or made to fail."""

    def __init__(self, slots: int) -> None:
        self.content: list[int | None] = [None] * slots
        self.filled: list[int] = []
        self.gate = threading.Semaphore(0)
        self.is_resident = False
        self.failing: set[int] = set()
        self.failed: list[int] = []

    def __call__(self, layer: int, slot: int) -> None:
        if self.is_resident:
            assert self.gate.acquire(timeout=PATIENCE_SECONDS)
        if layer in self.failing:
            self.failed.append(layer)
            raise OSError(f"layer {layer} is unreadable")
        self.content[slot] = layer
        self.filled.append(layer)


@pytest.fixture
def stages() -> Iterator[list[PrefetchRing]]:
    made: list[PrefetchRing] = []
    yield made
    for stage in made:
        stage.close()


@settings(max_examples=choose(10, 40), deadline=None)
@given(
    layers=st.integers(1, 9),
    slots=st.integers(1, 5),
    stops=st.lists(st.integers(0, 8), min_size=1, max_size=6),
)
def test_every_layer_is_in_its_slot_however_passes_end(layers: int, slots: int, stops: list[int]) -> None:
    """Each pass runs up to a layer and is then abandoned, once before and once after giving that layer back."""
    recorder = Recorder(slots)
    stage = PrefetchRing("test", range(layers), slots, recorder)
    try:
        for number, stop in enumerate(stops):
            for layer in range(min(stop + 1, layers)):
                slot = stage.acquire(layer)
                assert recorder.content[slot] == layer
                if layer < stop or number % 2:
                    stage.release(layer)
    finally:
        stage.close()


def test_it_fills_ahead_past_the_end_of_a_pass(stages: list[PrefetchRing]) -> None:
    recorder = Recorder(2)
    stages.append(stage := PrefetchRing("test", [0, 1, 2], 2, recorder))
    for layer in (0, 1, 2):
        stage.acquire(layer)
        stage.release(layer)
    stage.acquire(0)  # the next pass: it is there, and so will the one behind it be
    stage.release(0)
    stage.acquire(1)
    assert recorder.filled[:5] == [0, 1, 2, 0, 1]


def test_a_slot_in_use_is_never_filled(stages: list[PrefetchRing]) -> None:
    recorder = Recorder(1)
    stages.append(stage := PrefetchRing("test", [0, 1], 1, recorder))
    slot = stage.acquire(0)
    for _ in range(1000):
        assert recorder.content[slot] == 0
    stage.release(0)
    assert recorder.content[stage.acquire(1)] == 1


def test_idle_work_is_done_while_a_layer_is_on_its_way_and_no_longer(stages: list[PrefetchRing]) -> None:
    recorder = Recorder(2)
    recorder.is_resident = True
    stages.append(stage := PrefetchRing("test", [0, 1], 2, recorder))
    done: list[int] = []

    def idle() -> bool:
        done.append(len(done))
        if len(done) == 3:
            recorder.gate.release(2)
        return len(done) < 5  # there is work for five calls at most; then it waits quietly

    stage.acquire(0, idle)
    assert 3 <= len(done) <= 5
    stage.release(0)
    stage.acquire(1)
    before = len(done)
    stage.acquire(1, idle)  # it is there already
    assert len(done) == before
    assert stage.waited_seconds > 0
    recorder.gate.release(9)  # let the thread end


def test_a_failed_fill_raises_and_the_next_try_succeeds(stages: list[PrefetchRing]) -> None:
    recorder = Recorder(2)
    recorder.failing = {2}
    stages.append(stage := PrefetchRing("test", range(4), 2, recorder))
    for layer in (0, 1):
        stage.acquire(layer)
        stage.release(layer)
    with pytest.raises(OSError, match="layer 2 is unreadable"):
        stage.acquire(2)
    recorder.failing.clear()
    for layer in range(4):
        assert recorder.content[stage.acquire(layer)] == layer
        stage.release(layer)


def test_what_failed_while_nobody_waited_for_it_is_tried_again(stages: list[PrefetchRing]) -> None:
    """A disk that was away between two answers, or while the one before failed, is there again for the next."""
    recorder = Recorder(1)
    recorder.failing = {0}
    stages.append(stage := PrefetchRing("test", range(4), 1, recorder))
    with pytest.raises(OSError, match="layer 0 is unreadable"):
        stage.acquire(0)
    before = len(recorder.failed)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(recorder.failed) == before:  # the ring reads ahead for whoever asks next, and fails once more
        assert time.monotonic() < deadline
        time.sleep(0.001)
    recorder.failing.clear()
    for layer in (0, 1, 2, 3, 0):
        assert recorder.content[stage.acquire(layer)] == layer
        stage.release(layer)


def test_closing_frees_whoever_waits(stages: list[PrefetchRing]) -> None:
    recorder = Recorder(1)
    recorder.is_resident = True
    stage = PrefetchRing("test", [0], 1, recorder)
    outcome: list[Cancelled] = []

    def wait() -> None:
        try:
            stage.acquire(0)
        except Cancelled as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    closing = threading.Thread(target=stage.close)
    closing.start()
    waiting.join(PATIENCE_SECONDS)
    recorder.gate.release()
    closing.join(PATIENCE_SECONDS)
    assert len(outcome) == 1
