"""A machine that was measured while it was busy is measured again, and a disk's rate is that of most reads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.engine import load
from engine.errors import Cancellation
from engine.loading import loading
from engine.loading.measurements import measuring
from engine.loading.measurements.best_rates import best_of
from engine.loading.pair import open_pair
from engine.protocol.messages import Loading
from engine.protocol.options import LoadOptions
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.usual_rates import CPU_RATES


def test_of_two_measurements_the_faster_figures_count() -> None:
    before = replace(CPU_RATES, memory=20.0, call_seconds=1e-4, products=PassTime((1, 9), (0.1, 0.5)))
    now = replace(CPU_RATES, memory=10.0, call_seconds=2e-4, products=PassTime((1, 9), (0.2, 0.4)))
    best = best_of(now, before)
    assert (best.memory, best.call_seconds) == (20.0, 1e-4)
    assert best.products == PassTime((1, 9), (0.1, 0.4))
    other = replace(before, products=PassTime((1, 5), (0.1, 0.1)))
    assert best_of(now, other).products == now.products, "other rows, other products"


def test_rates_that_rounds_belie_are_measured_again_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = LoadOptions(weights="bfloat16", place="ssd", cache_dir=str(tmp_path))

    def measures() -> bool:
        cancellation = Cancellation()
        cancellation.begin(1)
        steps, told = load(1, open_pair(options), cancellation), []
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                end.value.close()
                return "Measuring this machine" in told
            if isinstance(event, Loading):
                told.append(event.stage)

    assert measures()
    assert not measures()
    monkeypatch.setattr(loading, "are_low", lambda *_: True)
    assert [measures() for _ in range(loading.MOST_TIMES)] == [True] * (loading.MOST_TIMES - 1) + [False]


@pytest.mark.parametrize("late", range(5))
def test_one_read_that_was_delayed_does_not_count(late: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    taken = iter([0.9 if read == late else 0.1 for read in range(12)])

    class Played:
        def __init__(self, _layouts: Any) -> None:
            self.bytes_read = 0

        def read(self, layout: Any, _buffer: Any) -> None:
            clock[0] += next(taken)
            self.bytes_read += layout.segments[0].nbytes

        def close(self) -> None:
            pass

    monkeypatch.setattr(measuring, "DiskReader", Played)
    monkeypatch.setattr(measuring, "READ_BYTES", 1 << 16)
    monkeypatch.setattr(measuring, "READ_SECONDS", 1.1)
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    file = tmp_path / "weights"
    file.write_bytes(bytes(12 << 16))
    assert measuring.disk_rate([file], lambda: None) == pytest.approx((1 << 16) / 0.1, rel=0.01)
