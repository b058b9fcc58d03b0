"""The guard at the door: every request passes it, is answered or refused, and is told of; whoever leaves is let go."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.protocol.serving import LOOPBACK
from engine.serving.context import Asker, Service
from engine.serving.guard.auth import OPEN_PATHS, is_known, unauthorized
from engine.serving.guard.bodies import LONG_BYTES, read_body, read_json, require_fit_headers
from engine.serving.guard.errors import api_error_of, response_to
from engine.serving.guard.limits import BodyBudget, Limits, Rates, network_of
from engine.serving.guard.origins import (
    is_preflight,
    preflight_answer,
    require_known_origin,
    require_own_host,
    response_headers,
)
from engine.serving.guard.routes import READ_ALREADY, leave_value
from engine.serving.guard.visits import OpenVisit, Visits


class Guard:
    """Middleware around everything else."""

    def __init__(self, app: ASGIApp, service: Service, limits: Limits) -> None:
        self._app, self._service, self._limits = app, service, limits
        self._rates = Rates(limits.requests_per_second, limits.burst)
        self._bodies = BodyBudget(limits.all_bodies_bytes, limits.short_bodies_bytes)
        self._visits = Visits(service.tell)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it; or the application's beginning and end."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, path, client = Headers(scope=scope), scope["path"], (scope["client"] or ("",))[0]
        visit = self._visits.begin(client, path, headers)
        scope.setdefault("state", {})["asker"] = _asker(client, headers, visit)
        response = Watched(send, response_headers(headers, self._service.options))
        try:
            await self._answer(scope, receive, response)
        except ClientDisconnect:
            pass
        except Exception as error:  # where every failure that no endpoint told of becomes a response
            visit.fail(api_error_of(error).message)
            if response.status:
                raise  # it is too late for words: uvicorn logs it and cuts the connection
            await response_to(path, error)(scope, receive, response)
        finally:
            visit.end(response.whole_status)
            self._service.metrics.responded(_route_of(scope), response.whole_status)

    async def _answer(self, scope: Scope, receive: Receive, response: "Watched") -> None:
        headers = Headers(scope=scope)
        self._require_welcome(scope, headers)
        if is_preflight(scope["method"], headers):
            await preflight_answer(headers)(scope, receive, response)
            return
        with self._bodies.share() as share:
            body = await read_body(headers, receive, self._limits, share)
            is_long = len(body) > LONG_BYTES
            leave_value(scope, await read_json(body, self._limits), is_long)
            del body  # the answer may take minutes
            await _while_there(self._app, scope, receive, response)

    def _require_welcome(self, scope: Scope, headers: Headers) -> None:
        """Raise `ApiError` for whom nothing is read or computed."""
        options, client = self._service.options, (scope["client"] or ("",))[0]
        require_own_host(headers, options)
        require_known_origin(headers, options)
        self._rates.take(client)  # a foreign web page must not use up the rate of this computer's own programs
        require_fit_headers(headers, self._limits)
        is_open = scope["path"] in OPEN_PATHS or is_preflight(scope["method"], headers)
        if options.api_key and not is_open and not is_known(headers, options.api_key):
            self._rates.charge(client, self._limits.wrong_key_requests)
            raise unauthorized(headers)


class Watched:
    """Sends a response, with headers of the guard's own, and knows how far it is."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self.status = 0
        self.is_whole = False
        self._send, self._headers = send, headers

    @property
    def whole_status(self) -> int:
        """The response's; 0 where it was never whole: the client left, or it failed on its way."""
        return self.status if self.is_whole else 0

    async def __call__(self, message: Message) -> None:
        """Send the next part, as ASGI has it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).update(self._headers)
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.is_whole = True


async def _while_there(app: ASGIApp, scope: Scope, receive: Receive, response: Watched) -> None:
    """Let `app` answer, and cancel it as soon as the client leaves. Raises what `app` raises."""
    gone = asyncio.Event()
    answering = asyncio.create_task(_run(app, scope, _replay(gone.wait), response))
    leaving = asyncio.create_task(_departure(receive))
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        gone.set()
        if not answering.done() and not response.is_whole:
            answering.cancel()
        await asyncio.wait((answering,))
        if not answering.cancelled():
            answering.result()
    finally:
        for task in (answering, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _run(app: ASGIApp, scope: Scope, receive: Receive, response: Watched) -> None:
    """As a coroutine of its own, which may be cancelled before it begins."""
    await app(scope, receive, response)


def _replay(until_gone: Callable[[], Awaitable[object]]) -> Receive:
    """What tells the application once that the body was read, and waits for the client's departure from then on."""
    parts = [READ_ALREADY]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        await until_gone()
        return {"type": "http.disconnect"}

    return receive


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _asker(client: str, headers: Headers, visit: OpenVisit) -> Asker:
    """Programs on this computer all have its address; they go by what they call themselves, others by their network."""
    is_here = client in LOOPBACK
    return Asker(f"{client} {headers.get('user-agent', '')}" if is_here else network_of(client), visit.hear)


def _route_of(scope: Scope) -> str:
    """The path as it stands in the description, also of what was refused; `other` for all that lead nowhere."""
    path = getattr(scope.get("route"), "path_format", "") or scope["path"]
    return path if path in scope["app"].openapi()["paths"] else "other"
