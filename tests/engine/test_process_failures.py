"""The engine process when something is raised in it: one question fails, the next is answered, and the log says why."""

import os
import pickle
import threading
import time
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from weakref import ref

import pytest

from engine.protocol.keeping import ForgetTexts, KeepTexts
from engine.protocol.messages import UNHEARD_EXIT, ChatMessage, Count, Counted, Failed, Finished, Generate, Load, Ready
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.watching import Inspect, Inspected
from tests.engine.served import ERRORS, PATIENCE_SECONDS, Served, raises

MORE_THAN_FITS = 1 << 20  # bytes, into what lies between two processes


@pytest.fixture
def served() -> Iterator[Served]:
    served = Served()
    served.begin()
    yield served
    if not served.left:
        served.close()


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
def test_a_request_fails_alone(
    served: Served, error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(served.process._worker, "_events", raises(error))
        failed = served.ask(Generate(1, (), GenerateOptions()))
    assert failed == Failed(1, "The engine met an unexpected error: boom", "Details are in the engine's log.")
    assert type(error).__name__ + ": boom" in capsys.readouterr().err
    assert served.ask(Generate(2, (), GenerateOptions())).message == "No model is loaded."


def test_what_is_to_be_kept_and_forgotten_is_heard_without_an_answer(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[tuple[str, ...]] = []
    tokenizer = SimpleNamespace(encode_chat=raises(RuntimeError("boom")))
    engine: Any = Mock(forget=forgotten.append, tokenizer=tokenizer, context_tokens=100)
    engine.rest.return_value, engine.kept_complaint = False, ""  # whoever answers rests, where this takes 2 s
    served.ours.send(KeepTexts(5, "folder"))
    served.ours.send(ForgetTexts(("1",)))
    with monkeypatch.context() as patch:
        patch.setattr(served.process._desk, "engine", engine)
        served.ours.send(ForgetTexts(("2",)))
        assert served.ask(Count(1)) == Counted(1, 0, 0)
    assert served.process._worker.keeping == KeepTexts(5, "folder")
    assert forgotten[-1] == ("2",)


def test_without_a_model_nothing_is_counted(served: Served) -> None:
    assert served.ask(Count(1, (ChatMessage("user", "Hello"),), ("a", "b"))) == Counted(1, 0, 0, (0, 0))


@pytest.mark.parametrize("error", ERRORS, ids=["Exception", "BaseException"])
def test_a_count_fails_alone(served: Served, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SimpleNamespace(encode_chat=raises(error))
    tiny: Any = SimpleNamespace(tokenizer=tokenizer, context_tokens=100, write_pictures=list)
    with monkeypatch.context() as patch:
        patch.setattr(served.process._desk, "engine", tiny)
        assert served.ask(Count(1, (), ("a", "b"))) == Counted(1, 0, 0, (0, 0))
    assert served.ask(Count(2, (), ("a",))) == Counted(2, 0, 0, (0,))


def test_a_tokenizer_that_panics_costs_one_answer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pattern gives up on some texts only."""
    from engine.text.prompt import write_prompt
    from engine.text.tokenizer import Tokenizer
    from tests.engine.text.test_panics import FATAL, nasty_library

    nasty = Tokenizer(nasty_library("/models/nasty-1b"))
    loaded: Any = SimpleNamespace(
        tokenizer=nasty,
        context_tokens=100,
        prompt_of=lambda request: write_prompt(nasty, request.chat),
        write_pictures=list,
    )
    monkeypatch.setattr(served.process._desk, "engine", loaded)
    fatal, fine = (ChatMessage("user", FATAL),), (ChatMessage("user", "a"),)
    assert served.ask(Count(1, fatal)).tokens == 0
    assert served.ask(Count(2, fine)).tokens > 0
    assert served.ask(Generate(3, fatal, GenerateOptions())).message.startswith("The tokenizer of 'nasty-1b' failed: ")
    assert served.ask(Count(4, fine)).tokens > 0


class Endless:
    """A tokenizer whose pattern does not end before the test does."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def encode_chat(self, chat: object, tools: object, pictures: object) -> list[int]:
        self.begun.set()
        assert self.over.wait(PATIENCE_SECONDS)
        return []


class Counting:
    """As much of an engine as counting needs."""

    context_tokens = 100

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.write_pictures = list

    def close(self) -> None:
        """Nothing is open."""


def test_a_count_that_never_ends_does_not_keep_what_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.process.SECONDS_TO_COUNT", 0.2)
    served, tokenizer = Served(), Endless()
    served.begin()
    engine: Any = Counting(tokenizer)
    served.process._desk.engine, unloaded = engine, ref(engine)
    del engine
    try:
        numbers = count(1)
        while not tokenizer.begun.is_set():  # the time of a count begins before there is a thread that counts
            number = next(numbers)
            assert served.ask(Count(number)) == Counted(number, 0, 0)
        served.process._worker._unload()
        assert unloaded() is None
    finally:
        tokenizer.over.set()
        served.close()


def test_an_event_that_cannot_be_sent_is_a_failure(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    unsendable = lambda job: iter([Finished(job.request.id, lambda: None)])  # type: ignore[arg-type]  # noqa: E731
    monkeypatch.setattr(served.process._worker, "_events", unsendable)
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


def test_commands_are_read_while_an_event_waits_to_be_taken(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that sends takes no events meanwhile: both would wait for ever."""
    process = served.process
    monkeypatch.setattr(process._watcher, "answer", lambda _: Inspected(2, 0, 0, (), (), ()))
    sending = threading.Thread(target=process._send, args=(Failed(1, "x" * MORE_THAN_FITS, ""),), daemon=True)
    sending.start()
    while not process._sending.locked():
        time.sleep(0.001)
    served.ours.send(Inspect(2, 0, 0))  # which is answered by who listens
    asking = threading.Thread(target=served.ours.send, args=(Count(3, (), ("x" * MORE_THAN_FITS,)),), daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    assert not asking.is_alive(), "nobody reads commands"
    assert [type(served.ours.recv()) for _ in range(3)] == [Failed, Inspected, Counted]


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
