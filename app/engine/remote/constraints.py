"""What an answer must look like, as each kind of server elsewhere takes it; some cannot be told of every kind."""

from typing import Any

from app.engine.remote.addresses import COPPICE, LLAMA, LM_STUDIO, SGLANG, VLLM
from app.system import json_text as json
from engine.errors import InputError
from engine.protocol.options import CONSTRAINTS, Constraint
from engine.protocol.sentences import say

_NAME = "answer"  # that OpenAI's form of a schema must have
_OBJECT = '{"type": "object"}'

_FIELDS = {
    COPPICE: {"regex": "structured_outputs.regex", "gbnf": "grammar", "lark": "grammar"},
    VLLM: {
        "regex": "structured_outputs.regex",
        "gbnf": "structured_outputs.grammar",
        "lark": "structured_outputs.grammar",
    },
    SGLANG: {"regex": "regex", "gbnf": "ebnf"},
    LLAMA: {"gbnf": "grammar"},
}
"""Where a server takes what OpenAI's API has no field for; JSON and schemas go into `response_format` everywhere."""


def unheld_by(kind: str) -> tuple[str, ...]:
    """The kinds of `Constraint` that a server of this kind cannot be told of."""
    return tuple(each for each in CONSTRAINTS if each not in ("json", "json_schema", *_FIELDS.get(kind, {})))


def constraint_fields(kind: str, constraint: Constraint | None) -> dict[str, Any]:
    """The fields of a request; none where the server has no word for it. Raises `InputError` for what is no JSON."""
    if constraint is None or constraint.kind in unheld_by(kind):
        return {}
    if constraint.kind == "json" and kind != LM_STUDIO:
        return {"response_format": {"type": "json_object"}}
    if constraint.kind in ("json", "json_schema"):
        text = constraint.text if constraint.kind == "json_schema" else _OBJECT  # LM Studio refuses `json_object`
        wrapped = {"name": _NAME, "strict": True, "schema": _parsed(text)}
        return {"response_format": {"type": "json_schema", "json_schema": wrapped}}
    outer, _, inner = _FIELDS[kind][constraint.kind].partition(".")
    return {outer: {inner: constraint.text} if inner else constraint.text}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(say("The JSON schema is no JSON."), say("Correct it in the generation settings.")) from None
