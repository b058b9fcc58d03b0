"""A server that listens: uvicorn in a thread of its own, on a socket that is bound before: failures are told."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from engine.errors import InputError
from engine.protocol.messages import Event
from engine.protocol.sentences import Sentence, reason_of, say
from engine.protocol.serving import DEFAULT_HOST, DEFAULT_PORT, ServeOptions, ServingEnded
from engine.serving.application import build_application
from engine.serving.context import Service
from engine.serving.desk import Desk
from engine.serving.guard.connections import protocol
from engine.serving.guard.limits import Limits
from engine.serving.worker import failed_by

SECONDS_TO_PART = 2


class Listening:
    """The server while it runs. `address`: its URL."""

    def __init__(self, server: uvicorn.Server, service: Service, bound: socket.socket, address: str) -> None:
        """A `ServingEnded` is told if it breaks."""
        self.address = address
        self._service = service
        self._server = server
        self._tell = service.tell
        self._bound = bound
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it: answers under way end and say so; blocks until the address is free again."""
        self._service.close()
        self._server.should_exit = True
        self._thread.join(2 * SECONDS_TO_PART)
        self._bound.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._bound]))
        except BaseException as error:  # noqa: BLE001  # whoever switched it on would think that it listens
            failed = failed_by(0, error)
            self._tell(ServingEnded(failed.message, failed.hint))
        else:
            if not self._server.should_exit:
                self._tell(ServingEnded(say("The server ended by itself."), say("Start it again.")))


def listen(desk: Desk, options: ServeOptions, tell: Callable[[Event], None], limits: Limits | None = None) -> Listening:
    """Start to listen. Raises `InputError` where the address is taken, or is none of this computer's.

    `tell` is called with a `Visit` whenever a request comes, moves or ends, and with a `ServingEnded` if the server
    breaks; from any thread.
    """
    options.check()
    bound = _bind(options)
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    limits = limits or Limits()
    application = build_application(desk, options, tell, limits)
    config = uvicorn.Config(
        application,
        http=protocol(limits),
        ws="none",
        lifespan="off",
        proxy_headers=False,  # who asks is who connects: everybody could claim to be somebody's proxy
        log_config=None,
        log_level="error",  # a hostile client could fill the log with warnings
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=int(limits.idle_seconds) + 1,  # the guard's own comes first
        timeout_graceful_shutdown=SECONDS_TO_PART,
    )
    return Listening(uvicorn.Server(config), application.state.service, bound, f"http://{shown}:{port}")


def _bind(options: ServeOptions) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bound(socket.socket(family, kind, protocol), where)
    except (OSError, UnicodeError) as error:  # the second for a name that the encoding of domain names does not know
        raise InputError(
            say(
                "The server cannot listen at {address}: {reason}.",
                address=f"{options.host}:{options.port}",
                reason=reason_of(error) if isinstance(error, OSError) else error,
            ),
            _way_out(error),
        ) from error


def _way_out(error: OSError | UnicodeError) -> Sentence:
    match error.errno if isinstance(error, OSError) else None:
        case errno.EADDRINUSE:
            return say("Choose another port, or end the program that uses this one.")
        case errno.EACCES:  # ports below 1024, and those that Windows reserves
            return say("Choose another port, such as {port}.", port=str(DEFAULT_PORT))
        case _:
            return say("Give an address of this computer, such as {host}.", host=DEFAULT_HOST)


def _bound(unbound: socket.socket, where: Any) -> socket.socket:
    try:
        if os.name == "posix":  # there it only skips a wait after the last server; Windows lets two share a port
            unbound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        unbound.bind(where)
        unbound.listen(128)
    except OSError:
        unbound.close()
        raise
    return unbound
