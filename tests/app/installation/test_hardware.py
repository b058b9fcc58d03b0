"""What drivers and systems say of themselves, as they really say it."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.installation.runtime.hardware import NvidiaCard, _run, look, numbers, parse_proc_version, parse_smi
from app.system.paths import program_on_path

RTX = "NVIDIA GeForce RTX 4070, 8.9, 12282, 580.65.06\n"
PROC = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)\n"


def silent(arguments: Sequence[str]) -> str:
    """A computer without any of these programs."""
    return ""


def test_a_card_and_its_driver_are_read() -> None:
    assert parse_smi(RTX) == ((NvidiaCard("NVIDIA GeForce RTX 4070", (8, 9), 12282 << 20),), (580, 65, 6))


def test_several_cards_are_read() -> None:
    cards, _ = parse_smi(RTX + "NVIDIA H100, 9.0, 81559, 580.65.06\n")
    assert [card.capability for card in cards] == [(8, 9), (9, 0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        'Field "compute_cap" is not a valid field to query.',
        "No devices were found",
        ", , ,",
    ],
)
def test_what_is_no_card_is_none(text: str) -> None:
    assert parse_smi(text) == ((), ())


def test_a_card_whose_memory_is_unknown_is_a_card() -> None:
    assert parse_smi("NVIDIA GB10, 12.1, [N/A], 580.95.05")[0] == (NvidiaCard("NVIDIA GB10", (12, 1), 0),)


@pytest.mark.parametrize(("text", "version"), [(PROC, (535, 104, 5)), (OPEN, (570, 86, 15)), ("", ()), ("\n", ())])
def test_the_kernel_module_tells_its_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_proc_version(text) == version


def test_versions_are_numbers_or_nothing() -> None:
    assert numbers("580.65") == (580, 65)
    assert numbers("[N/A]") == ()


def test_an_old_driver_that_knows_no_capabilities_is_asked_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def smi(arguments: Sequence[str]) -> str:
        asked.append(arguments[1])
        return "" if "compute_cap" in arguments[1] else "GeForce GTX 1080, 8192, 440.33.01\n"

    monkeypatch.setattr("app.installation.runtime.hardware.sys.platform", "linux")
    found = look(smi, tmp_path)
    assert found.nvidia == (NvidiaCard("GeForce GTX 1080", (), 8192 << 20),)
    assert found.driver == (440, 33, 1)
    assert len(asked) == 2


def test_the_kernel_is_asked_where_no_program_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("app.installation.runtime.hardware.sys.platform", "linux")
    card = tmp_path / "proc" / "driver" / "nvidia" / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA GeForce RTX 3060\nIRQ: 16\n")
    (card.parents[1] / "version").write_text(PROC)
    found = look(silent, tmp_path)
    assert found.nvidia == (NvidiaCard("NVIDIA GeForce RTX 3060"),)
    assert found.driver == (535, 104, 5)


@pytest.mark.parametrize(
    ("version", "vendor", "amd"),
    [
        (100302, "0x1002", ("gfx1032",)),
        (90010, "0x1002", ("gfx90a",)),
        (120001, "0x1002", ("gfx1201",)),
        (0, "0x1002", ()),
        (110000, "0x8086", ()),
    ],
)
def test_an_amd_card_counts_when_it_can_compute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int, vendor: str, amd: tuple[str, ...]
) -> None:
    monkeypatch.setattr("app.installation.runtime.hardware.sys.platform", "linux")
    node = tmp_path / "sys" / "class" / "kfd" / "kfd" / "topology" / "nodes" / "1"
    node.mkdir(parents=True)
    (node / "properties").write_text(f"cpu_cores_count 0\ngfx_target_version {version}\n")
    card = tmp_path / "sys" / "class" / "drm" / "card0" / "device"
    card.mkdir(parents=True)
    (card / "vendor").write_text(f"{vendor}\n")
    assert look(silent, tmp_path).amd == amd


def test_a_bare_computer_has_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("app.installation.runtime.hardware.sys.platform", "linux")
    found = look(silent, tmp_path)
    assert (found.nvidia, found.driver, found.amd, found.system) == ((), (), (), "linux")


@pytest.mark.parametrize(("machine", "is_apple"), [("arm64", True), ("x86_64", False)])
def test_a_mac_is_known_by_its_processor(monkeypatch: pytest.MonkeyPatch, machine: str, is_apple: bool) -> None:
    monkeypatch.setattr("app.installation.runtime.hardware.sys.platform", "darwin")
    monkeypatch.setattr("app.installation.runtime.hardware.platform.machine", lambda: machine)
    found = look(silent)
    assert (found.system, found.machine, found.is_apple) == ("macos", machine, is_apple)


@pytest.mark.skipif(os.name != "posix", reason="a script for a shell")
def test_no_program_of_the_folder_where_a_person_is_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, foreign = tmp_path / "bin", tmp_path / "model"
    for folder in (own, foreign):
        folder.mkdir()
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\necho {folder.name}\n")
        (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.chdir(foreign)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(own), "/bin"]))
    assert program_on_path("nvidia-smi") == own / "nvidia-smi"
    assert _run(["nvidia-smi"]) == "bin\n"
    assert program_on_path("no such program") is None
    assert _run(["no such program"]) == ""
