"""What goes wrong with an engine elsewhere, in words: what happened, to which host, and what to do."""

import errno
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any

from app.system import json_text as json
from app.system.json_text import parse_json
from engine.errors import CoppiceError
from engine.protocol.messages import FailureKind
from engine.protocol.sentences import Sentence, reason_of, say

REFUSED_KEY = (401, 403)
"""The status with which a key is refused, or that there is none."""

_LONGEST_REASON = 300
_MOST_SECONDS = 86_400
_TOO_LONG = re.compile(r"context|too long|too many tokens|maximum.{0,20}(length|tokens)", re.IGNORECASE)
_NO_MODEL = re.compile(r"model", re.IGNORECASE)


class RemoteError(CoppiceError):
    """An engine elsewhere could not answer. `kind`: of what sort that is; `lost` where the connection broke.

    `status`: that of HTTP with which it refused; 0 where it did not get so far.
    """

    def __init__(self, message: str, hint: str = "", kind: FailureKind = "internal") -> None:
        super().__init__(message, hint)
        self.kind, self.status = kind, 0


def unreachable(host: str, error: BaseException) -> RemoteError:
    """Why there is no connection, by what lies below the client's own error."""
    import ssl  # noqa: PLC0415  # it is slow to read, and the window begins without a connection

    for cause in _causes(error):
        match cause:
            case ConnectionRefusedError():
                return RemoteError(
                    say("Nothing listens at {host}.", host=host),
                    say("Start the engine there, and check the port and the address that it listens at."),
                )
            case socket.gaierror():
                return RemoteError(
                    say("The host {host} was not found.", host=host),
                    say("Check its name, and whether this computer is in its network."),
                )
            case ssl.SSLError():
                return _untrusted(host, cause)
            case TimeoutError():
                return no_answer(host)
            case OSError() if cause.errno is not None:
                return RemoteError(
                    say("{host} cannot be reached: {reason}.", host=host, reason=reason_of(cause)),
                    say("Check the network and the address."),
                )
    return RemoteError(say("{host} cannot be reached.", host=host), say("Check the network and the address."))


def no_answer(host: str) -> RemoteError:
    """It took too long to connect."""
    return RemoteError(
        say("{host} does not answer.", host=host), say("Check that it is switched on, and that no firewall is between.")
    )


def slow(host: str) -> RemoteError:
    """What it has begun to send does not come to an end."""
    return RemoteError(say("{host} answers too slowly.", host=host), say("Try again in a while."), "lost")


def cut(host: str) -> RemoteError:
    """The connection broke while an answer was written."""
    return RemoteError(
        say("The connection to {host} broke.", host=host),
        say("The text so far stays. Continue the answer, or ask again, when the engine can be reached."),
        "lost",
    )


def is_link_down(error: BaseException) -> bool:
    """Whether the system has given up a connection: the other host did not even acknowledge. Python calls it a time-out
    too.
    """
    return any(isinstance(cause, OSError) and cause.errno == errno.ETIMEDOUT for cause in _causes(error))


def silent(host: str, seconds: float) -> RemoteError:
    """Nothing came for a long time, not even a sign of life."""
    return RemoteError(
        say("{host} has said nothing for {minutes} minutes.", host=host, minutes=round(seconds / 60)),
        say("The text so far stays. The engine may be overloaded; continue the answer, or ask again later."),
        "lost",
    )


def garbled(host: str, reason: str) -> RemoteError:
    """What it sent is not what such a server sends."""
    return RemoteError(
        say("{host} sent what cannot be read: {reason}.", host=host, reason=reason),
        say("Check that the address is that of an engine with an OpenAI-compatible API."),
        "lost",
    )


def exposed(host: str) -> RemoteError:
    """The key would travel through the internet for everybody to read."""
    return RemoteError(
        say("The key was not sent to {host}: the connection is not encrypted, and leaves your network.", host=host),
        say("Use an address that begins with https://."),
        "input",
    )


def _untrusted(host: str, cause: OSError) -> RemoteError:
    import ssl  # noqa: PLC0415  # as above

    if isinstance(cause, ssl.SSLCertVerificationError):
        reason = getattr(cause, "verify_message", "") or cause.strerror
        return RemoteError(
            say("The certificate of {host} cannot be trusted: {reason}.", host=host, reason=reason),
            say("Use the name that the certificate is for, or install its authority on this computer."),
        )
    return RemoteError(
        say("{host} does not speak TLS.", host=host), say("Use http:// if the engine is in your own network.")
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


# ---- what the server says -------------------------------------------------------------------------------------------


def refusal(host: str, model: str, status: int, headers: Mapping[str, str], body: bytes) -> RemoteError:
    """Why a request was refused, by its status and the server's own words."""
    error = _refusal(host, model, status, headers, reason_in(body))
    error.status = status
    return error


def _refusal(host: str, model: str, status: int, headers: Mapping[str, str], reason: str) -> RemoteError:
    if status in REFUSED_KEY:
        return RemoteError(
            say("{host} does not accept the key.", host=host), say("Give another key in Models, Engines."), "input"
        )
    if status == 404:
        return _not_found(host, model if _NO_MODEL.search(reason) else "")
    if status in (400, 413, 422) and _TOO_LONG.search(reason):
        return RemoteError(
            say("The conversation is too long for {model} at {host}: {reason}", model=model, host=host, reason=reason),
            say("Start a new chat, shorten the message, or have the engine started with a longer context."),
            "too_long",
        )
    if status == 429:
        return RemoteError(say("{host} has too much to do, or you have asked too often.", host=host), _later(headers))
    if 300 <= status < 400:
        return _elsewhere(host, headers)
    return _failed(host, status, reason)


def _not_found(host: str, model: str) -> RemoteError:
    if model:
        return RemoteError(
            say("{host} has no model {model}.", host=host, model=model),
            say("Connect anew in Models, Engines, and choose one that it has."),
            "no_model",
        )
    return RemoteError(
        say("{host} has no such address: it is no OpenAI-compatible API.", host=host),
        say("Check the address; such APIs lie at /v1 of their host."),
        "input",
    )


def _elsewhere(host: str, headers: Mapping[str, str]) -> RemoteError:
    target = headers.get("location", "")[:200]
    return RemoteError(
        say("{host} points to another address: {target}.", host=host, target=target or say("none")),
        say("If you trust it, connect to that address: neither key nor chat is sent there otherwise."),
        "input",
    )


def _failed(host: str, status: int, reason: str) -> RemoteError:
    told = reason or say("status {number}", number=status)
    if status >= 500:
        hint = say("Look into the engine's log there, and try again.")
        return RemoteError(say("The engine at {host} failed: {reason}", host=host, reason=told), hint)
    return RemoteError(
        say("{host} refused the request: {reason}", host=host, reason=told),
        say("Check the generation settings of this chat: not every engine knows all of them."),
        "input",
    )


def _later(headers: Mapping[str, str]) -> Sentence:
    wait = headers.get("retry-after", "")
    if wait.isdecimal() and int(wait) <= _MOST_SECONDS:
        return say("Try again in {seconds} seconds.", seconds=int(wait))
    return say("Try again in a while.")


def reason_in(body: bytes) -> str:
    """The words of an error's body, in any of the forms that servers give it; empty where there are none."""
    try:
        return reason_of_error(parse_json(body))
    except ValueError:
        return ""


def reason_of_error(value: Any) -> str:
    """The same for a value: `{"error": {"message"}}`, `{"error"}`, `{"message"}` or `{"detail"}`."""
    for _ in range(3):
        if isinstance(value, str):
            return json.text(" ".join(value.split()), _LONGEST_REASON)
        if isinstance(value, list):
            value = value[0] if value else ""
        elif isinstance(value, dict):
            value = next((value[name] for name in ("error", "message", "detail", "msg") if value.get(name)), "")
    return json.text(" ".join(value.split()), _LONGEST_REASON) if isinstance(value, str) else ""
