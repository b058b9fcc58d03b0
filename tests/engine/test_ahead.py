"""Loops are compiled while nobody asks, and whoever asks ends that."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import torch

from engine.errors import Cancellation
from engine.gguf_header import TYPES
from engine.loading.compiling import ahead
from engine.loading.compiling.ahead import Ahead
from engine.loading.compiling.processes import Compilers
from engine.model.gguf.packed_blocks import Gguf
from engine.model.products import compiling
from engine.model.products.compiling import has_compiler
from engine.model.products.jobs import layout_text, mark_done, of_layout, seconds_of
from engine.model.products.product import Stored
from engine.observing.watcher import Watcher
from engine.protocol.messages import Event, Generate
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.serving import worker as workers
from engine.serving.desk import WINDOW, Desk, Job
from engine.serving.worker import Worker


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of compiled code, kept to this test."""
    monkeypatch.setattr(compiling._Folder, "path", compiling._Folder.path)
    monkeypatch.setattr(ahead, "MEMORY_BYTES", 0)  # however many tests run beside this one
    compiling.kept_folder.cache_clear()
    yield tmp_path
    compiling.kept_folder.cache_clear()


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if ahead.__name__ in command_of(child)]


def command_of(child: psutil.Process) -> list[str]:
    """What it was started with; for a moment after its start the system does not tell."""
    words: list[str] = child.cmdline()
    while not words and child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.001)
        words = child.cmdline()
    return words


def test_it_ends_when_it_is_told_to_and_begins_again(folder: Path) -> None:
    process = Ahead()
    for _ in range(2):
        process.start(folder, is_narrow=True)
        process.start(folder, is_narrow=True)
        (child,) = children()
        process.stop()
        assert not child.is_running()
    process.stop()


def test_it_ends_with_who_started_it(folder: Path) -> None:
    process = Ahead()
    process.start(folder, is_narrow=True)
    assert process._child
    assert process._child.stdin
    process._child.stdin.close()  # as a process that has ended leaves it
    assert process._child.wait(60) == 0
    assert not list(folder.rglob(f"{ahead.DONE}*"))
    process.start(folder, is_narrow=True)
    assert children() == [], "what ended by itself may end so again"


def test_nothing_is_started_where_all_is_there_or_memory_is_short(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Ahead()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Mock(available=ahead.MEMORY_BYTES - 1))
    process.start(folder, is_narrow=True)
    monkeypatch.undo()
    compiling.keep_compiled_in(folder)
    compiling.kept_folder.cache_clear()
    kept = compiling.kept_folder()
    assert kept
    ahead._done(kept, "narrow").touch()
    process.start(folder, is_narrow=True)
    assert process._child is None


@pytest.mark.skipif(not has_compiler(), reason="numba does not run here")
@pytest.mark.parametrize("is_narrow", [True, False])
def test_all_loops_of_usual_types_are_compiled(is_narrow: bool) -> None:
    wanted = ahead.usual_jobs(is_narrow)
    for name, text in ahead.USUAL.items():
        kind = next(kind for kind in TYPES if kind.name == name)
        stored = torch.zeros(256, kind.nbytes * 4096 // kind.elements, dtype=torch.uint8)
        product = Gguf((kind,)).product({"0": stored}, (256, 4096))
        assert isinstance(product, Stored)
        assert layout_text(product.parts) == text
        assert set(of_layout(product.parts, is_narrow)) <= set(wanted)
    assert [seconds_of(job) for job in wanted] == sorted(map(seconds_of, wanted), reverse=True)


def test_it_is_noted_when_all_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Made(Compilers):
        def __init__(self, jobs: Sequence[str], folder: Path, count: int) -> None:
            super().__init__((), folder, count)
            for job in jobs[: None if are_all_done else -1]:
                mark_done(job)

    monkeypatch.setattr(ahead, "Compilers", Made)
    monkeypatch.setattr(ahead, "usual_jobs", lambda is_narrow: ["one", "other"] if is_narrow else [])
    monkeypatch.setattr(ahead, "has_compiler", lambda: True)
    compiling.keep_compiled_in(folder)
    for are_all_done in (False, True):
        ahead.compile_usual(folder, "narrow")
        assert bool(list(folder.rglob(f"{ahead.DONE}*"))) == are_all_done


def test_it_works_while_nobody_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    started = threading.Event()

    class Told(Ahead):
        def start(self, _folder: Path, is_narrow: bool) -> None:
            del is_narrow
            told.append("start")
            started.set()
            raise OSError("no more processes")

        def stop(self) -> None:
            told.append("stop")

    class EndError(Exception):
        pass

    def work(_job: Job) -> None:
        told.append("work")
        raise EndError

    monkeypatch.setattr(ahead, "Ahead", Told)
    for seconds in ("SETTLED_SECONDS", "REST_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(workers, seconds, 0.0)
    read: Future[None] = Future()
    read.set_result(None)
    desk = Desk()
    desk.engine = Mock(options=LoadOptions(device="cpu", cache_dir=str(folder)))

    def run(compiles_ahead: bool, wait: Callable[[], object]) -> None:
        worker = Worker(desk, Cancellation(), Watcher(lambda _event: None), read, compiles_ahead=compiles_ahead)
        monkeypatch.setattr(worker, "work", work)

        def ask() -> None:
            wait()
            desk.put(Job(asked, WINDOW, ignore))

        asking = threading.Thread(target=ask)
        asking.start()
        with pytest.raises(EndError):
            worker.run()
        asking.join()

    def ignore(_event: Event) -> None:
        pass

    asked = Generate(1, (), GenerateOptions())
    run(True, started.wait)
    assert told == ["start", "stop", "work"]
    run(False, lambda: None)
    assert told[3:] == ["work"], "a server alone is asked by others than who would load another model"
