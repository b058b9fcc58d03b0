"""`/health`: whether a request would be answered now."""

from typing import Literal

from fastapi import Response
from pydantic import BaseModel

from engine.serving.context import ServiceOf
from engine.serving.guard.routes import Router

router = Router()


class Health(BaseModel):
    """Such as llama-server's."""

    status: Literal["ok", "loading"]


@router.head("/health", include_in_schema=False)  # as `wget --spider` and load balancers ask
@router.get("/health", responses={503: {"model": Health}})
async def health(service: ServiceOf, response: Response) -> Health:
    """200 once models are loaded, 503 before."""
    if service.desk.engine is None:
        response.status_code = 503
        return Health(status="loading")
    return Health(status="ok")
