"""What a client is told when something fails: status, type and code of every failure, in the form of the API it asked.

Endpoints raise: a `CoppiceError`, or an `ApiError` where the status is theirs to say. In the middle of a stream, whose
status is sent already, they write an `error_event` instead.
"""

import json
import traceback
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from engine.errors import CoppiceError, InputError, NoModel, OutOfMemory, TooLong
from engine.protocol.messages import FailureKind
from engine.protocol.sentences import say, shown
from engine.serving.desk import Busy

ErrorForm = Literal["openai", "anthropic", "ollama"]
"""Whose form an error has."""

LM_STUDIO = ("/api/v0/", "/api/v1/")
ONCE_LOADED = {"retry-after": "10"}  # seconds, where no model is loaded yet
SOON = {"retry-after": "2"}  # and where too many wait
MOST_FLAWS = 3  # that are told of one request
MOST_READ = 100  # of those that were found: a kind that a value was tried as may add one that is told already
LONGEST_NAME = 64  # characters of a field's, which in some places are the client's own
LONGEST_WORDS = 1000  # characters of a message: a name that a client sent may be in it
DO_NOT_RETRY = {"x-should-retry": "false"}  # what the clients of OpenAI and Anthropic look for: by status, they would

TYPES_OF_ANTHROPIC = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}  # https://docs.anthropic.com/en/api/errors


class ApiError(CoppiceError):
    """A failure with the HTTP status that tells of it.

    `code`: for programs, such as `model_not_found`; `param`: the field of the request that it is about; `headers`:
    what the response has besides.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: str = "",
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})


class OpenAIProblem(BaseModel):
    """What went wrong, as OpenAI's servers tell it."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """The body of a response that tells of an error, but those of `/v1/messages` and of Ollama's below `/api`."""

    error: OpenAIProblem


class AnthropicProblem(BaseModel):
    """What went wrong, as Anthropic's servers tell it."""

    type: str
    message: str


class AnthropicError(BaseModel):
    """The body of a response of `/v1/messages` that tells of an error."""

    type: Literal["error"]
    error: AnthropicProblem


class OllamaError(BaseModel):
    """The body of a response below `/api` that tells of an error, but below LM Studio's `/api/v0` and `/api/v1`."""

    error: str


def form_of(path: str) -> ErrorForm:
    """In which form errors of this address are told."""
    if path.startswith("/api/") and not path.startswith(LM_STUDIO):
        return "ollama"
    return "anthropic" if path == "/v1/messages" or path.startswith("/v1/messages/") else "openai"


def api_error_of(error: BaseException) -> ApiError:
    """The same failure with its status. What nobody expected is logged, and told without its details."""
    if isinstance(error, ApiError):
        return error
    for of, translate in _TRANSLATIONS:
        if isinstance(error, of):
            return translate(error)
    if isinstance(kind := getattr(error, "kind", None), str) and kind in _KINDS:
        return _KINDS[kind](error)
    traceback.print_exception(error)
    return _internal()


def too_long_headers() -> ApiError:
    """What is told to who sends more of them than are read."""
    return ApiError(431, say("The headers of this request are too long."), code="headers_too_long")


def body_of(error: ApiError, form: ErrorForm) -> dict[str, Any]:
    """The JSON that tells of it."""
    message = str(error)[:LONGEST_WORDS]
    if form == "anthropic":
        kind = TYPES_OF_ANTHROPIC.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if form == "ollama":
        return {"error": message}
    return {"error": {"message": message, "type": _type_of(error), "param": error.param, "code": error.code}}


def response_to(path: str, error: BaseException) -> JSONResponse:
    """The whole response of a request for `path` that failed with `error`."""
    known = api_error_of(error)
    return JSONResponse(body_of(known, form_of(path)), known.status, known.headers)


def error_event(form: ErrorForm, error: Exception) -> str:
    """An event that tells of `error` at the end of a stream: a line, or one that is sent by the server."""
    body = body_of(api_error_of(error), form)
    if form == "ollama":
        return f"{json.dumps(body)}\n"
    name = "" if form == "openai" else "event: error\n"
    return f"{name}data: {json.dumps(body)}\n\n"


def _type_of(error: ApiError) -> str:
    if error.status == 429:
        return "rate_limit_error"
    return "server_error" if error.status >= 500 else "invalid_request_error"


def _internal(_error: object = None) -> ApiError:
    message = say("The server met an unexpected error.")
    return ApiError(500, message, say("Details are in the engine's log."), code="internal_error")


def _told(status: int, code: str, headers: Mapping[str, str] | None = None) -> Callable[[Any], ApiError]:
    """In the engine's own words."""
    return lambda error: ApiError(status, error.message, error.hint, code=code, headers=headers)


def _too_long(error: Any) -> ApiError:
    """The engine's own hint is for the window."""
    hint = say("Send less of it, or have the model loaded with a larger context.")
    return ApiError(400, error.message, hint, code="context_length_exceeded", param="messages")


def _no_model(error: Any) -> ApiError:
    """The engine's own hint is for the window; a server without one has its model soon."""
    hint = say("Ask again once one is; /health says when.")
    return ApiError(503, error.message, hint, code="no_model_loaded", headers=ONCE_LOADED)


def _http(error: Any) -> ApiError:
    """What the router raises: no such address, or none for this method."""
    message, hint = str(error.detail), ""
    if error.status_code == 404:
        message = say("There is no such address here.")
        hint = say("Clients ask below /v1, or below /api as those of Ollama do; /openapi.json lists every address.")
    elif error.status_code == 405:
        message = say("This address does not know this method.")
        hint = say("Ask with {methods}.", methods=(error.headers or {}).get("Allow", ""))
    return ApiError(error.status_code, message, hint, headers=error.headers)


def _invalid(error: Any) -> ApiError:
    """What does not fit the endpoint's types; nothing of what was sent is sent back but names of fields and types."""
    if not isinstance(error.body, dict):
        message, hint = say("The request is no JSON object."), say("Send one, with the fields of this address.")
        return ApiError(400, message, hint, code="invalid_value")
    found = islice(error.errors(), MOST_READ)
    flaws = list(dict.fromkeys((_field_of(flaw, error.body), _words_of(flaw)) for flaw in found))
    told = "; ".join(f"{where}: {words}" if where else words for where, words in flaws[:MOST_FLAWS])
    return ApiError(
        400, told[:LONGEST_WORDS], code="invalid_value", param=flaws[0][0][:LONGEST_WORDS] or None if flaws else None
    )


def _words_of(flaw: Mapping[str, Any]) -> str:
    """What is wrong; of a `type` that there is not, which may be a whole picture, the beginning is told."""
    words, tag = str(flaw["msg"]), flaw.get("ctx", {}).get("tag")
    return words.replace(f"'{tag}'", shown(tag)) if isinstance(tag, str) else words


def _field_of(flaw: Mapping[str, Any], body: Any) -> str:
    """Where the flaw is, as the client wrote it: pydantic's places have the kinds in them that a value was tried as."""
    names, value = list[str](), body
    for name in flaw["loc"][1:]:
        is_field = isinstance(value, dict) and name in value
        if is_field or (isinstance(value, list) and isinstance(name, int)):
            names, value = [*names, str(name)[:LONGEST_NAME]], value[name]
    if flaw["type"] == "missing" and flaw["loc"][1:]:
        names.append(str(flaw["loc"][-1]))
    return ".".join(names)


_input = _told(400, "invalid_value")
_memory = _told(503, "out_of_memory", DO_NOT_RETRY)
_TRANSLATIONS: tuple[tuple[type[BaseException], Callable[[Any], ApiError]], ...] = (
    (NoModel, _no_model),
    (TooLong, _too_long),
    (InputError, _input),
    (Busy, _told(429, "too_many_requests", SOON)),
    (OutOfMemory, _memory),
    (RequestValidationError, _invalid),
    (HTTPException, _http),
)
_KINDS: dict[FailureKind | str, Callable[[Any], ApiError]] = {
    "internal": _internal,
    "input": _input,
    "too_long": _too_long,
    "memory": _memory,
    "no_model": _no_model,
    "stopped": _told(503, "server_stopped", ONCE_LOADED),
}
