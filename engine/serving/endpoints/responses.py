"""`/v1/responses`: OpenAI's Responses API. Nothing is stored: every request holds its whole conversation."""

import asyncio
from weakref import ref

from fastapi import Response

from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.event_stream import EVENTS, EventFormat, EventStream, named
from engine.serving.guard.routes import Router
from engine.serving.question import Question, events_of
from engine.serving.responses import resource
from engine.serving.responses.events import ResponseWriter
from engine.serving.responses.input_items import chat_of
from engine.serving.responses.request import ResponsesFields
from engine.serving.responses.resource import ResponseResource

router = Router()


@router.post("/v1/responses", response_model=ResponseResource, responses=EVENTS)
async def respond(asked: ResponsesFields, service: ServiceOf, asker: AskerOf) -> ResponseResource | Response:
    """Answer, whole or as a stream of typed events."""
    asked.check()
    writer = ResponseWriter(resource.begin(asked, service.model(asked.model)))
    events = events_of(service, asker, await question_of(asked, service), writer.follow)
    if asked.stream:
        return await EventStream.begin(events, EventFormat(named, lambda error: named(writer.fail(error))))
    async for _ in events:
        pass
    return writer.response


async def question_of(asked: ResponsesFields, service: Service) -> Question:
    """What is asked. Raises `InputError`, and `NoModel`."""
    made_for, marks = ref(service.engine), service.engine.reasoning_marks
    options = asked.options(asked.max_output_tokens, constraint=asked.constraint())
    chat = await asyncio.to_thread(chat_of, asked.input, asked.instructions or "", marks)
    return Question(made_for, chat, options, asked.offered, asked.choice, asked.template_values)
