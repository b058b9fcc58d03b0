"""An assistant whose engine is tiny, made of wheels in a folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.installation.assistant.dialog import EngineAssistant
from app.installation.link import RuntimeLink
from app.installation.runtime.hardware import Hardware
from app.installation.runtime.manager import RuntimeManager
from app.installation.runtime.tools import InstallDependencies
from app.system.bundle import RuntimeParts
from tests.app.installation.conftest import dependencies, index, waits
from tests.app.installation.packages import lock_of, tiny_wheels

__all__ = ["dependencies", "index", "waits"]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with every wheel."""
    folder = tmp_path / "wheels of mine"
    folder.mkdir()
    for name, body in tiny_wheels().items():
        (folder / name).write_bytes(body)
    return folder


@pytest.fixture
def manager(tmp_path: Path, dependencies: InstallDependencies, monkeypatch: pytest.MonkeyPatch) -> RuntimeManager:
    """Of a Coppice that carries two locks, on a computer without a card."""
    monkeypatch.setattr("app.installation.runtime.hardware.look", lambda: Hardware("linux", "x86_64"))
    locks = tmp_path / "parts" / "locks"
    locks.mkdir(parents=True)
    for build in ("cpu", "cuda"):
        (locks / f"{build}.json").write_text(lock_of(tiny_wheels(), build).text())
    return RuntimeManager(RuntimeParts(tmp_path / "parts"), dependencies.place, lambda: dependencies)


@pytest.fixture
def runtime(qtbot: QtBot, manager: RuntimeManager) -> Iterator[RuntimeLink]:
    """The window's side."""
    made = RuntimeLink(manager)
    yield made
    made.close()


@pytest.fixture
def assistant(qtbot: QtBot, runtime: RuntimeLink) -> EngineAssistant:
    """On the screen, with its proposal made."""
    made = EngineAssistant(runtime)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: bool(made.proposal.choices) or made.pages.currentWidget() is not made.proposal)
    return made
