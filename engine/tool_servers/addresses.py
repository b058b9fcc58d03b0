"""Servers at addresses: Streamable HTTP, or the older HTTP with server-sent events, within limits.

The SDK follows a redirect only within an address's origin, so that headers which a person entered go nowhere else.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from engine.protocol.sentences import Amount, say, shown
from engine.protocol.tool_servers import WebServer, is_address, is_plain
from engine.tool_servers.diagnostics import Diagnostics
from engine.tool_servers.programs import MOST_MESSAGE_BYTES

CONNECT_SECONDS = 30.0
KINDS = ("http", "sse")
OLDER_KIND_STATUS = (400, 404, 405)
"""What a server of the older kind says to a request of the newer one."""


class RefusedAddressError(Exception):
    """An address is not to be connected to; `reason` and `hint` are sentences."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def address_streams(server: WebServer, kind: str, diagnostics: Diagnostics) -> AbstractAsyncContextManager[Any]:
    """The messages of a server at an address, and those to it. Raises `RefusedAddressError`; does not connect yet."""
    _check(server)
    if kind == "sse":
        return _older(server, diagnostics)
    return _streamable(server, diagnostics)


def _check(server: WebServer) -> None:
    if not is_address(server.address):
        raise RefusedAddressError(say("{address} is no address of a server.", address=shown(server.address)))
    if is_plain(server.address) and not server.may_be_plain:
        raise RefusedAddressError(
            say("The address begins with http://: others in the network could read what is sent."),
            say("Use https://, or allow it where the server is edited."),
        )


def _older(server: WebServer, diagnostics: Diagnostics) -> AbstractAsyncContextManager[Any]:
    def client(
        headers: dict[str, str] | None = None,  # noqa: ARG001  # none are given
        timeout: httpx2.Timeout | None = None,  # noqa: ARG001  # ours is longer
        auth: httpx2.Auth | None = None,  # noqa: ARG001
    ) -> httpx2.AsyncClient:
        return _client(server, diagnostics)

    return sse_client(server.address, httpx_client_factory=client)


@asynccontextmanager
async def _streamable(server: WebServer, diagnostics: Diagnostics) -> AsyncIterator[Any]:
    async with (
        _client(server, diagnostics) as client,
        streamable_http_client(server.address, http_client=client, max_sse_event_size=MOST_MESSAGE_BYTES) as streams,
    ):
        yield streams


def _client(server: WebServer, diagnostics: Diagnostics) -> httpx2.AsyncClient:
    """Nothing of the environment: no proxy, no passwords of a .netrc.

    Streams may be silent for ever; connecting, calls and leaving have limits of their own.
    """
    return httpx2.AsyncClient(
        headers=dict(server.headers) | {"Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        transport=_Bounded(diagnostics),
        trust_env=False,
    )


class _Bounded(httpx2.AsyncHTTPTransport):
    """Lets no answer grow beyond the limit of a message, and keeps what the last failure was.

    A stream of events has no end; its reader holds each event to the limit.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(trust_env=False)
        self._diagnostics = diagnostics

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if request.method != "GET" or response.status_code != 405:  # many have no stream beside their answers
            self._diagnostics.status = response.status_code if response.status_code >= 400 else 0
        is_elsewhere = 300 <= response.status_code < 400
        self._diagnostics.elsewhere = response.headers.get("location", "") if is_elsewhere else ""
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("The answer is compressed, which was not asked for", request=request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream), "it is an asynchronous transport"
            response.stream = _BoundedStream(response.stream, self._diagnostics)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, diagnostics: Diagnostics) -> None:
        self._stream, self._diagnostics = stream, diagnostics

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        async for chunk in self._stream:
            taken += len(chunk)
            if taken > MOST_MESSAGE_BYTES:
                size = Amount(f"{MOST_MESSAGE_BYTES >> 20} MiB")
                self._diagnostics.reason = say("It sent a message of more than {size}.", size=size)
                raise httpx2.ReadError("The answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def unreached(error: BaseException, diagnostics: Diagnostics) -> tuple[str, str, bool] | None:
    """Why an address gave no connection, what to do, and whether it may pass; None where that is not known."""
    if isinstance(error, RefusedAddressError):
        return error.reason, error.hint, False
    if diagnostics.elsewhere:
        words = say("The address leads to another one, {address}.", address=shown(diagnostics.elsewhere))
        return words, say("Enter that one, if you trust it."), False
    if diagnostics.status:
        return _refused(diagnostics.status)
    if isinstance(error, httpx2.TransportError):
        said = str(error) or type(error).__name__
        return say("The server cannot be reached: {reason}", reason=said[:300]), "", True
    return None


def _refused(status: int) -> tuple[str, str, bool]:
    if status in (401, 403):
        return (
            say("The server asks who is there (HTTP {status}).", status=Amount(str(status))),
            say("Enter a header that says so, such as Authorization, with what its provider gave you."),
            False,
        )
    if status == 404:
        return (
            say("The server knows no such address (HTTP 404)."),
            say("Addresses of MCP servers often end in /mcp or /sse."),
            False,
        )
    return say("The server refuses (HTTP {status}).", status=Amount(str(status))), "", True
