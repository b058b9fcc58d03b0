"""llama-server's own addresses, which editors ask: texts to go on with, gaps to fill in, and what is loaded."""

import asyncio
from functools import partial

from fastapi import Response

from engine.serving.chat.request import ChatFields
from engine.serving.chat.turns import chat_of
from engine.serving.context import Asker, AskerOf, Service, ServiceOf
from engine.serving.event_stream import EVENTS, EventFormat, EventStream, SentEvent, data_of
from engine.serving.guard.errors import error_event
from engine.serving.guard.routes import Router
from engine.serving.llama_server.completion import CompletionWriter
from engine.serving.llama_server.request import CompletionFields, InfillFields
from engine.serving.llama_server.resource import (
    DefaultSettings,
    LlamaCompletion,
    Props,
    WrittenTemplate,
    props_of,
    slot_of,
)
from engine.serving.pictures import refuse_pictures_in_text
from engine.serving.question import require_fit

router = Router()
Completions = LlamaCompletion | list[LlamaCompletion]
FORMAT = EventFormat(data_of, partial(error_event, "openai"))


@router.post("/completions", response_model=Completions, response_model_exclude_unset=True, responses=EVENTS)
@router.post("/completion", response_model=Completions, response_model_exclude_unset=True, responses=EVENTS)
async def completion(asked: CompletionFields, service: ServiceOf, asker: AskerOf) -> object:
    """Go on with texts as they stand, whole or as a stream of events."""
    return await _written(asked, service, asker)


@router.post("/infill", response_model=Completions, response_model_exclude_unset=True, responses=EVENTS)
async def infill(asked: InfillFields, service: ServiceOf, asker: AskerOf) -> object:
    """Write what stands between two texts, whole or as a stream of events."""
    return await _written(asked, service, asker)


@router.get("/props")
async def props(service: ServiceOf) -> Props:
    """What is loaded, and how it answers where nothing is asked for."""
    return props_of(service.engine, service.desk)


@router.get("/slots")
async def slots(service: ServiceOf) -> list[DefaultSettings]:
    """Whether something is being answered: one thing at a time."""
    return [slot_of(service.engine, service.desk)]


@router.post("/apply-template")
async def apply_template(asked: ChatFields, service: ServiceOf) -> WrittenTemplate:
    """A conversation as the model reads it, which `/completion` can go on with."""
    service.model(asked.model)
    engine = service.engine
    chat = await asyncio.to_thread(chat_of, asked.messages, engine.reasoning_marks)
    require_fit(chat, asked.offered)
    if any(turn.pictures for turn in chat):
        refuse_pictures_in_text()
    write = partial(engine.tokenizer.write_whole, chat, asked.offered, asked.template_values)
    return WrittenTemplate(prompt=await service.read(write))


async def _written(
    asked: CompletionFields | InfillFields, service: Service, asker: Asker
) -> Response | SentEvent | list[SentEvent]:
    writer = CompletionWriter(asked, service, asker, service.model(asked.model))
    await writer.prepare()
    if asked.stream:
        return await EventStream.begin(writer.events(), FORMAT)
    async for _ in writer.events():
        pass
    return writer.whole()
