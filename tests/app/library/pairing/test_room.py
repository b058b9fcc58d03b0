"""What fits into a computer, as far as sizes alone tell it."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from app.installation.runtime.hardware import Hardware, NvidiaCard
from app.library.pairing import room as room_module
from app.library.pairing.room import Room, room_here
from app.library.pairing.suggestions import suggestions

GB = 10**9
PLAIN = Hardware("linux", "x86_64")
CARD = Hardware("linux", "x86_64", (NvidiaCard("one", memory_bytes=24 * GB), NvidiaCard("two", memory_bytes=8 * GB)))


@pytest.fixture(autouse=True)
def thirty_two(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A computer with 32 GB of RAM."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=32 * GB))
    monkeypatch.setattr(room_module, "hub_place", lambda: SimpleNamespace(cache=tmp_path / "not" / "made yet"))


@pytest.mark.parametrize(
    ("hardware", "limits", "memory"),
    [
        (PLAIN, (0, 0), 30 * GB),
        (PLAIN, (10 * GB, 0), 10 * GB),
        (CARD, (0, 0), 54 * GB),
        (CARD, (0, 4 * GB), 34 * GB),
        (Hardware("linux", "x86_64", (NvidiaCard("silent"),)), (0, 0), None),
        (Hardware("linux", "x86_64", amd=("gfx1100",)), (0, 0), None),
    ],
)
def test_memory_is_ram_and_the_largest_card(hardware: Hardware, limits: tuple[int, int], memory: int | None) -> None:
    found = room_here(*limits, hardware=lambda: hardware)
    assert found.memory_bytes == memory
    assert found.disk_bytes


def test_on_a_small_computer_the_first_suggestions_are_those_that_fit() -> None:
    room = Room(memory_bytes=23 * GB, disk_bytes=200 * GB)
    ranked = sorted(suggestions(), key=lambda each: room.rank(each, False))
    fits = [room.fits_memory(each) for each in ranked]
    assert fits[0]
    assert fits == sorted(fits, reverse=True)
    assert [each for each in ranked if room.fits_memory(each)] == [
        each for each in suggestions() if room.fits_memory(each)
    ], "in the order in which they are shipped"
    assert ranked[-1].target.parameters == 128e9


def test_without_a_card_mixtures_come_before_large_dense_models() -> None:
    room = room_here(hardware=lambda: PLAIN)
    ranked = [each for each in sorted(suggestions(), key=lambda each: room.rank(each, False)) if room.fits_memory(each)]
    computed = [each.target.computed for each in ranked]
    slow = [each > 15e9 for each in computed]
    assert slow == sorted(slow)
    assert any(slow)
    assert ranked[0].target.parameters > 20e9, "large, and quick all the same"
    assert room_here(hardware=lambda: CARD).has_card


def test_what_is_not_known_changes_nothing() -> None:
    assert sorted(suggestions(), key=lambda each: Room().rank(each, False)) == list(suggestions())


def test_a_model_that_is_here_needs_no_room_on_the_disk() -> None:
    suggestion, full = suggestions()[0], Room(disk_bytes=GB)
    assert not full.fits_disk(suggestion, False)
    assert full.fits_disk(suggestion, True)
