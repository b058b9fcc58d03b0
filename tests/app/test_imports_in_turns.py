"""Modules that a thread imports while the window's thread waits, a little at a time."""

import importlib.util
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.system.imports import ImportsInTurns

PATIENCE_SECONDS = 30


class Reading:
    """A list of modules on its way in a thread, each of which imports the next."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.imports = ImportsInTurns((), names[:1])
        self.thread = threading.Thread(target=self.imports.read, daemon=True)

    @property
    def begun(self) -> list[str]:
        return [each for each in self.names if each in sys.modules]

    def ends(self) -> bool:
        self.thread.join(PATIENCE_SECONDS)
        return not self.thread.is_alive()


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """Three modules; every turn is over at once."""
    names = [f"{tmp_path.name}_{each}".replace("-", "_") for each in ("one", "two", "three")]
    for name, following in zip(names, [*names[1:], "json"], strict=True):
        (tmp_path / f"{name}.py").write_text(f"import {following}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("app.system.imports.TURN_SECONDS", 0.0)
    made = Reading(names)
    made.thread.start()
    yield made
    made.imports.stop()
    assert made.ends()
    assert made.imports not in sys.meta_path
    for name in names:
        sys.modules.pop(name, None)


def test_nothing_is_imported_but_in_a_turn_and_all_in_the_end(reading: Reading) -> None:
    assert reading.begun == []
    seen = [list[str]()]
    while reading.thread.is_alive():
        reading.imports.let_go_on()
        if reading.begun != seen[-1]:
            seen.append(reading.begun)
    assert seen == [reading.names[:count] for count in range(4)], "one after the other"


def test_a_module_that_the_window_needs_at_once_is_not_waited_for_in_vain(reading: Reading) -> None:
    """It is being imported, and no turn comes before it is there."""
    while not reading.begun:
        reading.imports.let_go_on()
    assert importlib.import_module(reading.names[0]) is sys.modules[reading.names[0]]
    assert reading.begun == reading.names


def test_a_thread_that_waits_for_its_turn_ends_with_the_program(reading: Reading) -> None:
    while not reading.begun:
        reading.imports.let_go_on()
    reading.imports.stop()
    assert reading.ends()
    assert reading.begun == [], "what is half there is taken out again"


def test_a_module_that_takes_long_is_waited_for_once(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("builtins.gate", gate, raising=False)
    first = Path(str(importlib.util.find_spec(reading.names[0]).origin))  # type: ignore[union-attr]
    first.write_text("gate.wait()\n", encoding="utf-8")
    monkeypatch.setattr("app.system.imports._LONGEST_SECONDS", 0.2)
    while not reading.begun:
        reading.imports.let_go_on()
    monkeypatch.setattr("app.system.imports._LONGEST_SECONDS", PATIENCE_SECONDS)
    begin = time.monotonic()
    reading.imports.let_go_on()
    assert time.monotonic() - begin < PATIENCE_SECONDS / 3
    gate.set()
    while reading.thread.is_alive():
        reading.imports.let_go_on()
    assert reading.begun == reading.names[:1]
