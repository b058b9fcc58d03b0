"""`/metrics`: the server in figures, for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from engine.serving.context import ServiceOf
from engine.serving.guard.metrics import CONTENT_TYPE

router = APIRouter()


class MetricsResponse(PlainTextResponse):
    """Text in the format that the version in its type says."""

    media_type = CONTENT_TYPE


@router.get("/metrics", response_class=MetricsResponse)
async def metrics(service: ServiceOf) -> MetricsResponse:
    """Counters since the server started, and what is loaded and waits now."""
    engine = service.desk.engine
    model = (("target", engine.name), ("draft", engine.options.draft)) if engine else None
    return MetricsResponse(service.metrics.text(service.desk.waiting, model))
