"""A chat completion as it is written: the chunks of all its choices, and the whole."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from weakref import ref

from engine.protocol.messages import Generate
from engine.protocol.options import Constraint
from engine.serving.answers import Alive, answer
from engine.serving.chat.choice import ChoiceWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from engine.serving.chunk_stream import Chunk, head_of
from engine.serving.context import Asker, Service
from engine.serving.figures import timings_of, usage_of


class ChatWriter:
    """Writes the completion of one request: its choices, one after the other."""

    def __init__(self, asked: ChatFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called."""
        self._asked, self._service, self._asker = asked, service, asker
        engine = service.engine
        self._made_for = ref(engine)  # no more than a reference: weights are large, and another model may be loaded
        self._head = head_of("chatcmpl", model)
        self._chat = chat_of(asked.messages, engine.reasoning_marks)
        self._form: Constraint | None = None
        self._choices = [ChoiceWriter(index, asked, engine.end_tokens) for index in range(asked.choices)]

    async def prepare(self) -> None:
        """What takes time, beside the server's other work. Raises `InputError` for what cannot be asked."""
        self._form = await asyncio.to_thread(self._asked.form, self._service.desk.engine_for(self._made_for))

    async def chunks(self) -> AsyncGenerator[Chunk | Alive, None]:
        """All choices as they are written."""
        usage = {"usage": None} if self._asked.includes_usage else {}
        head = {**self._head, "object": "chat.completion.chunk", **usage}
        for index, choice in enumerate(self._choices):
            ask = partial(self._request, index)
            behind = self._service.desk.engine_for(self._made_for).divider(self._asked.offered)
            async with aclosing(answer(self._service, self._asker, ask, behind, self._made_for)) as steps:
                async for step in steps:
                    if isinstance(step, Alive):
                        yield step
                    for part in choice.take(step):
                        yield {**head, **part}
        if usage:
            yield {**head, "choices": [], **self._figures()}

    def whole(self) -> Chunk:
        """The completion, once all its chunks were told."""
        choices = [choice.choice() for choice in self._choices]
        return {**self._head, "object": "chat.completion", "choices": choices, **self._figures()}

    def _request(self, index: int, request: int) -> Generate:
        options = self._asked.generation(index, self._form)
        return Generate(request, self._chat, options, self._asked.offered)

    def _figures(self) -> Chunk:
        last = self._choices[-1]
        return {
            "usage": usage_of([[choice.statistics for choice in self._choices]]).model_dump(),
            "timings": timings_of(last.statistics, last.accepted_nodes).model_dump(),
        }
