"""What a request of any API comes down to: a conversation, how it is to be answered, and the tools there are for it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from weakref import ref

from engine.protocol.messages import ChatMessage, Generate
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.answers import Alive, Step, answer
from engine.serving.context import Asker, Service
from engine.serving.event_stream import Event


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation to go on with."""

    chat: tuple[ChatMessage, ...]
    options: GenerateOptions
    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)

    def request(self, number: int) -> Generate:
        """As the engine is asked it. An answer that must not call tools does not hear of them."""
        return Generate(number, self.chat, self.options, () if self.choice.mode == "none" else self.tools)


async def events_of(
    service: Service, asker: Asker, question: Question, follow: Callable[[Step], Iterable[Event | Alive]]
) -> AsyncGenerator[Event | Alive, None]:
    """The events of the answer: what `follow` makes of its steps, which tell calls of tools too; see `answer`.

    Raises `InputError` for a choice of no tool, and for tools that are none.
    """
    made_for, tools = ref(service.engine), question.request(0).tools  # no more than a reference: weights are large
    if held := await asyncio.to_thread(service.engine.tool_constraint, tools, question.choice) if tools else None:
        question = replace(question, options=replace(question.options, constraint=held))
    divider = service.desk.engine_for(made_for).divider(tools)
    async with aclosing(answer(service, asker, question.request, divider, made_for)) as steps:
        async for step in steps:
            for event in follow(step):
                yield event
