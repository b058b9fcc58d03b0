"""A chat completion as it is written: the chunks of all its choices, and the whole."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from weakref import ref

from engine.serving.answers import Alive
from engine.serving.chat.choice import ChoiceWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from engine.serving.chunk_stream import Chunk, head_of
from engine.serving.context import Asker, Service
from engine.serving.figures import timings_of, usage_of
from engine.serving.question import Question, held_to_its_choice, steps_of


class ChatWriter:
    """Writes the completion of one request: its choices, one after the other."""

    def __init__(self, asked: ChatFields, service: Service, asker: Asker, model: str) -> None:
        """`model`: what the loaded one is called. Raises `InputError` for fields that contradict each other."""
        self._asked, self._service, self._asker = asked, service, asker
        engine = service.engine
        self._head = head_of("chatcmpl", model)
        chat = chat_of(asked.messages, engine.reasoning_marks)
        self._question = Question(ref(engine), chat, asked.generation(0), asked.offered, asked.choice)
        self._choices = [ChoiceWriter(index, asked, engine.end_tokens) for index in range(asked.choices)]

    async def prepare(self) -> None:
        """What takes time, beside the server's other work. Raises `InputError` for what cannot be asked."""
        self._question = await held_to_its_choice(self._service, self._question)

    async def chunks(self) -> AsyncGenerator[Chunk | Alive, None]:
        """All choices as they are written."""
        usage = {"usage": None} if self._asked.includes_usage else {}
        head = {**self._head, "object": "chat.completion.chunk", **usage}
        for index, choice in enumerate(self._choices):
            asker = replace(self._asker, is_admitted=index > 0)
            async with aclosing(steps_of(self._service, asker, self._of_choice(index))) as steps:
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

    def _of_choice(self, index: int) -> Question:
        held = self._question.options.constraint
        return replace(self._question, options=replace(self._asked.generation(index), constraint=held))

    def _figures(self) -> Chunk:
        last = self._choices[-1]
        return {
            "usage": usage_of([[choice.statistics for choice in self._choices]]).model_dump(),
            "timings": timings_of(last.statistics, last.accepted_nodes).model_dump(),
        }
