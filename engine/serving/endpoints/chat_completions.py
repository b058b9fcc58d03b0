"""`/v1/chat/completions`, in OpenAI's form."""

from fastapi import APIRouter, Response

from engine.serving.chat.completion import ChatWriter
from engine.serving.chat.request import ChatFields
from engine.serving.chat.resource import ChatCompletion
from engine.serving.chunk_stream import Chunk, ChunkStream
from engine.serving.context import AskerOf, ServiceOf
from engine.serving.event_stream import SENT
from engine.serving.model_names import require_served

router = APIRouter()


@router.post("/v1/chat/completions", response_model=ChatCompletion, response_model_exclude_unset=True, responses=SENT)
async def chat_completions(asked: ChatFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Answer a conversation, whole or as a stream of chunks."""
    model = require_served(service.engine, asked.model)
    writer = ChatWriter(asked, service, asker, model)
    await writer.prepare()
    if asked.stream:
        return await ChunkStream.begin(writer.chunks())
    async for _ in writer.chunks():
        pass
    return writer.whole()
