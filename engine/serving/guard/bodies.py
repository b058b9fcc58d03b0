"""The body of a request, read whole before anything is computed: not too long, not too slowly, and sound JSON."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from engine.protocol.sentences import say
from engine.serving.guard.errors import ApiError, too_long_headers
from engine.serving.guard.lifted import lift
from engine.serving.guard.limits import BodyShare, Limits

DEEPEST = 64  # levels of JSON; schemas of tools, the deepest thing that is sent, have about 20
MOST_CONTAINERS = 250_000  # lists and objects, about 100 bytes each
_FORM = "application/x-www-form-urlencoded"
_FORM_SENDERS = ("curl/", "wget/")  # they call all that they send a form, as in many guides to Ollama's API
LONG_BYTES = 64 << 10  # JSON from which on it is checked in a thread, between whose steps other clients are answered


def require_fit_headers(headers: Headers, limits: Limits) -> None:
    """Raise `ApiError` for more of them than are read, and where two of them contradict each other."""
    if "transfer-encoding" in headers and "content-length" in headers:  # RFC 9112, 6.3: perhaps a request in a request
        words = say("The request has two lengths.")
        raise ApiError(400, words, code="invalid_request", headers={"connection": "close"})
    if len(headers) > limits.headers or sum(len(n) + len(v) for n, v in headers.raw) > limits.header_bytes:
        raise too_long_headers()


async def read_body(headers: Headers, receive: Receive, limits: Limits, share: BodyShare) -> bytearray:
    """All of it, or an `ApiError`: before it is read where its length tells, else as soon as it is too much.

    Raises `ClientDisconnect` where the client left in the middle.
    """
    length = headers.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > limits.body_bytes):
        _refuse_length(limits)
    if length not in ("", "0") or "transfer-encoding" in headers:
        _require_json_type(headers)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _read(receive, limits, share)
    except TimeoutError:
        words = say("The request did not come whole within {seconds} s.", seconds=int(limits.body_seconds))
        raise ApiError(408, words, code="request_timeout", headers={"connection": "close"}) from None


async def read_json(body: bytearray, limits: Limits) -> Any:
    """What it says, None where it is empty.

    Raises `ApiError` for what no endpoint could read, or could only read at the cost of others.
    """
    if len(body) > LONG_BYTES:  # `json.loads` holds the GIL; counting levels, up to 3 times as long, does not
        return await asyncio.to_thread(_read_long, body, limits)
    return _read_sound(body) if body else None


async def _read(receive: Receive, limits: Limits, share: BodyShare) -> bytearray:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = message.get("body", b"")
        if len(body) + len(chunk) > limits.body_bytes:
            _refuse_length(limits)
        share.take(len(chunk))
        body += chunk
        if not message.get("more_body"):
            return body


def _read_long(body: bytearray, limits: Limits) -> Any:
    lifted = lift(body)
    if len(lifted.rest) > limits.json_bytes:
        _refuse_text(limits)
    value = _read_sound(lifted.rest)
    if len(lifted.rest) + lifted.put_back(value) > limits.json_bytes:
        _refuse_text(limits)
    return value


def _read_sound(body: bytearray) -> Any:
    if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
        _refuse_json(say("it has too many lists and objects"))
    try:
        text = body.decode()
        value = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        _refuse_json(say("it is no UTF-8"))
    except RecursionError:
        _refuse_json(say("it is nested too deeply"))
    except json.JSONDecodeError as error:
        line, column = error.lineno, error.colno
        _refuse_json(say("line {line}, column {column}: {reason}", line=line, column=column, reason=error.msg))
    except ValueError:  # a whole number with thousands of digits
        _refuse_json(say("it has a number that is too long"))
    _require_shallow(value)
    if "\\ud" in text.lower():
        _require_whole_characters(value)
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        level = [item for each in level if isinstance(each, dict | list) for item in _items(each)]
        if not level:
            return
    _refuse_json(say("it is nested too deeply"))


def _require_whole_characters(value: Any) -> None:
    """Half of a surrogate pair is no text: nothing that is written or tokenized may have one."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        _refuse_json(say("it has half of a character"))


def _items(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _refuse_constant(name: str) -> NoReturn:
    _refuse_json(say("{name} is no number", name=name))


def _refuse_json(reason: str) -> NoReturn:
    raise ApiError(400, say("The request is no JSON that can be read: {reason}.", reason=reason), code="invalid_json")


def _refuse_length(limits: Limits) -> NoReturn:
    words = say("The request is longer than {mib} MiB.", mib=limits.body_bytes / (1 << 20))
    raise ApiError(413, words, say("Send less at once."), code="request_too_large")


def _refuse_text(limits: Limits) -> NoReturn:
    words = say("The request is longer than {mib} MiB beside its pictures.", mib=limits.json_bytes / (1 << 20))
    hint = say("Send less at once; pictures in the standard alphabet of base64, without line breaks.")
    raise ApiError(413, words, hint, code="request_too_large")


def _require_json_type(headers: Headers) -> None:
    """A form on a web page can send other types without asking first, but never under the name of these programs."""
    kind, *parameters = headers.get("content-type", "").lower().split(";")
    if kind == _FORM and headers.get("user-agent", "").lower().startswith(_FORM_SENDERS):
        return
    charsets = [each.partition("=")[2].strip(' "') for each in parameters if each.strip().startswith("charset=")]
    if kind.strip() != "application/json" or any(each not in ("utf-8", "utf8") for each in charsets):
        message = say("The request is not sent as JSON.")
        raise ApiError(415, message, say("Send 'Content-Type: application/json'."), code="unsupported_media_type")
