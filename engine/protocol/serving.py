"""The local server as the window switches and sees it: a part of `engine.protocol.messages`."""

import re
from dataclasses import dataclass
from typing import Literal

from engine.errors import InputError
from engine.protocol.sentences import say, shown

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8383
LOOPBACK = ("127.0.0.1", "::1", "localhost")

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#@]+")  # pages of desktop programs have schemes of their own
_NAMELESS = ("*", "null")  # every origin, and what browsers send for pages that have none
_NEVER_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

VisitState = Literal["waiting", "answering", "done", "failed", "gone"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the server listens, and whom it answers. Port 0: any that is free.

    `api_key`: what clients must show; empty for none, which only loopback addresses may do. `origins`: web pages that
    may ask, as `scheme://host:port`; none by default, and `*` for every one. `aliases`: what clients may call the
    model besides its own name, `*` for anything; some have a name of another maker's built in.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    api_key: str = ""
    origins: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `InputError` if a field is outside its range, or if others could ask without a key."""
        if not 0 <= self.port <= 65535:
            raise InputError(say("Port {number} is out of range.", number=self.port), say("Give one up to 65535."))
        if not self.host:
            raise InputError(say("The server's address is empty."), say("Give 127.0.0.1 for this computer alone."))
        if self.host not in LOOPBACK and not self.api_key:
            raise InputError(
                say("Other computers could ask this server without a key."), say("Set a key, or listen at 127.0.0.1.")
            )
        if _NEVER_IN_HEADERS.search(self.api_key) or self.api_key != self.api_key.strip():
            raise InputError(
                say("No client can send the server's key."),
                say("Give one without line breaks and other control characters, and without spaces at its ends."),
            )
        for origin in self.origins:
            if origin not in _NAMELESS and not is_origin(origin):
                raise InputError(
                    say("No browser sends {name} as the origin of a page.", name=shown(origin)),
                    say("Give it like http://localhost:3000, in small letters and without a slash at its end."),
                )


def is_origin(text: str) -> bool:
    """Whether browsers could send it as the origin of a page: `scheme://host`, or `scheme://host:port`."""
    return bool(_ORIGIN.fullmatch(text))


@dataclass(frozen=True, slots=True)
class Serve:
    """Start the server, or start it anew with other options. Answered by one `Serving`, or by `ServingEnded`."""

    options: ServeOptions


@dataclass(frozen=True, slots=True)
class StopServing:
    """End the server; answers under way are cut off. Answered by one `ServingEnded`."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The server listens. `address` is its URL, such as `http://127.0.0.1:8383`. Of no request: `id` is 0."""

    address: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class ServingEnded:
    """The server does not listen: it was told so (no words), or it cannot, and why."""

    message: str = ""
    hint: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a client, as it stands now; told again when that changes, with the same `number`.

    `client`: its address; `agent`: what it calls itself; `path`: what it asked for, such as `/v1/chat/completions`.
    `ahead`: requests that are answered before this one. `status`: of the response, 0 where it was never whole. `words`:
    why it failed. `seconds`: since it came.
    """

    number: int
    client: str
    agent: str
    path: str
    state: VisitState
    ahead: int = 0
    status: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    seconds: float = 0.0
    words: str = ""
    id: int = 0
