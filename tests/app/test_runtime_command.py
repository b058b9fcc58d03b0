"""`coppice runtime`: what it prints, and with which exit code it ends."""

import json
from pathlib import Path

import pytest

from app.__main__ import main
from app.installation.runtime.hardware import Hardware
from app.installation.runtime.manager import RuntimeManager
from app.system.bundle import PARTS_VARIABLE, RuntimeParts
from tests.app.installation.conftest import make_dependencies
from tests.app.installation.packages import BLOB, lock_of, tiny_wheels


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuntimeManager:
    """Of a Coppice with one tiny lock, on a computer without a card."""
    monkeypatch.setattr("app.installation.runtime.hardware.look", lambda: Hardware("linux", "x86_64"))
    (tmp_path / "parts" / "locks").mkdir(parents=True)
    (tmp_path / "parts" / "locks" / "cpu.json").write_text(lock_of(tiny_wheels()).text())
    dependencies = make_dependencies(tmp_path / "data")
    made = RuntimeManager(RuntimeParts(tmp_path / "parts"), dependencies.place, lambda: dependencies)
    monkeypatch.setattr("app.installation.command.runtime_manager", lambda folders: made)
    return made


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with every wheel."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, body in tiny_wheels().items():
        (folder / name).write_bytes(body)
    return folder


def run(tmp_path: Path, *words: object) -> int:
    """Run it below a folder of this test."""
    return main(["runtime", *map(str, words), "--data-dir", str(tmp_path / "data")])


def test_a_runtime_is_installed_told_of_repaired_and_removed(
    manager: RuntimeManager, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "status") == 1
    assert json.loads(capsys.readouterr().out)["installed"] is None
    assert run(tmp_path, "install", "--wheels", wheels) == 0
    here = manager.installed()
    assert here is not None
    assert capsys.readouterr().out.strip() == str(here.python)
    assert run(tmp_path, "status") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["installed"], told["torch"], told["outdated"]) == ("cpu", "9.1.0+tiny", False)
    assert run(tmp_path, "repair", "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["stage"] == "done"
    assert manager.installed() != here
    assert run(tmp_path, "remove") == 0
    assert manager.installed() is None


def test_a_failure_is_one_line(
    manager: RuntimeManager, wheels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (wheels / BLOB).unlink()
    assert run(tmp_path, "install", "--wheels", wheels) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert BLOB in last


def test_a_build_that_is_not_carried_is_told(
    manager: RuntimeManager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "install", "--build", "rocm") == 2
    assert "carries no lock" in capsys.readouterr().err


def test_from_a_checkout_there_is_nothing_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(PARTS_VARIABLE, raising=False)
    assert run(tmp_path, "install") == 2
    assert "its own Python" in capsys.readouterr().err
    assert run(tmp_path, "status") == 0
    assert "its own Python" in capsys.readouterr().out


def test_a_wrong_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["runtime", "explode"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
