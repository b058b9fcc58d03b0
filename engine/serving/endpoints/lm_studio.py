"""LM Studio's own addresses: `/api/v0`, and of `/api/v1` which models there are."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Response

from engine.serving.answers import Alive
from engine.serving.bounds import Name
from engine.serving.chat.completion import ChatWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chunk_stream import CHUNKS, Chunk
from engine.serving.completions.completion import TextWriter
from engine.serving.completions.request import CompletionFields
from engine.serving.context import AskerOf, Service, ServiceOf
from engine.serving.endpoints.sampling_fields import Asked
from engine.serving.event_stream import EVENTS, EventStream
from engine.serving.guard.routes import Router
from engine.serving.lm_studio.resource import (
    AnsweringModel,
    ListedModels,
    LoadedModel,
    StudioChatCompletion,
    StudioModel,
    StudioModels,
    StudioTextCompletion,
    answering_model,
    figures_of,
    listed_model,
    loaded_model,
    studio_model,
)

router = Router()


class LoadFields(Asked):
    """Which model is wanted. How it is loaded is decided elsewhere."""

    model: Name


@router.get("/api/v0/models")
async def models(service: ServiceOf) -> StudioModels:
    """What is loaded: other models of this computer cannot be asked."""
    engine = service.desk.engine
    return StudioModels(data=[await service.read(lambda: studio_model(engine))] if engine else [])


@router.get("/api/v0/models/{name:path}")
async def model(name: str, service: ServiceOf) -> StudioModel:
    """The loaded model, if that is its name."""
    service.model(name)
    engine = service.engine
    return await service.read(lambda: studio_model(engine))


@router.post(
    "/api/v0/chat/completions",
    response_model=StudioChatCompletion,
    response_model_exclude_unset=True,
    responses=EVENTS,
)
async def chat_completions(asked: ChatFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Answer a conversation, as at `/v1/chat/completions`."""
    model = service.model(asked.model)
    return await _written(ChatWriter(asked, service, asker, model), service, bool(asked.stream))


@router.post(
    "/api/v0/completions", response_model=StudioTextCompletion, response_model_exclude_unset=True, responses=EVENTS
)
async def completions(asked: CompletionFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Go on with texts, as at `/v1/completions`."""
    model = service.model(asked.model)
    return await _written(TextWriter(asked, service, asker, model), service, bool(asked.stream))


@router.get("/api/v1/models")
async def listed_models(service: ServiceOf) -> ListedModels:
    """What is loaded, in the later form."""
    engine = service.desk.engine
    return ListedModels(models=[await service.read(lambda: listed_model(engine))] if engine else [])


@router.post("/api/v1/models/load")
async def load(asked: LoadFields, service: ServiceOf) -> LoadedModel:
    """The loaded model is there already; there is no other."""
    service.model(asked.model)
    return loaded_model(service.engine)


async def _written(writer: ChatWriter | TextWriter, service: Service, as_stream: bool) -> Response | Chunk:
    await writer.prepare()
    chunks = _with_figures(writer, answering_model(service.engine))
    if as_stream:
        return await EventStream.begin(chunks, CHUNKS)
    last: Chunk = {}
    async for chunk in chunks:
        last = last if isinstance(chunk, Alive) else chunk
    return {**writer.whole(), **{name: last[name] for name in ("stats", "model_info", "runtime")}}


async def _with_figures(writer: ChatWriter | TextWriter, model: AnsweringModel) -> AsyncGenerator[Chunk | Alive, None]:
    """The chunks; the last one of each choice has its figures."""
    async with aclosing(writer.chunks()) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Alive) or "timings" not in chunk:
                yield chunk
            else:
                told = figures_of(model, writer.newest.finished, writer.newest.has_called)
                yield {**chunk, **told.model_dump()}
