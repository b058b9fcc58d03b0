"""Carries out the window's orders: connections and calls side by side, and reports in one line after another."""

import json
import os
from functools import partial
from typing import Any, BinaryIO

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from engine.protocol.sentences import say
from engine.protocol.tool_servers import (
    MOST_LINE_BYTES,
    Answered,
    Call,
    Connect,
    Disconnect,
    Drop,
    Order,
    Progressed,
    Report,
    from_line,
    to_line,
)
from engine.tool_servers.connection import Connection

_REPORTS_AHEAD = 64  # a window that does not read has servers wait


def serve(orders: BinaryIO, reports: BinaryIO) -> None:
    """Until `orders` ends. Then all servers are ended, and this process: a thread of it may wait for a dead pipe."""
    anyio.run(Desk(orders, reports).run)
    os._exit(0)


class Desk:
    """`run` reads orders until they end, and leaves no server behind."""

    def __init__(self, orders: BinaryIO, reports: BinaryIO) -> None:
        self._orders, self._reports = orders, reports
        self._connections: dict[str, Connection] = {}
        self._calls: dict[int, CancelScope] = {}
        self._sent, self._waiting = anyio.create_memory_object_stream[Report](_REPORTS_AHEAD)

    async def run(self) -> None:
        """Read orders and carry them out."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, tasks)
            while line := await to_thread.run_sync(self._orders.readline, MOST_LINE_BYTES, abandon_on_cancel=True):
                self._take(from_line(line), tasks)
            tasks.cancel_scope.cancel()

    async def _write(self, tasks: TaskGroup) -> None:
        """Where nobody reads any more, everything ends."""
        try:
            async for report in self._waiting:
                await to_thread.run_sync(self._put, to_line(report), abandon_on_cancel=True)
        except OSError:
            tasks.cancel_scope.cancel()

    def _put(self, line: bytes) -> None:
        self._reports.write(line)
        self._reports.flush()

    def _take(self, order: Order | Report, tasks: TaskGroup) -> None:
        match order:
            case Connect():
                former = self._connections.get(order.server)
                made = self._connections[order.server] = Connection(order.server, order.to, self._sent.send)
                tasks.start_soon(self._connect, made, former)
            case Disconnect():
                if order.server in self._connections:
                    self._connections[order.server].end()
            case Call():
                scope = self._calls[order.number] = CancelScope()
                tasks.start_soon(self._call, order, scope)
            case Drop():
                if order.number in self._calls:
                    self._calls[order.number].cancel()

    async def _connect(self, made: Connection, former: Connection | None) -> None:
        """Once the former connection is over: two of a server at a time may be one too many for it."""
        if former is not None:
            former.end()
            await former.over.wait()
        await made.run()

    async def _call(self, order: Call, scope: CancelScope) -> None:
        began = anyio.current_time()
        parts: tuple[str, ...] = (say("The call was stopped."),)
        is_error = True
        with scope:
            try:
                parts, is_error = await self._called(order)
            except Exception as error:  # noqa: BLE001  # every call is answered
                parts = (say("The call failed: {reason}", reason=f"{type(error).__name__}: {error}"[:1000]),)
        del self._calls[order.number]
        await self._sent.send(Answered(order.number, parts, is_error, anyio.current_time() - began))

    async def _called(self, order: Call) -> tuple[tuple[str, ...], bool]:
        try:
            arguments: Any = json.loads(order.arguments)
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            return (say("The arguments are no JSON object."),), True
        connection = self._connections.get(order.server)
        if connection is None:
            return (say("The server is not connected."),), True
        return await connection.call(order.tool, arguments, partial(self._progress, order.number))

    async def _progress(self, number: int, done: float, total: float, words: str) -> None:
        await self._sent.send(Progressed(number, done, total, words))
