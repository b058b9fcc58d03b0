"""`/v1/chat/completions` and `/v1/completions`, in OpenAI's form; the latter's texts have no chat template."""

from fastapi import Response

from engine.serving.chat.completion import ChatWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chat.resource import ChatCompletion
from engine.serving.chunk_stream import CHUNKS, Chunk
from engine.serving.completions.completion import TextWriter
from engine.serving.completions.request import CompletionFields
from engine.serving.completions.resource import TextCompletion
from engine.serving.context import AskerOf, ServiceOf
from engine.serving.event_stream import EVENTS, EventStream
from engine.serving.guard.routes import Router

router = Router()


@router.post("/v1/chat/completions", response_model=ChatCompletion, response_model_exclude_unset=True, responses=EVENTS)
async def chat_completions(asked: ChatFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Answer a conversation, whole or as a stream of chunks."""
    model = service.model(asked.model)
    return await _written(ChatWriter(asked, service, asker, model), bool(asked.stream))


@router.post("/v1/completions", response_model=TextCompletion, response_model_exclude_unset=True, responses=EVENTS)
async def completions(asked: CompletionFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Go on with texts, whole or as a stream of chunks."""
    model = service.model(asked.model)
    return await _written(TextWriter(asked, service, asker, model), bool(asked.stream))


async def _written(writer: ChatWriter | TextWriter, as_stream: bool) -> Response | Chunk:
    await writer.prepare()
    if as_stream:
        return await EventStream.begin(writer.chunks(), CHUNKS)
    async for _ in writer.chunks():
        pass
    return writer.whole()
