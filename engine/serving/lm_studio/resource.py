"""What LM Studio's addresses answer with, as objects."""

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from engine import __version__
from engine.protocol.messages import Finished, ModelInfo, Statistics
from engine.serving.chat.resource import ChatCompletion
from engine.serving.completions.resource import TextCompletion
from engine.serving.figures import sizes_in_words
from engine.serving.model_names import served_name

if TYPE_CHECKING:
    from engine.engine import Engine

StoredAs = Literal["gguf", "safetensors"]
StopReason = Literal["eosFound", "stopStringFound", "maxPredictedTokensReached", "contextLengthReached", "toolCalls"]


class StudioModel(BaseModel):
    """The loaded one, in the earlier form. `max_context_length`: what it was made for, `loaded_...`: what it has.

    `type`: `vlm` where it reads pictures.
    """

    id: str
    object: Literal["model"] = "model"
    type: Literal["llm", "vlm"]
    publisher: str
    arch: str
    compatibility_type: Literal["gguf"] = "gguf"  # clients know no other than that and MLX, and read no list with one
    quantization: str
    state: Literal["loaded"] = "loaded"
    max_context_length: int
    loaded_context_length: int
    capabilities: list[Literal["tool_use"]]


class StudioModels(BaseModel):
    """One model, or none while nothing is loaded."""

    object: Literal["list"] = "list"
    data: list[StudioModel]


class Quantization(BaseModel):
    """The type of a model's numbers."""

    name: str
    bits_per_weight: float | None


class InstanceConfig(BaseModel):
    """How long a conversation may be, in tokens."""

    context_length: int


class LoadedInstance(BaseModel):
    """The loaded model."""

    id: str
    config: InstanceConfig


class Capabilities(BaseModel):
    """What the model can do."""

    vision: bool
    trained_for_tool_use: bool


class ListedModel(BaseModel):
    """The loaded one, in the later form."""

    type: Literal["llm"] = "llm"
    publisher: str
    key: str
    display_name: str
    architecture: str
    quantization: Quantization
    size_bytes: int
    params_string: str
    loaded_instances: list[LoadedInstance]
    max_context_length: int
    format: Literal["gguf"] | None
    capabilities: Capabilities
    description: None = None


class ListedModels(BaseModel):
    """One model, or none while nothing is loaded."""

    models: list[ListedModel]


class LoadedModel(BaseModel):
    """What a model was loaded as, which it was before anybody asked here."""

    type: Literal["llm"] = "llm"
    instance_id: str
    model_instance_id: str
    status: Literal["loaded"] = "loaded"
    load_config: InstanceConfig
    config: InstanceConfig
    load_time_seconds: float = 0.0


class Stats(BaseModel):
    """Of one answer; times are seconds."""

    tokens_per_second: float
    time_to_first_token: float
    generation_time: float
    stop_reason: StopReason


class AnsweringModel(BaseModel):
    """What answered."""

    arch: str
    quant: str
    format: StoredAs
    context_length: int


class Runtime(BaseModel):
    """What it ran in."""

    name: Literal["coppice"] = "coppice"
    version: str = __version__
    supported_formats: list[StoredAs] = ["gguf", "safetensors"]


class StudioFigures(BaseModel):
    """What completions have besides OpenAI's; of several choices, those of the last."""

    stats: Stats
    model_info: AnsweringModel
    runtime: Runtime


class StudioChatCompletion(ChatCompletion, StudioFigures):
    """A chat completion with them."""


class StudioTextCompletion(TextCompletion, StudioFigures):
    """A completion with them."""


def studio_model(engine: "Engine") -> StudioModel:
    """The loaded one. The first time its chat template is asked about tools, which takes a while."""
    target = engine.describe(0, seconds=0.0).target
    return StudioModel(
        id=served_name(engine),
        type="vlm" if engine.reads_pictures else "llm",
        publisher=_publisher(engine),
        arch=target.family,
        quantization=target.weights,
        max_context_length=max(engine.context_tokens, engine.target.network.max_positions),
        loaded_context_length=engine.context_tokens,
        capabilities=["tool_use"] if engine.tokenizer.tool_template else [],
    )


def listed_model(engine: "Engine") -> ListedModel:
    """The same in the later form."""
    known, target = studio_model(engine), engine.describe(0, seconds=0.0).target
    config = InstanceConfig(context_length=known.loaded_context_length)
    return ListedModel(
        publisher=known.publisher,
        key=known.id,
        display_name=engine.name,
        architecture=known.arch,
        quantization=Quantization(name=target.weights, bits_per_weight=_bits(target)),
        size_bytes=target.bytes,
        params_string=sizes_in_words(target.parameters),
        loaded_instances=[LoadedInstance(id=known.id, config=config)],
        max_context_length=known.max_context_length,
        format="gguf" if _stored_as(engine) == "gguf" else None,
        capabilities=Capabilities(vision=engine.reads_pictures, trained_for_tool_use=bool(known.capabilities)),
    )


def loaded_model(engine: "Engine") -> LoadedModel:
    """What is loaded, whatever way of loading it was asked for."""
    name, config = served_name(engine), InstanceConfig(context_length=engine.context_tokens)
    return LoadedModel(instance_id=name, model_instance_id=name, load_config=config, config=config)


def answering_model(engine: "Engine") -> AnsweringModel:
    """What will answer."""
    target = engine.describe(0, seconds=0.0).target
    return AnsweringModel(
        arch=target.family,
        quant=target.weights,
        format=_stored_as(engine),
        context_length=engine.context_tokens,
    )


def figures_of(model: AnsweringModel, finished: Finished, has_called: bool) -> StudioFigures:
    """Of an answer of this model that ended so."""
    its = finished.statistics or Statistics()
    return StudioFigures(
        stats=Stats(
            tokens_per_second=its.tokens_per_second,
            time_to_first_token=its.first_token_seconds,
            generation_time=its.seconds.decode,
            stop_reason=_stop_reason(finished, has_called, model.context_length),
        ),
        model_info=model,
        runtime=Runtime(),
    )


def _stop_reason(finished: Finished, has_called: bool, context_tokens: int) -> StopReason:
    its = finished.statistics or Statistics()
    if finished.reason != "stop":
        is_full = its.prompt_tokens + its.new_tokens >= context_tokens
        return "contextLengthReached" if is_full else "maxPredictedTokensReached"
    if finished.stop:
        return "stopStringFound"
    return "toolCalls" if has_called else "eosFound"


def _publisher(engine: "Engine") -> str:
    """Whose model it is, where its name tells."""
    owner, slash, _ = served_name(engine).partition("/")
    return owner if slash else ""


def _stored_as(engine: "Engine") -> StoredAs:
    return "safetensors" if engine.source.is_dir() else "gguf"


def _bits(target: ModelInfo) -> float | None:
    return round(8 * target.bytes / target.parameters, 2) if target.parameters else None
