"""One server, from the connection to its end: its tools, calls of them, and what changes meanwhile."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal

import anyio
import mcp_types as types
from anyio import CancelScope
from mcp import MCPError
from mcp.client import Client, ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from engine import __version__
from engine.protocol.sentences import Amount, say
from engine.protocol.tool_servers import Broken, Listed, ProgramServer, Report, ToolFacts, WebServer
from engine.tool_servers.addresses import KINDS, OLDER_KIND_STATUS, address_streams, unreached
from engine.tool_servers.diagnostics import Diagnostics
from engine.tool_servers.listing import listed
from engine.tool_servers.programs import program_streams, unstarted
from engine.tool_servers.results import parts_of

CONNECT_SECONDS = 60.0  # with the list of tools; the first start of some programs downloads them
LEAVE_SECONDS = 5.0  # to tell a server at an address that its session is over
CALL_SECONDS = 600.0  # without a word of progress
PROGRESS_SECONDS = 0.1  # between two reports of a call's progress
_SETTLING_SECONDS = 0.2  # before tools are listed again: they change in flocks
_LISTEN_AGAIN_SECONDS = 10.0
_NO_HANDSHAKE = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)  # said to it by newer servers alone
_LONGEST_WORDS = 1000  # characters of a server's own words in a sentence

Tell = Callable[[Report], Awaitable[None]]
Progress = Callable[[float, float, str], Awaitable[None]]
_CALLED: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


class _Watched:
    """A stream of messages that tells when it has ended: a session that is idle would not notice."""

    def __init__(self, stream: Any, ended: anyio.Event) -> None:
        self._stream, self._ended = stream, ended

    @property
    def last_context(self) -> Any:
        """What the SDK carries with a message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message."""
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended.set()
            raise

    async def aclose(self) -> None:
        """Take no more."""
        await self._stream.aclose()

    def __aiter__(self) -> "_Watched":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> "_Watched":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        stopped: bool | None = await self._stream.__aexit__(*error)
        return stopped


class Connection:
    """`run` connects and stays until the server ends or `end` is called; what comes of it is told.

    Declined are a server's own requests, for answers of the model, of the person, and for folders: the SDK answers
    them with an error where nobody takes them.
    """

    def __init__(self, server: str, to: ProgramServer | WebServer, tell: Tell) -> None:
        self._server, self._to, self._tell = server, to, tell
        self._scope = CancelScope()
        self._is_wanted = True
        self._session: ClientSession | None = None
        self._ended, self._changed = anyio.Event(), anyio.Event()
        self.over = anyio.Event()

    def end(self) -> None:
        """End it, and tell nothing more. A server at an address is told that its session is over."""
        self._is_wanted = False
        if isinstance(self._to, WebServer) and self._session is not None:
            self._ended.set()
        else:
            self._scope.cancel()

    async def run(self) -> None:
        """Connect and stay; tells `Listed` whenever tools are known, and why it is over, unless it was ended."""
        try:
            with self._scope:
                broken = await self._hold_either()
                if self._is_wanted:
                    await self._tell(broken)
        finally:
            self.over.set()

    async def _hold_either(self) -> Broken:
        """In another way, where the first is not understood; where that is not either, the first reason is told.

        Of a program the newest protocol: it comes second, as many of the older ones end, or say nothing, when their
        first message is not that of the handshake. Of an address the older kind.
        """
        if isinstance(self._to, ProgramServer):
            diagnostics = Diagnostics()
            broken, was_listed = await self._hold("", diagnostics, "legacy")
            if was_listed or not diagnostics.knows_no_handshake:
                return broken
            newer, was_listed = await self._hold("", Diagnostics())
            return newer if was_listed else broken
        kinds = (self._to.kind,) if self._to.kind in KINDS else KINDS
        diagnostics = Diagnostics()
        broken, was_listed = await self._hold(kinds[0], diagnostics)
        if was_listed or len(kinds) == 1 or diagnostics.status not in OLDER_KIND_STATUS:
            return broken
        older, was_listed = await self._hold(kinds[1], Diagnostics())
        return older if was_listed else broken

    async def _hold(
        self, kind: str, diagnostics: Diagnostics, mode: Literal["auto", "legacy"] = "auto"
    ) -> tuple[Broken, bool]:
        """Why the connection is over, and whether it had stood."""
        self._ended = anyio.Event()
        was_listed = False
        error: Exception | None = None
        with CancelScope(deadline=anyio.current_time() + CONNECT_SECONDS) as connecting:
            try:
                async with self._client(self._streams(kind, diagnostics), mode) as client:
                    tools, left_out = await listed(client.session)
                    connecting.deadline = math.inf
                    was_listed = True
                    await self._stay(client, tools, left_out)
                    connecting.deadline = anyio.current_time() + LEAVE_SECONDS
            except Exception as raised:  # noqa: BLE001  # whatever a server can bring about is told
                error = _innermost(raised)
                diagnostics.knows_no_handshake = isinstance(error, MCPError) and error.code in _NO_HANDSHAKE
            finally:
                self._session = None
        if connecting.cancelled_caught and not was_listed:
            diagnostics.reason = say("It has not answered within {seconds} seconds.", seconds=CONNECT_SECONDS)
            diagnostics.hint = say("The first start of a program may have to download it: try again.")
        return self._broken(error, diagnostics), was_listed

    def _client(self, streams: AbstractAsyncContextManager[Any], mode: Literal["auto", "legacy"]) -> Client:
        information = types.Implementation(name="coppice", title="Coppice", version=__version__)
        return Client(streams, mode=mode, cache=None, client_info=information, message_handler=self._on_message)

    @asynccontextmanager
    async def _streams(self, kind: str, diagnostics: Diagnostics) -> AsyncIterator[Any]:
        to = self._to
        source = (
            program_streams(to, diagnostics)
            if isinstance(to, ProgramServer)
            else address_streams(to, kind, diagnostics)
        )
        async with source as (received, sent):
            yield _Watched(received, self._ended), sent

    async def _stay(self, client: Client, tools: tuple[ToolFacts, ...], left_out: int) -> None:
        self._session = client.session
        await self._tell(Listed(self._server, tools, left_out))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._list_again)
            tasks.start_soon(self._listen, client)
            await self._ended.wait()
            tasks.cancel_scope.cancel()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _list_again(self) -> None:
        """Whenever the server says that its tools have changed. One that cannot list them keeps those it had."""
        while True:
            await self._changed.wait()
            await anyio.sleep(_SETTLING_SECONDS)
            self._changed = anyio.Event()
            if self._session is not None:
                with suppress(MCPError, ValidationError), anyio.move_on_after(CONNECT_SECONDS):
                    await self._tell(Listed(self._server, *await listed(self._session)))

    async def _listen(self, client: Client) -> None:
        """Servers of the newest protocol tell of changes to those who ask for it."""
        offers = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or offers is None or not offers.list_changed:
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._changed.set()
            except MCPError:
                return
            except SubscriptionLost:
                pass
            await anyio.sleep(_LISTEN_AGAIN_SECONDS)
            self._changed.set()

    def _broken(self, error: Exception | None, diagnostics: Diagnostics) -> Broken:
        reason, hint, may_pass = diagnostics.reason, diagnostics.hint, True
        if not reason:
            reason, hint, may_pass = self._reason_of(error, diagnostics)
        return Broken(self._server, reason, hint, tuple(diagnostics.lines), may_pass)

    def _reason_of(self, error: Exception | None, diagnostics: Diagnostics) -> tuple[str, str, bool]:
        if isinstance(self._to, WebServer) and (known := unreached(error or Exception(), diagnostics)):
            return known
        if isinstance(self._to, ProgramServer) and isinstance(error, OSError):
            return *unstarted(self._to, error), False
        if isinstance(error, MCPError) and error.code != types.CONNECTION_CLOSED:
            return say("The server refuses: {words}", words=error.message[:_LONGEST_WORDS]), "", True
        if error is None or isinstance(error, MCPError):
            return say("The connection has ended."), "", True
        words = f"{type(error).__name__}: {error}"[:_LONGEST_WORDS]
        return say("The server is not understood: {words}", words=words), "", True

    async def call(self, tool: str, arguments: Mapping[str, Any], progress: Progress) -> tuple[tuple[str, ...], bool]:
        """What a call came to, and whether that is an error. Cancelled, it tells the server so."""
        if self._session is None:
            return (say("The server is not connected."),), True
        with anyio.move_on_after(CALL_SECONDS) as limit:
            told = 0.0

            async def renew(done: float, total: float | None, words: str | None) -> None:
                nonlocal told
                limit.deadline = anyio.current_time() + CALL_SECONDS
                if anyio.current_time() - told >= PROGRESS_SECONDS:
                    told = anyio.current_time()
                    await progress(done, total or 0.0, (words or "")[:_LONGEST_WORDS])

            try:
                return await self._called(self._session, tool, dict(arguments), renew)
            except MCPError as error:
                return self._refused(error)
            except ValidationError:
                return (say("What the server sent is no result of a tool."),), True
        minutes = Amount(f"{CALL_SECONDS / 60:g}")
        return (say("The tool has not answered within {minutes} minutes.", minutes=minutes),), True

    async def _called(
        self, session: ClientSession, tool: str, arguments: dict[str, Any], renew: Any
    ) -> tuple[tuple[str, ...], bool]:
        """Without the SDK's check of a result against its schema: a server's patterns can take for ever to match."""
        parameters = types.CallToolRequestParams(name=tool, arguments=arguments)
        request = types.CallToolRequest(params=parameters)
        result = await session.send_request(request, _CALLED, progress_callback=renew)
        if isinstance(result, types.InputRequiredResult):
            return (say("The tool asks for more in the middle of the call, which Coppice does not answer."),), True
        return parts_of(result), result.is_error

    def _refused(self, error: MCPError) -> tuple[tuple[str, ...], bool]:
        if error.code == types.CONNECTION_CLOSED:
            return (say("The connection to the server ended during the call."),), True
        if error.message == "Session terminated":  # the SDK's words: a server over HTTP was started anew
            self._ended.set()
        return (say("The server refuses the call: {words}", words=error.message[:_LONGEST_WORDS]),), True


def _innermost(error: Exception) -> Exception:
    """The first error of a group: what happened, before all that followed from it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
