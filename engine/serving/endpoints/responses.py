"""`/v1/responses`: OpenAI's Responses API. Nothing is stored: every request holds its whole conversation."""

import asyncio
from weakref import ref

from fastapi import APIRouter, Response

from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.endpoints.long_bodies import LongBodies
from engine.serving.event_stream import EVENTS, EventFormat, EventStream, named
from engine.serving.question import Question, events_of
from engine.serving.responses import resource
from engine.serving.responses.events import ResponseWriter
from engine.serving.responses.input_items import chat_of
from engine.serving.responses.request import ResponsesFields
from engine.serving.responses.resource import ResponseResource

router = APIRouter(route_class=LongBodies)


@router.post("/v1/responses", response_model=ResponseResource, responses=EVENTS)
async def respond(asked: ResponsesFields, service: ServiceOf, asker: AskerOf) -> ResponseResource | Response:
    """Answer, whole or as a stream of typed events."""
    asked.check()
    writer = ResponseWriter(resource.begin(asked, service.model(asked.model)))
    question = await asyncio.to_thread(question_of, asked, service)
    events = events_of(service, asker, question, writer.follow)
    if asked.stream:
        return await EventStream.begin(events, EventFormat(named, lambda error: named(writer.fail(error))))
    async for _ in events:
        pass
    return writer.response


def question_of(asked: ResponsesFields, service: Service) -> Question:
    """What is asked. Raises `InputError`, and `NoModel`."""
    chat = chat_of(asked.input, asked.instructions or "", service.engine.reasoning_marks)
    options = asked.options(asked.max_output_tokens, constraint=asked.constraint())
    return Question(ref(service.engine), chat, options, asked.offered, asked.choice, asked.template_values)
