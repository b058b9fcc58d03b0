"""Engines that do what no small model does: call a tool whatever they are asked, or fail in the middle."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.engine import Engine
from engine.protocol.messages import Event, Generate, Round
from engine.protocol.tools import ToolCall
from engine.text.pieces import CallArguments, CallBegun, Piece
from engine.text.prompt import Prompt

FLY = ToolCall("call_0", "fly", '{"to":"Rome"}')


class Hearing:
    """Hears every request that an engine is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Generate] = []
        prompt_of = Engine.prompt_of

        def hear(engine: Engine, request: Generate) -> Prompt:
            self.asked.append(request)
            return prompt_of(engine, request)

        monkeypatch.setattr(Engine, "prompt_of", hear)


def break_after_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every answer fail once it has begun."""
    generate = Engine.generate

    def broken(engine: Engine, *arguments: Any) -> Iterator[Event]:
        for event in generate(engine, *arguments):
            yield event
            if isinstance(event, Round):
                raise RuntimeError("the secret of the house")

    monkeypatch.setattr(Engine, "generate", broken)


class Flying:
    """A `Divider` that takes the whole answer for one call."""

    def __init__(self) -> None:
        self._has_called = False

    def push(self, text: str) -> list[Piece]:
        """The call, with the first text that there is."""
        if self._has_called:
            return []
        self._has_called = True
        return [
            CallBegun(0, FLY.id, FLY.name),
            *(CallArguments(0, part) for part in (FLY.arguments[:4], FLY.arguments[4:])),
        ]

    def flush(self) -> list[Piece]:
        """Nothing is held back."""
        return []
