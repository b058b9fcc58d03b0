"""`/v1/models`: what is loaded, in OpenAI's form, with what llama-server and vLLM add to it."""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from engine.serving.context import ServiceOf
from engine.serving.guard.routes import Router
from engine.serving.model_names import served_name

if TYPE_CHECKING:
    from engine.engine import Engine

router = Router()


class ModelMeta(BaseModel):
    """As llama-server tells it. `draft`: what guesses for it, None where nothing speculates.

    `n_ctx` is what a conversation may have of tokens here, `n_ctx_train` what the model was made for.
    """

    n_ctx: int
    n_ctx_train: int
    n_vocab: int
    n_params: int
    size: int
    family: str
    weights: str
    draft: str | None


class Modalities(BaseModel):
    """What is read and written, as OpenRouter and later versions of llama-server tell it."""

    input_modalities: list[Literal["text", "image"]]
    output_modalities: list[Literal["text"]] = ["text"]


class Model(BaseModel):
    """The loaded pair. `max_model_len`: tokens of prompt and answer together, under vLLM's name.

    `type`, `display_name` and `created_at` are what Anthropic's clients look for.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    type: Literal["model"] = "model"
    display_name: str
    created_at: str = "1970-01-01T00:00:00Z"
    owned_by: Literal["coppice"] = "coppice"
    max_model_len: int
    architecture: Modalities
    meta: ModelMeta


class ModelList(BaseModel):
    """One model, or none while nothing is loaded."""

    object: Literal["list"] = "list"
    data: list[Model]
    has_more: Literal[False] = False


@router.get("/v1/models")
async def list_models(service: ServiceOf) -> ModelList:
    """What is loaded."""
    engine = service.desk.engine
    return ModelList(data=[_described(engine)] if engine else [])


@router.get("/v1/models/{name:path}")
async def model(name: str, service: ServiceOf) -> Model:
    """The loaded model, if that is its name."""
    service.model(name)
    return _described(service.engine)


def _described(engine: "Engine") -> Model:
    loaded = engine.describe(0, seconds=0.0)
    target = loaded.target
    return Model(
        id=served_name(engine),
        display_name=engine.name,
        max_model_len=loaded.context_tokens,
        architecture=Modalities(input_modalities=["text", *(("image",) if engine.reads_pictures else ())]),
        meta=ModelMeta(
            n_ctx=loaded.context_tokens,
            n_ctx_train=max(loaded.context_tokens, engine.target.network.max_positions),
            n_vocab=engine.target.network.vocabulary,
            n_params=target.parameters,
            size=target.bytes,
            family=target.family,
            weights=target.weights,
            draft=loaded.draft.name if loaded.draft else None,
        ),
    )
