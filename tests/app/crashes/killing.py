"""Starts the application, kills it or its engine at a moment that is drawn, and looks what is left."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.settings.generation import GenerationSettings
from app.settings.store import SettingsFile
from app.system.paths import ROOT, folders_below
from tests.app.crashes.journal import LOOK_MS, Entry, Loss, holds, last_look, losses, read

FAKE_QUESTION = "drip {n}"
REAL_QUESTION = "Tell me a story about {n} dragons."
PATIENCE_SECONDS = 180.0
_SETTINGS = GenerationSettings(temperature=0.8, seed=5, max_new_tokens=300)


class SilenceError(Exception):
    """The application did not do in time what was waited for."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the application writes, and with which engine it runs: the real one if no Python of its own is named."""

    folder: Path
    engine_python: Path | None = None

    @property
    def database(self) -> Path:
        """All conversations."""
        return folders_below(self.folder / "data").chats_file

    @property
    def output(self) -> Path:
        """What the application printed last."""
        return self.folder / "output.txt"

    @property
    def question(self) -> str:
        """What is asked."""
        return FAKE_QUESTION if self.engine_python else REAL_QUESTION


@contextmanager
def running(place: Place, journal: Path, seed: int) -> Iterator["subprocess.Popen[bytes]"]:
    """The application with somebody restless in front of it; killed at the end if it still runs."""
    folders = folders_below(place.folder / "data")
    folders.create()
    SettingsFile(folders.settings_file).change(generation=_SETTINGS)
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    if place.engine_python:
        environment["COPPICE_ENGINE_PYTHON"] = str(place.engine_python)
    arguments = (str(journal), str(seed), place.question, "--", "--data-dir", str(place.folder / "data"))
    with place.output.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.app.crashes.restless", *arguments],
            cwd=ROOT, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_application(place: Place, seed: int) -> list[Loss]:
    """Kill it at a moment between its start and a few seconds after its engine was ready; returns what was lost."""
    draw = random.Random(seed)
    journal = place.folder / f"application-{seed}.jsonl"
    with running(place, journal, seed) as process:
        if draw.random() < 0.75:
            _wait(lambda: _engine(read(journal)), process, place)
            _let_work(draw.uniform(0.0, 3.0), journal, process, place)
        else:
            time.sleep(draw.uniform(0.0, 3.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
    return losses(place.database, read(journal))


def kill_engines(place: Place, seed: int, times: int) -> list[Loss]:
    """Kill one engine after the other under the same application, and that at last; returns what was lost."""
    draw = random.Random(seed)
    journal = place.folder / f"engines-{seed}.jsonl"
    found: list[Loss] = []
    with running(place, journal, seed) as process:
        for _ in range(times):
            engine = _wait(lambda: _engine(read(journal)), process, place)
            _let_work(draw.uniform(0.0, 1.5), journal, process, place)
            before = read(journal)
            os.kill(engine, signal.SIGKILL)
            _wait(lambda engine=engine: _engine(read(journal), engine), process, place)  # type: ignore[misc]
            found += _vanished(before, read(journal)[len(before) :])
    return found + losses(place.database, read(journal))


def _engine(entries: list[Entry], but: int = 0) -> int:
    """The engine that is ready now, if it is not this one; else 0."""
    ready = [each["engine"] for each in entries if "engine" in each]
    return int(ready[-1]) if ready and ready[-1] not in (None, but) else 0


def _let_work(seconds: float, journal: Path, process: "subprocess.Popen[bytes]", place: Place) -> None:
    """Wait for as many looks at the screen as fit into so many seconds."""
    until = last_look(read(journal)) + round(seconds * 1000 / LOOK_MS)
    _wait(lambda: last_look(read(journal)) >= until, process, place)


def _vanished(before: list[Entry], after: list[Entry]) -> list[Loss]:
    """An answer that went from the screen, or lost its text, as its engine ended."""
    shown = [each["answer"] for each in before if "answer" in each][-1:]
    later = [each["answer"] for each in after if "answer" in each]
    return [
        Loss("text on the screen", text, again)
        for _, answer, _, text in shown
        for _, other, _, again in later
        if other == answer and not holds(again, text)
    ]


def _wait(found: Callable[[], int], process: "subprocess.Popen[bytes]", place: Place) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SilenceError(f"the application ended with {process.returncode}: {place.output.read_text('utf-8')}")
        if value := found():
            return value
        time.sleep(0.02)
    raise SilenceError("what was waited for never was")
