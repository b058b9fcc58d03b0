"""Every thread of the engine, and what becomes of it when something is raised in it, whatever that is."""

import ast
import builtins
import gc
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

import engine
from engine.cli.serve import EXIT_BROKEN, Ending, _work
from engine.errors import Cancellation, ModelError
from engine.loading.kept.part_file import SectionReader
from engine.loading.kept.text_parts import save, saved_text
from engine.model.passes.kept_text import KeptText
from engine.observing.answerer import Answerer
from engine.process import _read_ahead
from engine.protocol.keeping import KeepTexts
from engine.protocol.messages import Appraise, Appraised, Cancel, Count, Counted, Event, Failed, Generate, Load
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.watching import Inspect
from engine.serving.desk import Desk
from engine.serving.worker import Worker
from engine.text.template_renderer import TemplateRenderer
from engine.weights.streaming.prefetch_ring import PrefetchRing
from tests.engine.served import ERRORS, PATIENCE_SECONDS, Served, raises

BEGINNERS = {"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "start_new_thread"}


# ---- one scenario for each thread -----------------------------------------------------------------------------------


def deliveries(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """An event that cannot be written is told in the log; the next one is sent."""
    process = (served := Served()).process
    with monkeypatch.context() as patch:
        patch.setattr(process, "_write", raises(error))
        process._post(Counted(1, 0, 0))
        while process._posted:
            time.sleep(0.001)
        with process._sending:
            pass
    process._post(Counted(2, 0, 0))
    assert served.ours.poll(PATIENCE_SECONDS)
    assert served.ours.recv() == Counted(2, 0, 0)


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
        if name == "engine.loading.estimate":
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
    served.process._reading = served.process._worker._reading = reading
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


def prefetch(error: BaseException, *_: Any) -> None:
    """Who acquires the layer gets the error, and the layer when it is asked for again."""
    filled: list[int] = []

    def fill(layer: int, _slot: int) -> None:
        filled.append(layer)
        if layer == 1 and filled.count(1) == 1:
            raise error

    ring = PrefetchRing("reader", range(3), 1, fill)
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


def slots(error: BaseException, *_: Any) -> None:
    """Who waits for the experts gets the error; the next delivery comes."""
    import torch

    from engine.weights.streaming.experts.slots import ExpertSlots
    from engine.weights.streaming.experts.split_layout import SlotShape

    split: Any = SimpleNamespace(trunk=SimpleNamespace(index=0), expert_bytes=0, parts=())
    meter: Any = SimpleNamespace(fetched=lambda *_: None)
    failing: Any = SimpleNamespace(fetch=raises(error), takes_all=False)
    fine: Any = SimpleNamespace(fetch=lambda *_: None, takes_all=False)
    experts = ExpertSlots(torch.empty(4, dtype=torch.uint8), SlotShape((), 1), 4, meter, None)
    try:
        with pytest.raises(type(error), match="boom"):
            list(experts.load(split, [0, 1], failing, None, False))
        portions = experts.load(split, [0, 1], fine, None, False)
        assert [each.expert for some in portions for each in some] == [0, 1]
    finally:
        experts.close()


def hasher(error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The layer that is written is given up, with nothing left of it."""
    import torch

    from engine.weights.store.layer_file import write_layer

    own = hashlib.sha256  # which also names this computer, of all of its name at once
    fails = SimpleNamespace(update=raises(error))
    monkeypatch.setattr(hashlib, "sha256", lambda *data: own(*data) if data else fails)
    with pytest.raises(type(error), match="boom"):
        write_layer(folder / "layer", 0, {"weight": torch.ones(4)})
    assert list(folder.iterdir()) == []


def decoders(error: BaseException, *_: Any) -> None:
    """Who decodes gets the error once all threads have stopped, and the weight when it is decoded again."""
    import torch

    from engine.model.decoding.workers import work_through

    done: list[int] = []

    def work(chunk: slice) -> None:
        if chunk.start == 1 and error not in told:
            told.append(error)
            raise error
        done.append(chunk.start)

    told: list[BaseException] = []
    chunks, before = [slice(begin, begin + 1) for begin in range(4)], torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(type(error), match="boom"):
            work_through(work, chunks, torch.device("cpu"))
        assert sorted(done) == [0, 2, 3]
        work_through(work, chunks, torch.device("cpu"))
        assert sorted(done) == [0, 0, 1, 2, 2, 3, 3]
    finally:
        torch.set_num_threads(before)


def template_watch(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """A template that nobody watches does not run on."""
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    renderer = TemplateRenderer(seconds=30)
    assert renderer.render("fine", [], {}) == "fine"
    with monkeypatch.context() as patch:
        patch.setattr(psutil.Process, "memory_info", raises(error))
        endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        with pytest.raises(ModelError, match="ended with code"):  # and not by its time
            renderer.render(endless, [], {})
    assert {each.exc_value for each in told} == {error}
    assert renderer.render("fine", [], {}) == "fine"
    renderer.close()


def kept_layers(error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Who takes the layers of a kept text gets the error, and all of them the next time."""
    slots = {"keys": torch.zeros(1, 1, 3, 4)}
    saved = saved_text([save(folder / "text", KeptText((1, 2, 3), (slots, slots)), None, {}, lambda: None)])
    assert saved
    with monkeypatch.context() as patch:
        patch.setattr(SectionReader, "read", raises(error))
        with saved.opened(3) as kept, pytest.raises(type(error)):
            list(kept.slots)
    with saved.opened(3) as kept:
        assert [layer["keys"].shape for layer in kept.slots] == [(1, 1, 3, 4)] * 2


def server_without_window(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """A server without its engine ends, and says so."""
    endings: SimpleQueue[Ending] = SimpleQueue()
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "run", raises(error))
        _work(Desk(), Cancellation(), endings, KeepTexts(0))
    assert endings.get(timeout=0) == Ending(EXIT_BROKEN)


def server(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """A server that breaks says so, and its address is free again once it is closed."""
    import uvicorn

    from engine.protocol.serving import ServeOptions, ServingEnded
    from engine.serving.listening import listen

    told: SimpleQueue[Event] = SimpleQueue()
    with monkeypatch.context() as patch:
        patch.setattr(uvicorn.Server, "serve", raises(error))
        listening = listen(Desk(), ServeOptions(port=0), told.put)
        ended = told.get(timeout=PATIENCE_SECONDS)
    assert isinstance(ended, ServingEnded)
    assert ended.message == "The engine met an unexpected error: boom"
    listening.close()


def server_switch(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """An order that cannot be carried out is told; the next one is."""
    from engine.protocol.serving import Serve, ServeOptions, ServingEnded, StopServing
    from engine.serving.switch import ServerSwitch

    told: SimpleQueue[Event] = SimpleQueue()
    reading: Future[None] = Future()
    reading.set_result(None)
    switch = ServerSwitch(Desk(), told.put, reading)
    with monkeypatch.context() as patch:
        patch.setattr(switch, "_listen", raises(error))
        switch.turn(Serve(ServeOptions(port=0)))
        ended = told.get(timeout=PATIENCE_SECONDS)
    assert ended == ServingEnded("The engine met an unexpected error: boom", "Details are in the engine's log.")
    switch.turn(StopServing())
    assert told.get(timeout=PATIENCE_SECONDS) == ServingEnded()


def constraints(error: BaseException, *_: Any) -> None:
    """A request whose constraint cannot be tried, or whose text cannot be read, fails alone; the next one is tried."""
    import asyncio

    from engine.protocol.options import Constraint
    from engine.protocol.reasoning import COMMON
    from engine.protocol.serving import ServeOptions
    from engine.serving.answers import answer
    from engine.serving.context import Asker, Service

    class Asked:
        reasoning_marks = COMMON
        check_constraint = staticmethod(raises(error))

    desk = Desk()
    asked: Any = Asked()
    desk.engine = asked
    service = Service(desk, ServeOptions(port=0), print)
    options = GenerateOptions(constraint=Constraint("regex", "a"))

    async def ask(name: str) -> None:
        await anext(answer(service, Asker(name), lambda number: Generate(number, (), options)))

    for name in ("a", "b"):
        with pytest.raises(type(error), match="boom"):
            asyncio.run(ask(name))
        with pytest.raises(type(error), match="boom"):
            asyncio.run(service.read(raises(error)))


def trial(_error: BaseException, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A grammar on which its compiler broke off without a word is refused; the thread is in a process of its own."""
    from engine.errors import InputError
    from engine.protocol.options import Constraint
    from engine.text.grammars import trial as trials

    silent = folder / "silent.py"
    silent.write_text("")
    trials._refusal.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(trials, "PROGRAM", silent)
        with pytest.raises(InputError, match="too complex"):
            trials.try_out(Constraint("regex", "a"), {})
    trials.try_out(Constraint("regex", "a"), {})


def end_of_parent(error: BaseException, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """Who compiles ends, even if it can no longer hear of the process that started it."""
    from engine.loading.compiling import child

    ended: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(child, "sys", SimpleNamespace(stdin=SimpleNamespace(fileno=raises(error))))
        patch.setattr(child, "os", SimpleNamespace(read=None, _exit=ended.append))
        with pytest.raises(type(error)):
            child.end_with_parent()
    assert ended == [0]


SCENARIOS: dict[str, Callable[[BaseException, pytest.MonkeyPatch, Path], None]] = {
    "ahead.py: end_with_parent": end_of_parent,
    "child.py: end_with_parent": end_of_parent,
    "process.py: self._listen": commands,
    "process.py: self._deliver": deliveries,
    "process.py: _read_ahead": imports,
    "answerer.py: self._run": answers,
    "answerer.py: self._guard": guard,
    "prefetch_ring.py: self._run": prefetch,
    "slots.py: ThreadPoolExecutor": slots,
    "layer_file.py: ThreadPoolExecutor": hasher,
    "text_parts.py: ThreadPoolExecutor": kept_layers,
    "template_renderer.py: self._run": template_watch,
    "workers.py: ThreadPoolExecutor": decoders,
    "context.py: ThreadPoolExecutor": constraints,
    "serve.py: _work": server_without_window,
    "listening.py: self._run": server,
    "switch.py: self._work": server_switch,
    "trial_process.py: lambda: json.dump({'refused': refusal(request)}, sys.stdout)": trial,
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
                yield f"{file.name}: {targets[0] if targets else name}"


def test_every_thread_has_a_scenario() -> None:
    assert sorted(begun_threads()) == sorted(SCENARIOS)


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
@pytest.mark.parametrize("thread", SCENARIOS)
def test_no_thread_ends_silently(
    thread: str, error: BaseException, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    SCENARIOS[thread](error, monkeypatch, tmp_path)
