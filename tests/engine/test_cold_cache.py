"""What is read before a measurement is as large as the caches, and only where weights are larger."""

from pathlib import Path

import pytest
import torch

from engine.loading.measurements import cold_cache
from engine.loading.measurements.cold_cache import UNKNOWN_BYTES, last_level_bytes


def test_the_largest_cache_counts(tmp_path: Path) -> None:
    for index, size in enumerate(("48K", "2048K", "30M", "no number")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n", encoding="ascii")
    assert last_level_bytes(tmp_path) == 30 << 20
    assert last_level_bytes(tmp_path / "nowhere") == UNKNOWN_BYTES


def test_weights_that_stay_in_the_caches_are_measured_there(monkeypatch: pytest.MonkeyPatch) -> None:
    sums: list[int] = []
    monkeypatch.setattr(cold_cache, "last_level_bytes", lambda: 1 << 20)
    monkeypatch.setattr(torch.Tensor, "sum", lambda tensor: sums.append(tensor.nbytes))
    cpu = torch.device("cpu")
    cold_cache.cold_cache(cpu, 1 << 10)()
    cold_cache.cold_cache(torch.device("meta"), 1 << 30)()
    assert not sums
    cold_cache.cold_cache(cpu, 1 << 30)()
    assert sums == [2 << 20]
