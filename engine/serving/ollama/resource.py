"""What Ollama's addresses answer with, as objects."""

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from engine.serving.figures import sizes_in_words
from engine.serving.model_names import served_name

if TYPE_CHECKING:
    from engine.engine import Engine
    from engine.protocol.messages import Loaded

NEVER = "0001-01-01T00:00:00Z"  # what Ollama's own program shows as such: nothing here changes, or ends by the clock
DoneReason = Literal["stop", "length", "load"]
Capability = Literal["completion", "vision", "tools", "thinking", "insert"]


class SaidFunction(BaseModel):
    """What is called, and with what."""

    name: str
    arguments: dict[str, Any]


class SaidCall(BaseModel):
    """A tool that the client is asked to run."""

    id: str
    function: SaidFunction


class SaidMessage(BaseModel):
    """What the answer says."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[SaidCall] | None = None


class Answered(BaseModel):
    """What chats and texts have in common. Durations are nanoseconds."""

    model: str
    created_at: str
    done: bool
    done_reason: DoneReason | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None


class ChatAnswer(Answered):
    """Of `/api/chat`."""

    message: SaidMessage


class GeneratedAnswer(Answered):
    """Of `/api/generate`."""

    response: str
    thinking: str | None = None


class Details(BaseModel):
    """Of a model. `quantization_level`: the type of its numbers."""

    parent_model: str = ""
    format: str = ""
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class ListedModel(BaseModel):
    """The loaded one. `digest`: of what is told of it here, as its weights are not read for that."""

    name: str
    model: str
    modified_at: str = NEVER
    size: int
    digest: str
    details: Details
    capabilities: list[Capability]


class RunningModel(ListedModel):
    """With what it takes of the GPU, and how long a conversation it can hold."""

    expires_at: str = NEVER
    size_vram: int
    context_length: int


class ListedModels(BaseModel):
    """One model, or none while nothing is loaded."""

    models: list[ListedModel]


class RunningModels(BaseModel):
    """The same, in memory."""

    models: list[RunningModel]


class ShownModel(BaseModel):
    """What clients ask before they use a model. It is no Modelfile's, and its chat template stays with the engine."""

    modelfile: str = ""
    parameters: str = ""
    template: str = ""
    license: str = ""
    modified_at: str = NEVER
    details: Details
    model_info: dict[str, str | int]
    capabilities: list[Capability]


class Version(BaseModel):
    """Of Ollama's API, not of this program."""

    version: str


def running_model(engine: "Engine") -> RunningModel:
    """The loaded one."""
    loaded = engine.describe(0, seconds=0.0)
    name, details = served_name(engine), _details(loaded)
    told = json.dumps([name, loaded.target.bytes, details.model_dump()])
    place = loaded.residence
    return RunningModel(
        name=name,
        model=name,
        size=loaded.target.bytes,
        digest=hashlib.sha256(told.encode()).hexdigest(),
        details=details,
        capabilities=_capabilities(engine),
        size_vram=0 if place is None or place.shared else place.device.taken,
        context_length=loaded.context_tokens,
    )


def shown_model(engine: "Engine") -> ShownModel:
    """What is told of it."""
    loaded = engine.describe(0, seconds=0.0)
    family = loaded.target.family
    return ShownModel(
        details=_details(loaded),
        model_info={
            "general.architecture": family,
            "general.basename": served_name(engine),
            "general.parameter_count": loaded.target.parameters,
            f"{family}.block_count": loaded.target.layers,
            f"{family}.context_length": loaded.context_tokens,
        },
        capabilities=_capabilities(engine),
    )


def _capabilities(engine: "Engine") -> list[Capability]:
    return [
        "completion",
        *(("vision",) if engine.reads_pictures else ()),
        "tools",
        *(("thinking",) if engine.tokenizer.reasoning.is_known else ()),
        *(("insert",) if engine.tokenizer.infill else ()),
    ]


def _details(loaded: "Loaded") -> Details:
    target = loaded.target
    return Details(
        family=target.family,
        families=[target.family],
        parameter_size=sizes_in_words(target.parameters),
        quantization_level=target.weights,
    )
