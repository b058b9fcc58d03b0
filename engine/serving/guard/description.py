"""The server's own description (OpenAPI) as it is true: how to show a key, and what an error looks like where."""

from typing import Any

from pydantic.json_schema import models_json_schema

from engine.serving.guard.auth import OPEN_PATHS
from engine.serving.guard.errors import AnthropicError, OllamaError, OpenAIError, form_of

STATUSES = {
    400: "The request cannot be understood, or asks for what cannot be",
    401: "The key is not the server's",
    403: "A web page asks that was not named",
    404: "There is no such thing",
    408: "The request did not come whole in time",
    413: "The request is too long",
    415: "The request is no JSON",
    421: "The server is called by a name that is not its own",
    429: "Too many requests; Retry-After says when to ask again",
    431: "The headers are too long",
    500: "The server met an unexpected error",
    503: "No model is loaded, or memory ran out",
}
ERRORS = {"openai": OpenAIError, "anthropic": AnthropicError, "ollama": OllamaError}
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def complete(schema: dict[str, Any], has_key: bool) -> dict[str, Any]:
    """What FastAPI derives from the endpoints, with what the guard and the handling of errors add to each."""
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    models = [(each, "serialization") for each in ERRORS.values()]
    _, ours = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas.update(ours["$defs"])
    if has_key:
        components["securitySchemes"] = KEYS
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _complete_operation(operation, path, has_key)
    return schema


def _complete_operation(operation: dict[str, Any], path: str, has_key: bool) -> None:
    model = ERRORS[form_of(path)]
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    responses = operation["responses"]
    responses.pop("422", None)  # FastAPI's; we say 400
    for status, words in STATUSES.items():
        responses.setdefault(str(status), {"description": words, "content": content})
    if has_key:
        operation["security"] = [] if path in OPEN_PATHS else [{name: []} for name in KEYS]
