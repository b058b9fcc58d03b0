"""`/v1/messages`: Anthropic's Messages API, and how long the prompt of a message would be."""

import asyncio
from functools import partial
from weakref import ref

from fastapi import Response

from engine.protocol.options import GenerateOptions
from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.event_stream import EVENTS, EventFormat, EventStream, named
from engine.serving.guard.errors import error_event
from engine.serving.guard.routes import Router
from engine.serving.messages.blocks import chat_of
from engine.serving.messages.events import MessageWriter
from engine.serving.messages.request import CountFields, MessagesFields
from engine.serving.messages.resource import MessageResource, TokenCount
from engine.serving.question import Question, events_of

router = Router()
FORMAT = EventFormat(named, partial(error_event, "anthropic"))


@router.post("/v1/messages", response_model=MessageResource, responses=EVENTS)
async def message(asked: MessagesFields, service: ServiceOf, asker: AskerOf) -> MessageResource | Response:
    """Answer, whole or as a stream of events."""
    model = service.model(asked.model)
    asked.refuse_rounds()
    options = asked.options(asked.max_tokens, asked.stop_sequences, constraint=asked.constraint())
    writer = MessageWriter(model, options.stop, asked.shows_thoughts)
    events = events_of(service, asker, await question_of(asked, service, options), writer.follow)
    if asked.stream:
        return await EventStream.begin(events, FORMAT)
    async for _ in events:
        pass
    return writer.message


@router.post("/v1/messages/count_tokens")
async def count_tokens(asked: CountFields, service: ServiceOf) -> TokenCount:
    """How many tokens would be read before an answer."""
    service.model(asked.model)
    question = await question_of(asked, service, GenerateOptions())
    question.check(service.engine)
    prompt = await service.read(partial(service.engine.prompt_of, question.request(0)))
    return TokenCount(input_tokens=len(prompt.tokens))


async def question_of(asked: CountFields, service: Service, options: GenerateOptions) -> Question:
    """What is asked. Raises `InputError`, and `NoModel`."""
    made_for, marks = ref(service.engine), service.engine.reasoning_marks
    chat = await asyncio.to_thread(chat_of, asked.messages, asked.system, marks)
    return Question(made_for, chat, options, asked.offered, asked.choice, asked.template_values)
