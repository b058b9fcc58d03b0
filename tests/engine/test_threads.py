"""Every thread of the engine, and what becomes of it when something is raised in it, whatever that is."""

import ast
import builtins
import gc
import hashlib
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import engine
from engine.answerer import Answerer
from engine.errors import ModelError
from engine.messages import (
    UNHEARD_EXIT,
    Appraise,
    Appraised,
    Cancel,
    ChatMessage,
    Count,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Ready,
    Shutdown,
)
from engine.options import GenerateOptions, LoadOptions
from engine.process import EngineProcess, _read_ahead
from engine.text.template_renderer import TemplateRenderer
from engine.watching import Inspect
from engine.weights.stage import Stage

PATIENCE_SECONDS = 60
BEGINNERS = {"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "start_new_thread"}


class Cry(BaseException):
    """As a panic: no `Exception`."""


ERRORS = [RuntimeError("boom"), Cry("boom")]


class Served:
    """An engine process without a process: its two threads, and the application's end of the connection."""

    def __init__(self) -> None:
        theirs: Connection[Any, Any]
        self.ours, theirs = Pipe()
        self.left: list[int] = []
        self.gone = threading.Event()
        reading: Future[None] = Future()
        reading.set_result(None)
        self.process = EngineProcess(theirs, reading, self._leave)

    def _leave(self, code: int) -> None:
        self.left.append(code)
        self.gone.set()

    def begin(self) -> None:
        for target in (self.process._listen, self._answer_requests):
            threading.Thread(target=target, daemon=True).start()

    def _answer_requests(self) -> None:
        while True:
            self.process._serve(self.process._requests.get())

    def ask(self, command: Any) -> Any:
        self.ours.send(command)
        assert self.ours.poll(PATIENCE_SECONDS), f"no answer to {command}"
        return self.ours.recv()

    def close(self) -> None:
        self.ours.send(Shutdown())
        assert self.gone.wait(PATIENCE_SECONDS)


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    served.begin()
    yield served
    if not served.left:
        served.close()


def raises(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


# ---- one scenario for each thread -----------------------------------------------------------------------------------


def commands(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """A command that cannot be handled fails alone; the next one is heard, and the end too."""
    served = Served()
    take = served.process._take
    questions = [
        Load(1, LoadOptions()), Generate(2, (), GenerateOptions()), Appraise(3, LoadOptions()), Count(4, (), ("a",)),
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(served.process, "_take", raises(error))
        served.begin()
        answers = [served.ask(question) for question in questions]
        assert [(type(answer), answer.id) for answer in answers] == [
            (Failed, 1), (Failed, 2), (Appraised, 3), (Counted, 4),
        ]  # fmt: skip
        assert answers[0].message == "The engine met an unexpected error: boom"
        served.ours.send(Inspect(5, 0, 0))
        served.ours.send(Cancel(5))
    assert served.process._take == take
    assert served.ask(Count(6)) == Counted(6, 0, 0)
    served.close()
    assert served.left == [0]


def imports(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """Every load fails with what went wrong; none waits for ever."""
    import_ = builtins.__import__

    def without_appraisal(name: str, *more: Any, **named: Any) -> Any:
        if name == "engine.appraisal":
            raise error
        return import_(name, *more, **named)

    reading: Future[None] = Future()
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without_appraisal)
        _read_ahead(reading)
    gc.unfreeze()
    assert reading.done()
    assert gc.isenabled()
    served = Served()
    served.process._reading = reading
    served.begin()
    assert served.ask(Load(1, LoadOptions())) == Failed(
        1, "The engine met an unexpected error: boom", "Details are in the engine's log."
    )
    assert served.ask(Appraise(2, LoadOptions())).reason == "The engine met an unexpected error: boom"
    served.close()


def answers(error: BaseException, *_: Any) -> None:
    """The question is excused, and the next one answered."""
    said: list[Event] = []
    came = threading.Semaphore(0)

    def send(event: Event) -> None:
        said.append(event)
        came.release()

    def answer(question: Count) -> Event:
        if question.id == 1:
            raise error
        return Counted(question.id, 7, 7)

    answerer = Answerer("counts", answer, lambda question, met: Failed(question.id, str(met)), send)
    for number in (1, 2):
        answerer.put(Count(number))
        assert came.acquire(timeout=PATIENCE_SECONDS)
    assert said == [Failed(1, "boom"), Counted(2, 7, 7)]


def guard(error: BaseException, *_: Any) -> None:
    """A question that is never answered is excused, also after an excuse that failed."""
    said: list[Event] = []
    came, over = threading.Event(), threading.Event()

    def excuse(question: Count, met: BaseException) -> Event:
        if question.id == 1:
            raise error
        return Failed(question.id, type(met).__name__)

    def send(event: Event) -> None:
        said.append(event)
        came.set()

    def never(question: Count) -> Event:
        assert over.wait(PATIENCE_SECONDS)
        return Counted(question.id, 7, 7)

    answerer = Answerer("counts", never, excuse, send, seconds=0.02)
    answerer.put(Count(1))
    answerer.put(Count(2))
    assert came.wait(PATIENCE_SECONDS)
    over.set()
    assert said == [Failed(2, "TimeoutError")], "an answer that comes too late is dropped"


def stage(error: BaseException, *_: Any) -> None:
    """Who acquires the layer gets the error, and the layer when it is asked for again."""
    filled: list[int] = []

    def fill(layer: int, _slot: int) -> None:
        filled.append(layer)
        if layer == 1 and filled.count(1) == 1:
            raise error

    ring = Stage("reader", range(3), 1, fill)
    try:
        ring.acquire(0)
        ring.release(0)
        with pytest.raises(type(error), match="boom"):
            ring.acquire(1)
        ring.acquire(1)
        ring.release(1)
        assert ring.acquire(2) == 0
    finally:
        ring.close()


def shelf(error: BaseException, *_: Any) -> None:
    """Who waits for the experts gets the error; the next delivery comes."""
    import torch

    from engine.weights.expert_layout import SlotShape
    from engine.weights.expert_shelf import Shelf

    split: Any = SimpleNamespace(trunk=SimpleNamespace(index=0), expert_bytes=0, parts=())
    meter: Any = SimpleNamespace(fetched=lambda *_: None)
    failing: Any = SimpleNamespace(bring=raises(error))
    fine: Any = SimpleNamespace(bring=lambda *_: None)
    experts = Shelf(torch.empty(4, dtype=torch.uint8), SlotShape((), 1), 4, meter, None)
    try:
        with pytest.raises(type(error), match="boom"):
            list(experts.deliver(split, [0, 1], failing, None, False))
        assert [each.expert for each in experts.deliver(split, [0, 1], fine, None, False)] == [0, 1]
    finally:
        experts.close()


def hasher(error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The layer that is written is given up, with nothing left of it."""
    import torch

    from engine.weights.packing import write_layer

    monkeypatch.setattr(hashlib, "sha256", lambda: SimpleNamespace(update=raises(error)))
    with pytest.raises(type(error), match="boom"):
        write_layer(folder / "layer", 0, {"weight": torch.ones(4)})
    assert list(folder.iterdir()) == []


def template_watch(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """A template that nobody watches does not run on."""
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    renderer = TemplateRenderer(seconds=30)
    assert renderer.render("fine", [], {}) == "fine"
    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "memory_info", raises(error))
        endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        begin = time.monotonic()
        with pytest.raises(ModelError, match="ended with code"):
            renderer.render(endless, [], {})
        assert time.monotonic() - begin < 20
    assert {each.exc_value for each in told} == {error}
    assert renderer.render("fine", [], {}) == "fine"
    renderer.close()


SCENARIOS: dict[str, Callable[[BaseException, pytest.MonkeyPatch, Path], None]] = {
    "process.py: self._listen": commands,
    "process.py: _read_ahead": imports,
    "answerer.py: self._run": answers,
    "answerer.py: self._guard": guard,
    "weights/stage.py: self._run": stage,
    "weights/expert_shelf.py: ThreadPoolExecutor": shelf,
    "weights/packing.py: ThreadPoolExecutor": hasher,
    "text/template_renderer.py: self._run": template_watch,
}


# ---- the tests ------------------------------------------------------------------------------------------------------


def begun_threads() -> Iterator[str]:
    """Every place of the engine that begins threads, by its file and what runs in them."""
    root = Path(engine.__file__).parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in BEGINNERS:
                targets = [ast.unparse(each.value) for each in node.keywords if each.arg == "target"]
                yield f"{file.relative_to(root).as_posix()}: {targets[0] if targets else name}"


def test_every_thread_has_a_scenario() -> None:
    assert sorted(begun_threads()) == sorted(SCENARIOS)


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
@pytest.mark.parametrize("thread", SCENARIOS)
def test_no_thread_ends_silently(
    thread: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    SCENARIOS[thread](error, monkeypatch, tmp_path)


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
def test_a_request_fails_alone(
    served: Served, error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(served.process, "_answer", raises(error))
        failed = served.ask(Generate(1, (), GenerateOptions()))
    assert failed == Failed(1, "The engine met an unexpected error: boom", "Details are in the engine's log.")
    assert type(error).__name__ + ": boom" in capsys.readouterr().err
    assert served.ask(Generate(2, (), GenerateOptions())).message == "No model is loaded."


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
def test_a_count_fails_alone(served: Served, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny: Any = SimpleNamespace(count=raises(error))
    with monkeypatch.context() as patch:
        patch.setattr(served.process, "_engine", tiny)
        assert served.ask(Count(1, (), ("a", "b"))) == Counted(1, 0, 0, (0, 0))
    assert served.ask(Count(2, (), ("a",))) == Counted(2, 0, 0, (0,))


def test_a_tokenizer_that_panics_costs_one_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pattern gives up on some texts only."""
    from engine.prompt import count_tokens, write_prompt
    from engine.text.tokenizer import Tokenizer
    from tests.engine.text.test_panics import FATAL, nasty_library

    nasty = Tokenizer(nasty_library("/models/nasty-1b"))
    loaded: Any = SimpleNamespace(
        count=lambda question: count_tokens(nasty, question, 100), prompt=lambda chat: write_prompt(nasty, chat)
    )
    monkeypatch.setattr(served.process, "_engine", loaded)
    fatal, fine = (ChatMessage("user", FATAL),), (ChatMessage("user", "a"),)
    assert served.ask(Count(1, fatal)).tokens == 0
    assert served.ask(Count(2, fine)).tokens > 0
    assert served.ask(Generate(3, fatal, GenerateOptions())).message.startswith("The tokenizer of 'nasty-1b' failed: ")
    assert served.ask(Count(4, fine)).tokens > 0


def test_an_event_that_cannot_be_sent_is_a_failure(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.process, "_answer", lambda request: iter([Finished(request.id, lambda: None)]))  # type: ignore[arg-type]
    failed = served.ask(Load(1, LoadOptions()))
    assert isinstance(failed, Failed)
    assert "unexpected error" in failed.message


class Unreadable:
    """Raises when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("x",)


@pytest.mark.parametrize("message", [b"no pickle", pickle.dumps(Unreadable()), pickle.dumps(Ready(3, 1))[:-9]])
def test_a_listener_that_cannot_read_says_why(
    served: Served, message: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever sent that waits for an answer, to a question with a number that nobody knows."""
    served.ours.send_bytes(message)
    assert served.gone.wait(PATIENCE_SECONDS)
    assert served.left == [UNHEARD_EXIT]
    assert "Traceback" in capsys.readouterr().err


def test_what_is_no_command_is_told_in_the_log(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    served.ours.send("hello")
    assert served.ask(Count(1)) == Counted(1, 0, 0)
    assert "no command: 'hello'" in capsys.readouterr().err


def test_an_application_that_goes_ends_the_engine_well(served: Served) -> None:
    served.ours.close()
    assert served.gone.wait(PATIENCE_SECONDS)
    assert set(served.left) == {0}


def test_an_answer_to_nobody_ends_the_engine_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the thread that answers is the first to see that the application is gone."""
    served = Served()
    served.ours.close()
    served.process._send(Ready(3, os.getpid()))
    assert served.left == [0]
    assert capsys.readouterr().err == ""
