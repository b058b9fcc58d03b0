"""`/metrics`: the server in figures, for Prometheus."""

from typing import TYPE_CHECKING

from fastapi.responses import PlainTextResponse

from engine.serving.context import ServiceOf
from engine.serving.guard.metrics import CONTENT_TYPE, Labels
from engine.serving.guard.routes import Router
from engine.serving.model_names import served_name

if TYPE_CHECKING:
    from engine.engine import Engine

router = Router()


class MetricsResponse(PlainTextResponse):
    """Text in the format that the version in its type says."""

    media_type = CONTENT_TYPE


@router.get("/metrics", response_class=MetricsResponse)
async def metrics(service: ServiceOf) -> MetricsResponse:
    """Counters since the server started, and what is loaded and waits now."""
    engine = service.desk.engine
    return MetricsResponse(service.metrics.text(service.desk.waiting, _labels(engine) if engine else None))


def _labels(engine: "Engine") -> Labels:
    draft = engine.describe(0, seconds=0.0).draft
    return ("target", served_name(engine)), ("draft", draft.name if draft else "none")
