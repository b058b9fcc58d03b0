"""What a request of any API comes down to: a conversation, how it is to be answered, and the tools there are for it."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import ReferenceType

from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Generate, TemplateValues
from engine.protocol.options import GenerateOptions
from engine.protocol.sentences import Amount, say, shown
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.answers import SECONDS_ALIVE, Alive, Step, answer
from engine.serving.bounds import MOST_TEXT
from engine.serving.context import Asker, Service
from engine.serving.event_stream import SentEvent
from engine.serving.guard.errors import ApiError
from engine.serving.pictures import require_pictures_read
from engine.text.calling import divider_for, tool_constraint
from engine.text.pieces import CallArguments, CallBegun, Divider, Piece
from engine.text.prompt import pictures_of

if TYPE_CHECKING:
    from engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation to go on with. `made_for`: the engine that is asked; a reference, as weights are large.

    `values`: what else the model's chat template is told.
    """

    made_for: "ReferenceType[Engine]"
    chat: tuple[ChatMessage, ...]
    options: GenerateOptions
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    values: TemplateValues = ()

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that the model hears of: none where it must not call any, and none that it is not allowed."""
        if self.choice.mode == "none":
            return ()
        allowed = self.choice.allowed
        return tuple(tool for tool in self.tools if tool.name in allowed) if allowed else self.tools

    def check(self, engine: "Engine") -> None:
        """Raise `InputError` for pictures that this engine cannot read, and if an allowed tool is none of these.

        Raises `ApiError` (413) for too much text.
        """
        require_fit(self.chat, self.tools)
        require_pictures_read(engine, self.chat)
        names = {tool.name for tool in self.tools}
        if unknown := [name for name in self.choice.allowed if name not in names]:
            words = say("There is no tool {name} to call.", name=shown(unknown[0]))
            raise InputError(words, say("Name one of the tools of the request."))

    def request(self, number: int) -> Generate:
        """As the engine is asked it."""
        return Generate(number, self.chat, self.options, self.offered, template_values=self.values)


def require_fit(chat: Sequence[ChatMessage], tools: Sequence[Tool]) -> None:
    """Raise `ApiError` for more text than a request may hold: objects in it may have base64 that is no picture."""
    calls = sum(len(call.arguments) for turn in chat for call in turn.tool_calls)
    told = sum(len(tool.parameters) + len(tool.description) for tool in tools)
    if sum(len(turn.content) for turn in chat) + calls + told > MOST_TEXT:
        words = say("The conversation has more than {most} characters.", most=Amount(f"{MOST_TEXT:,}"))
        raise ApiError(413, words, say("Send less at once."), code="request_too_large")


class FirstCall:
    """A `Divider` without the calls behind the first, for clients that run no more than one at a time."""

    def __init__(self, divider: Divider) -> None:
        self._divider = divider

    def push(self, text: str) -> list[Piece]:
        """Take more text; returns what it certainly is."""
        return _without_further_calls(self._divider.push(text))

    def flush(self) -> list[Piece]:
        """The end: returns what was held back."""
        return _without_further_calls(self._divider.flush())


def _without_further_calls(pieces: list[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not isinstance(piece, CallBegun | CallArguments) or piece.place == 0]


async def held_to_its_choice(service: Service, question: Question) -> Question:
    """The question with a constraint that holds the calls of its answer to their tools' schemas.

    Raises `InputError` for a choice of no tool, for tools that are none, for a constraint that cannot be used, and for
    pictures that are none or that the model does not read: before the question's turn, with a status.
    """
    question.check(service.desk.engine_for(question.made_for))
    if shown := pictures_of(question.chat):
        await service.read(partial(service.desk.engine_for(question.made_for).write_pictures, shown))
    tokenizer = service.desk.engine_for(question.made_for).tokenizer
    if not question.offered and question.choice.mode != "required":
        return question  # without waiting for a thread
    find = partial(tool_constraint, tokenizer, question.offered, question.choice, question.options.constraint)
    held = await asyncio.get_running_loop().run_in_executor(service.trials, find)
    return replace(question, options=replace(question.options, constraint=held))


def steps_of(service: Service, asker: Asker, question: Question) -> AsyncGenerator[Step, None]:
    """The steps of the answer, which tell calls of tools too; see `answer`."""
    divider = divider_for(service.desk.engine_for(question.made_for).tokenizer, question.offered)
    if not question.choice.parallel:
        divider = FirstCall(divider)
    return answer(service, asker, question.request, divider, question.made_for)


async def events_of(
    service: Service, asker: Asker, question: Question, follow: Callable[[Step], Iterable[SentEvent | Alive]]
) -> AsyncGenerator[SentEvent | Alive, None]:
    """The events of the answer: what `follow` makes of its steps. Raises what `held_to_its_choice` and `answer` do.

    Steps of which nothing is told, such as reasoning that the client does not want, are signs of life now and then.
    """
    question = await held_to_its_choice(service, question)
    last = time.monotonic()
    async with aclosing(steps_of(service, asker, question)) as steps:
        async for step in steps:
            events, now = list(follow(step)), time.monotonic()
            if not events and now - last > SECONDS_ALIVE:
                events = list(follow(Alive()))
            last = now if events else last
            for event in events:
                yield event
