"""What a request of any API comes down to: a conversation, how it is to be answered, and the tools there are for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from engine.protocol.messages import ChatMessage, Generate
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import Tool, ToolChoice
from engine.serving.answers import Step, answer
from engine.serving.context import Asker, Service


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


async def answer_to(service: Service, asker: Asker, question: Question) -> AsyncGenerator[Step, None]:
    """The steps of the answer, with the calls in it; see `answer`. Raises `InputError` for a choice of no tool."""
    engine, tools = service.engine, question.request(0).tools
    divider = engine.divider(tools) if tools else None
    if tools and (held := await asyncio.to_thread(engine.tool_constraint, tools, question.choice)):
        question = replace(question, options=replace(question.options, constraint=held))
    async with aclosing(answer(service, asker, question.request, divider)) as steps:
        async for step in steps:
            yield step
