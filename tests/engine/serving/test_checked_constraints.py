"""Constraints of answers are tried before the engine's turn, beside the server's other work."""

import asyncio
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Generate
from engine.protocol.options import Constraint, GenerateOptions
from engine.protocol.reasoning import COMMON
from engine.protocol.serving import ServeOptions
from engine.serving.answers import answer
from engine.serving.context import Asker, Service
from engine.serving.desk import Desk

PATTERN = Constraint("regex", "a+")


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
