"""Engines that do what no small model does: call a tool whatever they are asked, or fail in the middle."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.engine import Engine
from engine.protocol.messages import Event, Generate, Round
from engine.protocol.options import Constraint
from engine.protocol.tools import ToolCall
from engine.text.grammars.constrained_answer import state_of_answer
from engine.text.grammars.grammar import NOTHING, AnswerState
from engine.text.grammars.reasoning_first import Masks
from engine.text.pieces import CallArguments, CallBegun, Piece
from engine.text.prompt import Prompt
from engine.text.tokenizer import Tokenizer

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


class Begun:
    """The state of an answer whose first tokens are given; what follows them is free, or held as `state` has it."""

    is_possible = True

    def __init__(self, masks: Masks, tokens: Sequence[int], state: AnswerState) -> None:
        self._masks, self._tokens, self._state = masks, tokens, state

    def follow(self, token: int) -> AnswerState:
        """The next of the tokens, or what comes behind the last one."""
        first, *others = self._tokens
        after = self._state.follow(token)
        return NOTHING if token != first else Begun(self._masks, others, after) if others else after

    def allowed(self) -> bytes | None:
        """That one token."""
        return self._masks.also(NOTHING, self._tokens[:1])

    def settle(self) -> None:
        """Nothing to forget."""


def begin_answers_with(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have the model itself write this text first, whatever it is asked; only of answers that a constraint is for."""

    def begun(tokenizer: Tokenizer, prompt: Prompt, constraint: Constraint) -> AnswerState:
        tokens = tokenizer.encode_onward(text)
        return Begun(tokenizer.grammar_masks, tokens, state_of_answer(tokenizer, prompt, constraint))

    monkeypatch.setattr("engine.answering.state_of_answer", begun)


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
