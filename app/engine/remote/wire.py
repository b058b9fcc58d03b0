"""HTTP to one engine elsewhere: one connection a request, which can be cut at any moment, and guards the key."""

import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.remote import failures
from app.engine.remote.addresses import host_of, may_carry_key
from app.engine.remote.event_stream import EventStream, SentEvent, TooLongError
from app.system import json_text as json
from app.system.background import Stop, can_be_left
from app.system.http import hang_up, keep_addresses_out_of_log, trust
from app.system.json_text import parse_json
from engine import __version__
from engine.errors import InputError
from engine.protocol.sentences import say

if TYPE_CHECKING:  # importing it takes a tenth of a second, and only who asks an engine elsewhere needs it
    import httpx2

CONNECT_SECONDS = 10.0
LOOK_UP_SECONDS = 10.0  # for what a server knows without computing
SILENT_SECONDS = 300.0  # a model that reads a long prompt may say nothing for minutes
_WHOLE_SECONDS = 60.0  # for a body that is no stream, as the hub's
_LARGEST_BODY = 8 << 20
_LARGEST_REFUSAL = 64 << 10

_ALIVE_OPTIONS = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 25_000))
"""The system asks after a silent host every few seconds: a cut link is noticed in half a minute, a slow model is not
one. RFC 9293, section 3.8.4."""


@dataclass(slots=True)
class _Opened:
    """Watches a connection being made: keeps it alive, gives the key only to hosts that may have it, cuts it."""

    address: str
    has_key: bool
    stream: Any = None
    stop: Stop = field(default_factory=Stop)

    def trace(self, name: str, info: dict[str, Any]) -> None:
        """Called by httpcore at each step; nothing of the request has been sent when a connection is complete."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.stream = info["return_value"]
            connection = self.stream.get_extra_info("socket")
            if name.endswith("connect_tcp.complete"):
                self._prepare(connection)
            if self.stop.asked:  # before there was a connection to cut
                self.hang_up()

    def hang_up(self) -> None:
        """Cut the connection, if there is one; from any thread."""
        hang_up(self.stream)

    def _prepare(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _ALIVE_OPTIONS:
                if hasattr(socket, option):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        try:
            self._guard_key(connection)
        except BaseException:
            self.stream.close()  # nobody else has it yet
            raise

    def _guard_key(self, connection: socket.socket) -> None:
        if self.has_key and not may_carry_key(self.address, connection.getpeername()[0]):
            raise failures.exposed(host_of(self.address))


class Wire:
    """Requests to one server, for threads that may block. They raise `RemoteError`, and `Cancelled` when stopped.

    `key_of` is asked before each request, as a keyring may block. No redirect is followed. Proxies are those of the
    system, for encrypted connections; to others the key would be readable.
    """

    def __init__(self, address: str, key_of: Callable[[], str] = str, silent_seconds: float = SILENT_SECONDS) -> None:
        self.address = address
        self.host = host_of(address)
        self._key_of = key_of
        self._silent_seconds = silent_seconds

    def get(self, path: str, stop: Stop) -> Any:
        """What an address says, as JSON."""
        return self._parsed(self.text(path, stop))

    def post(self, path: str, body: Mapping[str, Any], stop: Stop) -> Any:
        """The same for a question."""
        with self.request("POST", path, stop, body) as response:
            return self._parsed(self._whole(response))

    def text(self, path: str, stop: Stop) -> bytes:
        """What an address says, as it is."""
        with self.request("GET", path, stop) as response:
            return self._whole(response)

    def events(
        self, path: str, body: Mapping[str, Any], stop: Stop, model: str = ""
    ) -> Generator[list[SentEvent], None, None]:
        """The events of an answer, those that arrive together as one list; empty lists are signs of life.

        A server that does not stream gives its whole answer as one event. `model`: what errors call the model.
        """
        with self.request("POST", path, stop, body, self._silent_seconds, model) as response:
            if "json" in response.headers.get("content-type", ""):
                yield [SentEvent("", self._whole(response))]
                return
            stream = EventStream()
            try:
                for arrived in response.iter_raw():
                    yield list(stream.push(arrived))
            except TooLongError:
                raise failures.garbled(self.host, say("a line without an end")) from None
            last = stream.flush()
            yield [last] if last else []

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        stop: Stop,
        body: Mapping[str, Any] | None = None,
        silent_seconds: float | None = None,
        model: str = "",
    ) -> Iterator["httpx2.Response"]:
        """A response that has begun well and is not read yet; errors while it is read are put into words too.

        `silent_seconds`: for how long an answer that takes its time may say nothing; None for what a server just knows.
        """
        import httpx2  # noqa: PLC0415

        key = self._key_of()
        opened = _Opened(self.address, bool(key), stop=stop)
        try:
            with self._session(silent_seconds or LOOK_UP_SECONDS) as session, stop.interrupting(opened.hang_up):
                asked = session.build_request(
                    method,
                    self.address + path,
                    content=None if body is None else json.dumps(body).encode(),
                    headers=_headers(key, body is not None),
                    extensions={"trace": opened.trace},
                )
                with can_be_left():
                    response = session.send(asked, stream=True)
                try:
                    if response.status_code != 200:
                        raise self._refusal(response, model)
                    yield response
                finally:
                    response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, UnicodeError, OSError) as error:
            stop.check()  # it may have been our own hanging up
            raise self._in_words(error, silent_seconds) from error

    def _session(self, seconds: float) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415

        keep_addresses_out_of_log()
        is_encrypted = self.address.startswith("https:")
        try:
            verify = trust() if is_encrypted else False
        except InputError as error:
            raise failures.RemoteError(error.message, error.hint) from error
        return httpx2.Client(
            verify=verify,
            timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=is_encrypted,
        )

    def _refusal(self, response: "httpx2.Response", model: str) -> failures.RemoteError:
        body = self._read_some(response, _LARGEST_REFUSAL)
        return failures.refusal(self.host, model, response.status_code, response.headers, body)

    def _whole(self, response: "httpx2.Response") -> bytes:
        body = self._read_some(response, _LARGEST_BODY)
        if len(body) > _LARGEST_BODY:
            raise failures.garbled(self.host, say("more than {size} MB", size=_LARGEST_BODY >> 20))
        return body

    def _read_some(self, response: "httpx2.Response", most_bytes: int) -> bytes:
        """The body up to `most_bytes`, and more where there is more. Once begun it must not take too long."""
        body, deadline = bytearray(), 0.0
        for arrived in response.iter_raw():
            deadline = deadline or time.monotonic() + _WHOLE_SECONDS  # before it begins, an answer is computed
            body += arrived
            if len(body) > most_bytes:
                break
            if time.monotonic() > deadline:
                raise failures.slow(self.host)
        return bytes(body)

    def _parsed(self, body: bytes) -> Any:
        try:
            return parse_json(body)
        except ValueError as error:
            raise failures.garbled(self.host, error.args[0]) from None

    def _in_words(self, error: Exception, silent_seconds: float | None) -> failures.RemoteError:
        import httpx2  # noqa: PLC0415

        if isinstance(error, httpx2.ConnectTimeout):
            return failures.no_answer(self.host)
        if failures.is_link_down(error):
            return failures.cut(self.host)
        if isinstance(error, httpx2.ReadTimeout):
            if silent_seconds is not None:
                return failures.silent(self.host, silent_seconds)
            return failures.no_answer(self.host)
        if isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError | httpx2.WriteError | httpx2.StreamError):
            return failures.cut(self.host)
        return failures.unreachable(self.host, error)


def _headers(key: str, has_body: bool) -> dict[str, str]:
    """An encoded body could swell without end when it is unpacked, so none is asked for."""
    headers = {"User-Agent": f"coppice/{__version__}", "Accept-Encoding": "identity", "Connection": "close"}
    if has_body:
        headers["Content-Type"] = "application/json"
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers
