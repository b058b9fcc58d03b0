"""A completion as it is written: the chunks of all its choices, and the whole."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from weakref import ref

from engine.protocol.messages import Generate
from engine.serving.answers import Alive, answer
from engine.serving.chunk_stream import Chunk, head_of
from engine.serving.completions.choice import TextChoiceWriter
from engine.serving.completions.request import CompletionFields
from engine.serving.context import Asker, Service
from engine.serving.figures import timings_of, usage_of


class TextWriter:
    """Writes the completions of one request: of every prompt its choices, one after the other."""

    def __init__(self, asked: CompletionFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called. Raises `InputError` for what is not to be had here."""
        asked.check()
        self._asked, self._service, self._asker = asked, service, asker
        self._head = {**head_of("cmpl", model), "object": "text_completion"}
        self._made_for = ref(service.engine)  # no more than a reference: weights are large
        ends, count = service.engine.end_tokens, len(asked.prompts) * asked.choices
        self._choices = [TextChoiceWriter(index, asked, ends) for index in range(count)]

    async def prepare(self) -> None:
        """Read the prompts, beside the server's other work. Raises `InputError` where one of several cannot be read."""
        if len(self._asked.prompts) > 1:  # a single one is read when it is answered
            engine = self._service.desk.engine_for(self._made_for)
            for index in range(0, len(self._choices), self._asked.choices):
                await asyncio.to_thread(engine.require_readable, self._request(index, 0))

    async def chunks(self) -> AsyncGenerator[Chunk | Alive, None]:
        """All choices as they are written."""
        usage = {"usage": None} if self._asked.includes_usage else {}
        for index, choice in enumerate(self._choices):
            ask = partial(self._request, index)
            asker = replace(self._asker, is_admitted=index > 0)
            async with aclosing(answer(self._service, asker, ask, made_for=self._made_for)) as steps:
                async for step in steps:
                    if isinstance(step, Alive):
                        yield step
                    for part in choice.take(step):
                        yield {**self._head, **usage, **part}
        if usage:
            yield {**self._head, "choices": [], **self._figures()}

    def whole(self) -> Chunk:
        """The completion, once all its chunks were told."""
        return {**self._head, "choices": [choice.choice() for choice in self._choices], **self._figures()}

    def _request(self, index: int, request: int) -> Generate:
        prompt, choice = divmod(index, self._asked.choices)
        return Generate(request, (), self._asked.generation(choice), raw=self._asked.prompts[prompt])

    def _figures(self) -> Chunk:
        last, each = self._choices[-1], self._asked.choices
        statistics = [choice.statistics for choice in self._choices]
        by_prompt = [statistics[begin : begin + each] for begin in range(0, len(statistics), each)]
        return {
            "usage": usage_of(by_prompt).model_dump(),
            "timings": timings_of(last.statistics, last.accepted_nodes).model_dump(),
        }
