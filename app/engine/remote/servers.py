"""Which engine listens at an address, by what it tells of itself, and which models it has."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.remote import failures
from app.engine.remote.addresses import COPPICE, LLAMA, LM_STUDIO, OLLAMA, OTHER, SGLANG, VLLM
from app.engine.remote.wire import Wire
from app.system import json_text as json
from app.system.background import Stop
from engine.protocol.sentences import say

_OWNERS = {
    "coppice": COPPICE,
    "vllm": VLLM,
    "sglang": SGLANG,
    "llamacpp": LLAMA,
    "organization_owner": LM_STUDIO,
    "library": OLLAMA,
}
"""What each server writes as `owned_by` into its list of models."""

_CONTEXTS = ("max_model_len", "context_length", "max_context_length", "context_tokens")
_MOST_MODELS = 2000
_LONGEST_NAME = 300


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """`context_tokens` is 0 where the server does not tell; `draft`: the name of its draft, which a Coppice tells.

    `reads_pictures`: the server does not say that it reads none.
    """

    name: str
    context_tokens: int = 0
    draft: str = ""
    reads_pictures: bool = True


@dataclass(frozen=True, slots=True)
class Server:
    """`kind` is one of those that `addresses` names; `models` is never empty."""

    kind: str
    models: tuple[RemoteModel, ...]

    def model(self, name: str) -> RemoteModel | None:
        """The model of this name, if there is one."""
        return next((each for each in self.models if each.name == name), None)


def look_at(wire: Wire, stop: Stop) -> Server:
    """Ask what is there. Raises `RemoteError`, and `Cancelled` when stopped."""
    listed = wire.get("/v1/models", stop)
    entries = listed.get("data") if isinstance(listed, dict) else None
    if not isinstance(entries, list):
        raise failures.garbled(wire.host, say("its list of models is none"))
    models = tuple(_models(entries[:_MOST_MODELS]))
    if not models:
        raise failures.RemoteError(
            say("{host} has no model.", host=wire.host), say("Load one there, or start it with one."), "no_model"
        )
    owner = next((each.get("owned_by") for each in entries if isinstance(each, dict)), "")
    kind = _OWNERS.get(str(owner)) or _by_its_looks(wire, stop)
    if kind == LLAMA:
        models = tuple(_with_slot_context(each, wire, stop) for each in models)
    return Server(kind, models)


def _models(entries: list[Any]) -> Iterator[RemoteModel]:
    for each in entries:
        name = json.text(each.get("id"), _LONGEST_NAME) if isinstance(each, dict) else ""
        if name:
            tokens = next(filter(None, (json.count(each.get(field)) for field in _CONTEXTS)), 0)
            kinds = _field(each, "architecture", "input_modalities")  # as OpenRouter has them, and a Coppice
            reads_pictures = not isinstance(kinds, list) or "image" in kinds
            yield RemoteModel(name, tokens, json.text(_field(each, "meta", "draft"), _LONGEST_NAME), reads_pictures)


def _by_its_looks(wire: Wire, stop: Stop) -> str:
    """For servers whose models belong to somebody else: an address that only this kind of server has."""
    looks: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
        (COPPICE, "/openapi.json", lambda found: _field(found, "info", "title") == "Coppice"),
        (LLAMA, "/props", lambda found: isinstance(_field(found, "default_generation_settings"), Mapping)),
        (OLLAMA, "/api/version", lambda found: isinstance(_field(found, "version"), str)),
    )
    for kind, path, is_it in looks:
        if is_it(_found(wire, path, stop)):
            return kind
    return OTHER


def _with_slot_context(model: RemoteModel, wire: Wire, stop: Stop) -> RemoteModel:
    """llama-server tells in its list what the model was trained for, and elsewhere how long a conversation may be.

    There it tells, too, whether the model reads pictures.
    """
    told = _found(wire, "/props", stop)
    tokens = json.count(_field(told, "default_generation_settings", "n_ctx"))
    reads_pictures = _field(told, "modalities", "vision") is not False
    return RemoteModel(model.name, tokens or model.context_tokens, reads_pictures=reads_pictures)


def _found(wire: Wire, path: str, stop: Stop) -> Any:
    try:
        return wire.get(path, stop)
    except failures.RemoteError:
        return None


def _field(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
