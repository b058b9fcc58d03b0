"""Constraints of answers are tried before the engine's turn, beside the server's other work."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from weakref import ref

import pytest

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Generate
from engine.protocol.options import Constraint, GenerateOptions
from engine.protocol.reasoning import COMMON
from engine.protocol.serving import ServeOptions
from engine.serving.answers import answer
from engine.serving.context import TRIALS, Asker, Service
from engine.serving.desk import Desk
from engine.serving.question import Question, held_to_its_choice

PATTERN = Constraint("regex", "a+")
PATIENCE_SECONDS = 60


class Trials:
    """An engine that is never asked: what its constraints were tried by, and how many requests waited then."""

    reasoning_marks = COMMON

    def __init__(self, desk: Desk) -> None:
        self.tried: list[tuple[Constraint, int]] = []
        self.threads: set[threading.Thread] = set()
        self._desk = desk

    def check_constraint(self, constraint: Constraint) -> None:
        """None can be used."""
        self.tried.append((constraint, self._desk.waiting))
        self.threads.add(threading.current_thread())
        raise InputError("it is too complex", "ask less")


def ask(desk: Desk, constraint: Constraint | None) -> None:
    """Wait for the first step of an answer, as long as that takes no time."""
    options = GenerateOptions(constraint=constraint)
    service = Service(desk, ServeOptions(port=0), Mock())

    async def first() -> None:
        steps = answer(service, Asker("a"), lambda number: Generate(number, (ChatMessage("user", "Hm"),), options))
        waiting = asyncio.ensure_future(anext(steps))
        while not waiting.done() and not desk.waiting:
            await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    asyncio.run(first())


def test_what_cannot_be_used_is_refused_without_a_turn() -> None:
    desk = Desk()
    engine: Any = Trials(desk)
    desk.engine = engine
    with pytest.raises(InputError, match="too complex"):
        ask(desk, PATTERN)
    assert engine.tried == [(PATTERN, 0)]
    assert threading.current_thread() not in engine.threads, "the server's own thread goes on"


def test_answers_without_one_wait_for_their_turn_at_once() -> None:
    desk = Desk()
    engine: Any = Trials(desk)
    desk.engine = engine
    with pytest.raises(asyncio.CancelledError):
        ask(desk, None)
    assert engine.tried == []


@contextmanager
def no_thread_to_spare() -> Iterator[None]:
    """The one thread that the running loop lends is taken."""
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(pool := ThreadPoolExecutor(1))
    pool.submit(gate.wait, PATIENCE_SECONDS)
    try:
        yield
    finally:
        gate.set()


def test_a_question_without_tools_waits_for_no_thread() -> None:
    desk = Desk()
    engine: Any = Trials(desk)
    engine.tokenizer = SimpleNamespace()
    desk.engine = engine
    question = Question(ref(engine), (ChatMessage("user", "Hm"),), GenerateOptions())

    async def hold() -> Question:
        with no_thread_to_spare():
            return await asyncio.wait_for(held_to_its_choice(Service(desk, ServeOptions(port=0), Mock()), question), 1)

    assert asyncio.run(hold()) is question


def test_few_constraints_are_tried_at_once_and_take_no_thread_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the clients of the first have left: their trials run on."""
    desk, gate, begun = Desk(), threading.Event(), threading.Semaphore(0)
    engine: Any = Trials(desk)
    desk.engine = engine
    service = Service(desk, ServeOptions(port=0), Mock())
    options, try_out = GenerateOptions(constraint=PATTERN), engine.check_constraint

    def try_slowly(constraint: Constraint) -> None:
        begun.release()
        gate.wait(PATIENCE_SECONDS)
        try_out(constraint)

    async def ask_many() -> None:
        def first() -> asyncio.Future[Any]:
            steps = answer(service, Asker("a"), lambda number: Generate(number, (), options))
            return asyncio.ensure_future(anext(steps))

        leaving = [first() for _ in range(TRIALS)]
        for _ in leaving:
            assert await asyncio.to_thread(begun.acquire, timeout=PATIENCE_SECONDS)
        for each in leaving:
            each.cancel()
        staying = [first() for _ in range(TRIALS)]
        assert not await asyncio.to_thread(begun.acquire, timeout=0.2)
        gate.set()
        ends = await asyncio.gather(*leaving, *staying, return_exceptions=True)
        assert [type(each) for each in ends] == [asyncio.CancelledError] * TRIALS + [InputError] * TRIALS

    monkeypatch.setattr(engine, "check_constraint", try_slowly)
    asyncio.run(ask_many())
