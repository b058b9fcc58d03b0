"""`/v1/completions`, in OpenAI's form: texts as they stand, without a chat template."""

from fastapi import APIRouter, Response

from engine.serving.chunk_stream import CHUNKS, Chunk
from engine.serving.completions.completion import TextWriter
from engine.serving.completions.request import CompletionFields
from engine.serving.completions.resource import TextCompletion
from engine.serving.context import AskerOf, ServiceOf
from engine.serving.event_stream import EVENTS, EventStream
from engine.serving.model_names import require_served

router = APIRouter()


@router.post("/v1/completions", response_model=TextCompletion, response_model_exclude_unset=True, responses=EVENTS)
async def completions(asked: CompletionFields, service: ServiceOf, asker: AskerOf) -> Response | Chunk:
    """Go on with texts, whole or as a stream of chunks."""
    writer = TextWriter(asked, service, asker, require_served(service.engine, asked.model))
    await writer.prepare()
    if asked.stream:
        return await EventStream.begin(writer.chunks(), CHUNKS)
    async for _ in writer.chunks():
        pass
    return writer.whole()
