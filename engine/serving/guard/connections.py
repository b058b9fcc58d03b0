"""Connections that take their time: uvicorn's protocol, with limits on how many there are and how long each may idle.

uvicorn waits for ever for the headers of a request, and for a client that does not read its answer.
"""

import asyncio
import json
from collections import Counter
from functools import partial
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.protocol.sentences import say
from engine.serving.guard.errors import ApiError, body_of, too_long_headers
from engine.serving.guard.limits import Limits, network_of


class GuardedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *, limits: Limits, of_each: Counter[str], config: Config, **others: Any) -> None:
        """`of_each`: how many connections each address has; `others`: uvicorn's own."""
        super().__init__(config=config, **others)
        self._limits, self._of_each = limits, of_each
        self._whose = ""
        self._idling: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Take the connection, or tell that there are too many."""
        super().connection_made(transport)
        self._whose = network_of(self.client[0] if self.client else "")
        self._of_each[self._whose] += 1
        if (
            len(self.connections) > self._limits.connections
            or self._of_each[self._whose] > self._limits.connections_of_one
        ):
            words = say("The server has too many connections.")
            self._refuse(ApiError(503, words, say("Ask again later."), code="too_many_connections"))
            return
        self._begin_to_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or was let go."""
        self._stop(self._idling)
        self._stop(self._unread)
        self._of_each[self._whose] -= 1
        if not self._of_each[self._whose]:
            del self._of_each[self._whose]
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """What came: while a request is under way the connection does not idle."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop(self._idling)
        if self.conn.their_state is h11.DONE and self.conn.our_state is not h11.DONE and self.conn.trailing_data[0]:
            # A request behind the one that is answered. As long as it is not read, nobody sees the client leave.
            self.transport.abort()

    def on_response_complete(self) -> None:
        """The next request may come."""
        self._begin_to_idle()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # the same for everything
        """Tell in our words that this is no HTTP, or too much of it, if it is not too late for words; then close."""
        if self.conn.our_state is h11.IDLE and len(self.conn.trailing_data[0]) > self._limits.header_bytes:
            self._refuse(too_long_headers())  # that came in parts: h11 gives up before they are whole
        elif self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(ApiError(400, say("The request is no HTTP that can be read."), code="invalid_request"))
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """The client reads less than is sent to it."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read most of it."""
        self._stop(self._unread)
        super().resume_writing()

    def _begin_to_idle(self) -> None:
        self._stop(self._idling)
        self._idling = self.loop.call_later(self._limits.idle_seconds, self.transport.abort)

    def _refuse(self, error: ApiError) -> None:
        if self.cycle:
            self.cycle.disconnected = True  # the application's own answer would be a second one
        body = json.dumps(body_of(error, "openai")).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        response = h11.Response(status_code=error.status, headers=headers, reason=b"")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer:
            timer.cancel()


def protocol(limits: Limits) -> type[asyncio.Protocol]:
    """What uvicorn makes every connection of one server with."""
    made = partial(GuardedProtocol, limits=limits, of_each=Counter())
    return cast(type[asyncio.Protocol], made)
