"""A server that listens: uvicorn in a thread of its own, on a socket that is bound before: failures are told."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from engine.errors import InputError
from engine.protocol.messages import Event
from engine.protocol.sentences import reason_of, say
from engine.protocol.serving import ServeOptions
from engine.serving.application import build_application
from engine.serving.desk import Desk

SECONDS_TO_PART = 2


class Listening:
    """The server while it runs. `address`: its URL."""

    def __init__(self, server: uvicorn.Server, bound: socket.socket, address: str) -> None:
        self.address = address
        self._server = server
        self._bound = bound
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it listens; not where it has failed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End it: answers under way are cut off; blocks until the address is free again."""
        self._server.should_exit = True
        self._thread.join(2 * SECONDS_TO_PART)
        self._bound.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._bound]))


def listen(desk: Desk, options: ServeOptions, tell: Callable[[Event], None]) -> Listening:
    """Start to listen. Raises `InputError` where the address is taken, or is none of this computer's.

    `tell` is called with a `Visit` whenever a request comes, moves or ends, from any thread.
    """
    options.check()
    bound = _bind(options)
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    config = uvicorn.Config(
        build_application(desk, options, tell),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_PART,
    )
    return Listening(uvicorn.Server(config), bound, f"http://{shown}:{port}")


def _bind(options: ServeOptions) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bound(socket.socket(family, kind, protocol), where)
    except OSError as error:
        raise InputError(
            say(
                "The server cannot listen at {address}: {reason}.",
                address=f"{options.host}:{options.port}",
                reason=reason_of(error),
            ),
            say("Choose another port, or end the program that uses this one."),
        ) from error


def _bound(unbound: socket.socket, where: Any) -> socket.socket:
    try:
        if hasattr(socket, "SO_REUSEADDR"):
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        unbound.bind(where)
        unbound.listen(128)
    except OSError:
        unbound.close()
        raise
    return unbound
