"""What the engine does while nobody asks: it writes what was read to disk, and whoever asks next interrupts it."""

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from unittest.mock import Mock, PropertyMock

import psutil
import pytest

from engine.errors import Cancellation, Cancelled
from engine.kept_files import all_files, kept_folder
from engine.loading.kept import texts_on_disk
from engine.loading.out_of_memory import give_back_freed
from engine.observing.watcher import Watcher
from engine.protocol.keeping import KeepTexts, Kept
from engine.protocol.messages import Event, Failed, Generate, Load, Prefilled
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.serving import context
from engine.serving import worker as workers
from engine.serving.desk import WINDOW, Desk, Job
from engine.serving.worker import Worker
from tests.engine.test_estimate import with_tokenizer

PROMPT = tuple(range(20, 120))
ASKED = GenerateOptions(max_new_tokens=2, ignore_eos=True, conversation="chat 1")


def worker_of(desk: Desk, told: list[Kept]) -> Worker:
    read: Future[None] = Future()
    read.set_result(None)
    return Worker(desk, Cancellation(), Watcher(lambda _event: None), read, told.append)


def test_a_desk_is_quiet_until_somebody_asks() -> None:
    desk, places = Desk(), list[int]()
    assert desk.is_quiet(0.0)
    desk.put(Job(Generate(1, (), GenerateOptions()), WINDOW, lambda _event: None))
    assert not desk.is_quiet(60.0)
    desk.take()
    assert desk.is_quiet(0.0), "the one that was taken is over"
    desk.put(Job(Generate(2, (), GenerateOptions()), WINDOW, lambda _event: None, places.append))
    assert places == [0], "nobody is before it"


def test_who_asks_interrupts_and_a_failure_is_a_sentence() -> None:
    desk, told, engine = Desk(), list[Kept](), Mock(kept_complaint="", kept_bytes=7)
    worker = worker_of(desk, told)
    desk.engine = engine
    assert worker.rest()
    engine.rest.assert_not_called()
    worker.keeping = KeepTexts(5, "folder")
    engine.rest.return_value = False
    assert worker.rest()
    assert told == [], "there was nothing new"

    def interrupted(check: Callable[[], None]) -> bool:
        check()
        desk.put(Job(Generate(1, (), GenerateOptions()), WINDOW, lambda _event: None))
        check()
        raise AssertionError("it goes on")

    engine.rest.side_effect = interrupted
    assert not worker.rest()
    engine.rest.side_effect = [True, MemoryError(), Cancelled()]
    assert worker.rest()
    assert worker.rest()
    assert not worker.rest(), "something is to be forgotten first"
    assert [each.nbytes for each in told] == [7, 7]
    assert [bool(each.note) for each in told] == [False, True]
    type(engine).kept_complaint = PropertyMock(return_value="The disk is full.")
    engine.rest.side_effect = [False]
    assert worker.rest()
    assert told[-1] == Kept(7, "The disk is full.")
    engine.keep_on_disk.assert_called_once_with("folder", 5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny target that streams; a file is worth it, and two quiet seconds are over at once."""
    monkeypatch.setattr(texts_on_disk, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(texts_on_disk, "BYTES_PER_SECOND", 1e15)
    monkeypatch.setattr(workers, "REST_SECONDS", 0.0)
    return with_tokenizer(tmp_path / "model", "llama")


def test_layers_that_stream_find_a_text_again_after_a_restart(folder: Path, tmp_path: Path) -> None:
    answers = []
    for _ in range(2):
        desk, told, kept = Desk(), list[Event](), threading.Event()
        worker = worker_of(desk, [])
        worker.keeping = KeepTexts(1 << 30, str(tmp_path))
        worker._tell_kept = lambda _kept, kept=kept: kept.set()  # type: ignore[misc]
        options = LoadOptions(str(folder), "none", place="ssd", cache_dir=str(tmp_path))
        for request in (Load(0, options), Generate(1, (), ASKED, raw=PROMPT)):
            worker.work(Job(request, WINDOW, told.append))
        assert not any(isinstance(event, Failed) for event in told)
        assert desk.engine
        assert set(desk.engine.describe(0, 0.0).tiers) == {"ssd"}
        answers.append(told[-2:])
        assert worker.rest()
        assert kept.is_set() == (len(answers) == 1), "the second time there is nothing new"
        prefilled = next(event for event in told if isinstance(event, Prefilled))
        assert prefilled.cached_tokens == (0 if len(answers) == 1 else len(PROMPT) - 1)
        desk.engine.close()
    assert len(all_files(kept_folder(tmp_path))) == 1
    first, second = answers
    assert [getattr(event, "text", "") for event in first] == [getattr(event, "text", "") for event in second]


class AllDoneError(Exception):
    """Nobody asks for anything more."""


def test_what_was_loaded_is_rehearsed_once_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(workers, "REST_SECONDS", 0.0)
    monkeypatch.setattr("engine.loading.pair.open_pair", lambda options: options)
    desk, calls, engines = Desk(), Mock(), list[Mock]()
    take = desk.take

    def take_or_end() -> Job:
        if not desk.waiting:
            raise AllDoneError
        return take()

    def load(*_args: object, **_options: object) -> Generator[Event, None, Mock]:
        yield from ()
        engines.append(Mock(rehearse=calls.rehearse, generate=calls.generate))
        return engines[-1]

    def run(*requests: Load | Generate) -> list[str]:
        """What the engine was asked for."""
        calls.reset_mock()
        for request in requests:
            desk.put(Job(request, WINDOW, lambda _event: None))
        with pytest.raises(AllDoneError):
            worker.run()
        return [name for name, _, _ in calls.method_calls]

    def interrupted(check: Callable[[], None]) -> None:
        check()
        cancellation.check()
        desk.put(Job(ask, WINDOW, lambda _event: None))
        with pytest.raises(Cancelled):
            cancellation.check()  # as passes do before every layer
        check()
        raise AssertionError("it goes on")

    monkeypatch.setattr(desk, "take", take_or_end)
    monkeypatch.setattr("engine.engine.load", load)
    worker, ask = worker_of(desk, []), Generate(9, (), GenerateOptions())
    cancellation = worker._cancellation
    calls.generate.side_effect = lambda *_args: iter(())
    assert run(Load(1, LoadOptions("a"))) == ["rehearse"]
    assert run() == []
    assert run(ask) == ["generate"]
    assert run(Load(2, LoadOptions("b")), ask) == ["generate"], "somebody asks already"
    calls.rehearse.side_effect = interrupted
    assert run(Load(3, LoadOptions("c"))) == ["rehearse", "generate"]
    calls.rehearse.side_effect = IndexError("a table is too short")
    assert run(
        Load(4, LoadOptions("d")),
    ) == ["rehearse"]
    assert run(ask) == ["generate"]


def test_memory_that_an_answer_took_is_given_back_once_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = list[bool]()
    monkeypatch.setattr(workers, "give_back_freed", lambda: given_back.append(True))
    desk = Desk()
    worker = worker_of(desk, [])
    worker.rest()
    assert not given_back
    worker.work(Job(Generate(1, (), GenerateOptions()), WINDOW, lambda _event: None))
    assert not given_back, "the next one may need it"
    worker.rest()
    worker.rest()
    assert given_back == [True]


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_so_is_what_a_long_text_took_before_its_turn(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = list[bool]()
    monkeypatch.setattr(context, "LONG_SECONDS", seconds - 1)
    monkeypatch.setattr(context, "give_back_freed", lambda: given_back.append(True))
    assert context._read(lambda: 7) == 7
    assert given_back == ([] if seconds else [True])


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators give it back by themselves")
def test_what_was_freed_goes_back_to_the_system() -> None:
    kept = [bytes(1000) for _ in range(200_000)]
    between = kept[::1000]  # what stays in the middle of it
    del kept
    before = psutil.Process().memory_info().rss
    give_back_freed()
    assert before - psutil.Process().memory_info().rss > 100 << 20, "200 MB were freed"
    assert len(between) == 200
