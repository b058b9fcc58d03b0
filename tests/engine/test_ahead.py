"""Loops are compiled while nobody asks, and whoever asks ends that."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import torch

from engine.errors import Cancellation
from engine.loading.measurements import ahead
from engine.loading.measurements.ahead import Ahead
from engine.loading.measurements.samples import Samples
from engine.model.device import Arithmetic
from engine.model.products import compiling
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
    return [child for child in psutil.Process().children() if ahead.__name__ in child.cmdline()]


def test_it_ends_when_it_is_told_to_and_begins_again(folder: Path) -> None:
    process = Ahead()
    for _ in range(2):
        process.start(folder)
        process.start(folder)
        (child,) = children()
        process.stop()
        assert not child.is_running()
    process.stop()


def test_it_ends_with_who_started_it(folder: Path) -> None:
    process = Ahead()
    process.start(folder)
    assert process._child
    assert process._child.stdin
    process._child.stdin.close()  # as a process that has ended leaves it
    assert process._child.wait(60) == 0
    assert not list(folder.rglob(ahead.DONE))
    process.start(folder)
    assert children() == [], "what ended by itself may end so again"


def test_nothing_is_started_where_all_is_there_or_memory_is_short(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Ahead()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Mock(available=ahead.MEMORY_BYTES - 1))
    process.start(folder)
    monkeypatch.undo()
    compiling.keep_compiled_in(folder)
    compiling.kept_folder.cache_clear()
    kept = compiling.kept_folder()
    assert kept
    (kept / ahead.DONE).touch()
    process.start(folder)
    assert process._child is None


def test_products_of_all_usual_types_are_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, passes = list[Samples](), list[int]()
    monkeypatch.setattr(ahead, "measure_arithmetic", lambda _device, _check: Arithmetic("bfloat16", 0, 0))
    monkeypatch.setattr(ahead, "pass_overhead", lambda narrow, _check: passes.append(narrow.experts))
    monkeypatch.setattr(ahead, "stored_product_time", lambda samples, _timer: found.append(samples))
    compiling.keep_compiled_in(folder)
    with torch.inference_mode():
        ahead.compile_usual()
    for name, samples in zip(ahead.USUAL, found, strict=True):
        for (_, few), (_, many) in zip(samples.few, samples.many, strict=True):
            for sample in (*few, *many):
                assert sample.decoder.product(sample.stored, sample.name, sample.shape), name
    assert passes == [0, 8]
    assert list(folder.rglob(ahead.DONE))


def test_it_works_while_nobody_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    started = threading.Event()

    class Told(Ahead):
        def start(self, _folder: Path) -> None:
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
