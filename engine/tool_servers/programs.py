"""Servers that are programs on this computer: started, spoken to in lines, and ended with everything they started.

The SDK's own client of this kind keeps what a server writes without an end of line, however much that is, and passes
its error output on. How processes are started and ended is the SDK's.
"""

import errno
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types as types
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.os.win32.utilities import (
    close_process_job,
    create_windows_process,
    get_windows_executable_command,
    terminate_windows_process_tree,
)
from mcp.shared.message import SessionMessage

from engine.protocol.sentences import Amount, reason_of, say, shown
from engine.protocol.tool_servers import ProgramServer
from engine.tool_servers.diagnostics import Diagnostics

MOST_MESSAGE_BYTES = 64 << 20
SECONDS_TO_EXIT = 2.0  # after its input has ended; then it is told to end, and after as long again it is killed
_SECONDS_FOR_LAST_WORDS = 2.0
_POLL_SECONDS = 0.01
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)

Inbound = SessionMessage | Exception


class TooLargeError(Exception):
    """A line is longer than a message may be."""


@asynccontextmanager
async def program_streams(
    server: ProgramServer, diagnostics: Diagnostics
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Inbound], MemoryObjectSendStream[SessionMessage]]]:
    """The messages of a server that is started here, and those to it. Raises `OSError` where it cannot be started.

    The stream of messages ends with the server; `diagnostics` is told why.
    """
    process = await _started(server)
    inbound, received = anyio.create_memory_object_stream[Inbound](0)
    sent, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    heard = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, inbound, diagnostics)
        tasks.start_soon(_write, process, outbound, inbound)
        tasks.start_soon(_hear, process, diagnostics, heard)
        try:
            yield received, sent
        finally:
            diagnostics.is_leaving = True
            with anyio.CancelScope(shield=True):
                await _stop(process, heard)
            tasks.cancel_scope.cancel()
            for stream in (inbound, received, sent, outbound):
                stream.close()


async def _started(server: ProgramServer) -> Process:
    folder = server.folder or None
    if folder is not None and not await anyio.Path(folder).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
    environment = get_default_environment() | dict(server.environment)
    words = [server.command, *server.arguments]
    if sys.platform == "win32":
        words[0] = await anyio.to_thread.run_sync(get_windows_executable_command, server.command)
        errors = cast("Any", subprocess.PIPE)  # it is passed on as it is
        return cast("Process", await create_windows_process(words[0], words[1:], environment, errors, folder))
    return await anyio.open_process(words, env=environment, cwd=folder, stderr=subprocess.PIPE, start_new_session=True)


async def _read(process: Process, inbound: MemoryObjectSendStream[Inbound], diagnostics: Diagnostics) -> None:
    """Until the server closes its output, or says too much in a line. What is no message is kept as a line of it."""
    assert process.stdout is not None, "it was started with pipes"
    async with inbound:
        try:
            async for line in lines_of(process.stdout, MOST_MESSAGE_BYTES):
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    diagnostics.saw(line)
                else:
                    await inbound.send(SessionMessage(message))
        except TooLargeError:
            size = Amount(f"{MOST_MESSAGE_BYTES >> 20} MiB")
            diagnostics.reason = say("It sent a message of more than {size}.", size=size)
        except _GONE:
            pass
        else:
            if not diagnostics.is_leaving:  # else it ends because it was told to
                diagnostics.reason = await _ending_of(process)


async def lines_of(stream: ByteReceiveStream, most_bytes: int) -> AsyncIterator[bytes]:
    """Its lines without their ends; what comes behind the last end is none. Raises `TooLargeError`."""
    kept, searched = bytearray(), 0
    async for chunk in stream:
        kept += chunk
        while (end := kept.find(b"\n", searched)) >= 0:
            yield bytes(kept[:end])
            del kept[: end + 1]
            searched = 0
        searched = len(kept)
        if searched > most_bytes:
            raise TooLargeError


async def _ending_of(process: Process) -> str:
    """Why a server closed its output: most often it has ended, or will in a moment."""
    if not await _has_exited(process, _SECONDS_FOR_LAST_WORDS):
        return say("It closed its output.")
    code = process.returncode or 0
    return say("The program ended with exit code {code}.", code=Amount(str(code)))


async def _write(
    process: Process, outbound: MemoryObjectReceiveStream[SessionMessage], inbound: MemoryObjectSendStream[Inbound]
) -> None:
    assert process.stdin is not None, "it was started with pipes"
    try:
        async with outbound:
            async for each in outbound:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(line.encode("utf-8", "replace") + b"\n")
    except _GONE:
        await inbound.aclose()  # it may be alive, and deaf: whoever waits for an answer must not wait for ever


async def _hear(process: Process, diagnostics: Diagnostics, heard: anyio.Event) -> None:
    """Keep the last lines of its error output. One without an end is kept in pieces."""
    assert process.stderr is not None, "it was started with pipes"
    kept = b""
    try:
        with suppress(*_GONE):
            async for chunk in process.stderr:
                *whole, kept = (kept + chunk).split(b"\n")
                for line in whole:
                    diagnostics.saw(line)
                if len(kept) > 1 << 16:
                    diagnostics.saw(kept)
                    kept = b""
        diagnostics.saw(kept)
    finally:
        heard.set()


async def _stop(process: Process, heard: anyio.Event) -> None:
    """Close its input, wait a moment, then end it with all that it started; its last words are `heard`."""
    assert process.stdin is not None, "it was started with pipes"
    assert process.stdout is not None, "it was started with pipes"
    assert process.stderr is not None, "it was started with pipes"
    await _close(process.stdin)
    if not await _has_exited(process, SECONDS_TO_EXIT):
        if sys.platform == "win32":
            await terminate_windows_process_tree(process)
        else:
            await terminate_posix_process_tree(process, SECONDS_TO_EXIT)
        await _has_exited(process, SECONDS_TO_EXIT)
    elif sys.platform != "win32":
        await terminate_posix_process_tree(process, SECONDS_TO_EXIT)  # what it left behind
    close_process_job(process)
    with anyio.move_on_after(_SECONDS_FOR_LAST_WORDS):  # who left its group may hold the other end
        await heard.wait()
    await _close(process.stdout)
    await _close(process.stderr)
    # A child of the server may hold the other ends open: asyncio would wait for them.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _has_exited(process: Process, seconds: float) -> bool:
    """Whether it has within so many seconds. `wait` would also wait for whoever else holds its pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


async def _close(stream: AsyncResource) -> None:
    with suppress(*_GONE):
        await stream.aclose()


def unstarted(server: ProgramServer, error: OSError) -> tuple[str, str]:
    """Why a program could not be started, and what to do, as sentences."""
    command = shown(server.command)
    if isinstance(error, NotADirectoryError) and server.folder:
        return say("There is no folder {folder}.", folder=shown(server.folder)), ""
    if isinstance(error, FileNotFoundError):
        is_path = Path(server.command).parent != Path()
        hint = "" if is_path else say("Install it, or give its full path.")
        return say("There is no program {command}.", command=command), hint
    if isinstance(error, PermissionError):
        return say("{command} may not be run.", command=command), ""
    return say("{command} could not be started: {reason}", command=command, reason=reason_of(error)), ""
