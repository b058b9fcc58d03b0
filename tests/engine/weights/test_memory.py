"""Free memory as the system, its control groups and its GPU report it."""

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from engine import accelerator
from engine.weights.planning import machine
from engine.weights.planning.machine import GIB, LIBRARIES_RAM, Memory, Room, granted_bytes, memory_now, process_bytes


def system(monkeypatch: pytest.MonkeyPatch, total: int, available: int, granted: int | None = None) -> None:
    """A machine with so many GiB of RAM, and a control group or none."""
    found = SimpleNamespace(total=total * GIB, available=available * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    monkeypatch.setattr(machine, "granted_bytes", lambda: None if granted is None else granted * GIB)


def test_a_gpu_s_libraries_are_left_room_in_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "free_bytes", lambda _device: 8 * GIB)
    assert memory_now("cuda").ram_reserve - memory_now("cpu").ram_reserve == pytest.approx(LIBRARIES_RAM, abs=GIB // 4)
    assert memory_now("cuda").vram_free == 8 * GIB


def test_ram_is_what_is_available_less_a_part_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    system(monkeypatch, total=64, available=40)
    assert memory_now("cpu") == Memory(ram_free=40 * GIB, ram_reserve=4 * GIB)
    assert memory_now("cpu").room() == Room(device=36 * GIB, ram=36 * GIB, shared=True)


def test_a_small_machine_keeps_a_gib_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    system(monkeypatch, total=8, available=5)
    assert memory_now("cpu").ram_reserve == GIB


@pytest.mark.parametrize(("granted", "free"), [(12, 12), (900, 40), (None, 40)])
def test_a_container_counts_where_it_grants_less(
    granted: int | None, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(monkeypatch, total=64, available=40, granted=granted)
    assert memory_now("cpu").ram_free == free * GIB


def test_a_small_container_keeps_no_gib_for_programs_that_are_not_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    system(monkeypatch, total=64, available=40, granted=2)
    assert memory_now("cpu").room().ram == 2 * GIB - 2 * GIB // 16


def test_a_container_that_grants_more_than_is_free_leaves_the_same_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    system(monkeypatch, total=64, available=40, granted=900)
    assert memory_now("cpu").room().ram == 36 * GIB


class FakeKernel:
    """Of a Windows that has promised all but some GiB of its RAM and page file; `succeeds`: it tells that."""

    def __init__(self, committable: int, succeeds: bool = True) -> None:
        self._committable, self._succeeds = committable, succeeds

    def GlobalMemoryStatusEx(self, status: Any) -> int:
        held = status._obj
        assert held.dwLength == 64, "else Windows tells nothing"
        offset = type(held).ullAvailPageFile.offset
        ctypes.memmove(ctypes.addressof(held) + offset, (self._committable * GIB).to_bytes(8, "little"), 8)
        assert offset == 32
        return int(self._succeeds)


@pytest.mark.parametrize(("kernel", "free"), [(FakeKernel(14), 14), (FakeKernel(70), 40), (FakeKernel(1, False), 40)])
def test_what_windows_does_not_promise_is_not_free(
    kernel: FakeKernel, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    system(monkeypatch, total=64, available=40)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "WinDLL", lambda _name: kernel, raising=False)
    assert memory_now("cpu") == Memory(ram_free=free * GIB, ram_reserve=4 * GIB)


def test_limits_bound_what_is_free_and_never_add_to_it() -> None:
    found = Memory(ram_free=10 * GIB, ram_reserve=2 * GIB, vram_free=6 * GIB, vram_reserve=GIB, has_gpu=True)
    assert found.room() == Room(5 * GIB, 8 * GIB, shared=False)
    assert found.room(vram_limit=3 * GIB, ram_limit=GIB) == Room(3 * GIB, GIB, shared=False)
    assert found.room(vram_limit=30 * GIB, ram_limit=30 * GIB) == found.room()


def test_a_reserve_larger_than_what_is_free_leaves_nothing() -> None:
    assert Memory(ram_free=GIB, ram_reserve=2 * GIB).room() == Room(0, 0, shared=True)


def test_without_a_gpu_both_limits_bound_the_same_memory() -> None:
    room = Memory(ram_free=10 * GIB).room(vram_limit=4 * GIB, ram_limit=6 * GIB)
    assert room == Room(4 * GIB, 6 * GIB, shared=True)
    assert room.holds(device=4 * GIB, ram=2 * GIB)
    assert not room.holds(device=4 * GIB, ram=2 * GIB + 1)
    assert not room.holds(device=4 * GIB + 1, ram=0)


def test_this_machine_has_memory_and_this_process_takes_some_of_it() -> None:
    found = memory_now("cpu")
    assert 0 < found.ram_free <= psutil.virtual_memory().total
    assert 10 << 20 < process_bytes() < psutil.virtual_memory().total


@pytest.mark.gpu
def test_vram_that_torch_keeps_unused_counts_as_free() -> None:
    import torch

    torch.cuda.empty_cache()
    before = memory_now("cuda")
    block = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    during = memory_now("cuda").vram_free
    del block  # torch keeps it
    after = memory_now("cuda").vram_free
    assert before.has_gpu
    assert before.vram_reserve > 0
    assert before.vram_free - during >= 256 << 20
    assert after - during >= 256 << 20


# ---- control groups -------------------------------------------------------------------------------------------------


def group(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def membership(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "membership"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_tightest_of_nested_groups_counts(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    group(mount / "user" / "app", {"memory.max": "5000", "memory.current": "1000"})
    group(
        mount / "user", {"memory.max": "3000", "memory.current": "2500", "memory.stat": "anon 7\ninactive_file 400\n"}
    )
    group(mount, {"memory.stat": "inactive_file 9\n"})
    assert granted_bytes(mount, membership(tmp_path, "0::/user/app")) == 3000 - 2500 + 400


def test_a_group_without_a_limit_grants_everything(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    group(mount / "app", {"memory.max": "max", "memory.current": "1000"})
    assert granted_bytes(mount, membership(tmp_path, "0::/app")) is None


def test_an_overdrawn_group_grants_nothing(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    group(mount / "app", {"memory.max": "1000", "memory.current": "1200"})
    assert granted_bytes(mount, membership(tmp_path, "0::/app")) == 0


def test_the_older_version_is_read_too(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    files = {
        "memory.limit_in_bytes": "8000\n",
        "memory.usage_in_bytes": "6000\n",
        "memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
    }
    group(mount / "memory" / "box", files)
    assert granted_bytes(mount, membership(tmp_path, "5:cpu,cpuacct:/", "4:memory:/box", "0::/")) == 2500


def test_inside_a_container_the_path_may_not_exist_but_the_mount_does(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    group(mount, {"memory.max": "700", "memory.current": "100"})
    assert granted_bytes(mount, membership(tmp_path, "0::/host/only/path")) == 600


@pytest.mark.parametrize("line", ["", "nonsense", "0::/../../etc", "4:memory:/../.."])
def test_where_there_are_no_groups_nothing_is_limited(line: str, tmp_path: Path) -> None:
    assert granted_bytes(tmp_path / "none", membership(tmp_path, line)) is None
    assert granted_bytes(tmp_path / "none", tmp_path / "no-file") is None
