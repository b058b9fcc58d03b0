"""The program that holds the connections to MCP servers, from its start to its end: orders go in, reports come out."""

import logging
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import IO

from app.engine.program import EngineProgram
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.installation.runtime.environment import engine_variables
from app.system.background import can_be_left, start
from app.system.plain_text import well_formed_values
from engine.errors import CoppiceError
from engine.protocol.tool_servers import MOST_LINE_BYTES, Order, Report, from_line, to_line

SECONDS_TO_END = 10.0
PROGRAM = ("-m", "engine.tool_servers")
_log = logging.getLogger("coppice.tools")

OnReport = Callable[[Report], None]
OnEnd = Callable[[str, str], None]
"""Why a program that nobody has ended has come to its end, and what to do, in sentences; both may be empty."""


class ToolsLink:
    """One process. It is started by a thread of its own, which then reads what it reports.

    `on_report` and `on_end` are called by that thread; `on_end` once, last, also where no process could be started.
    """

    def __init__(self, program: EngineProgram, on_report: OnReport, on_end: OnEnd) -> None:
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        start("tool servers", partial(_run, program, self._orders, on_report, on_end), partial(_broken, on_end))

    def order(self, order: Order) -> None:
        """Have something done; for the window's thread."""
        self._orders.put(order)

    def close(self) -> None:
        """End it, and with it every server."""
        self._orders.put(None)


def _run(program: EngineProgram, orders: "SimpleQueue[Order | None]", on_report: OnReport, on_end: OnEnd) -> None:
    try:
        with program.log.open("wb") as log:
            process = _started(program, log)
    except CoppiceError as error:
        on_end(error.message, error.hint)
        return
    except OSError as error:
        on_end(tr("The program that holds the connections could not be started: {reason}.").format(
            reason=reason_text(error)
        ), "")  # fmt: skip
        return
    with process, can_be_left():  # what it holds ends with it, and it ends with this program
        assert process.stdin, "it was started with pipes"
        try:
            start("tool orders", partial(_write, process.stdin, orders), lambda _error: process.kill())
            _read(process, on_report)
        finally:
            orders.put(None)
            _end(process)
    on_end("", "")


def _started(program: EngineProgram, log: IO[bytes]) -> "subprocess.Popen[bytes]":
    arguments, environment = program.find()
    return subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=engine_variables(environment) | {"PYTHONUTF8": "1"},
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )


def _read(process: "subprocess.Popen[bytes]", on_report: OnReport) -> None:
    assert process.stdout, "it was started with pipes"
    while line := process.stdout.readline(MOST_LINE_BYTES):
        try:
            report = from_line(line)
        except ValueError:
            _log.warning("The program of the tool servers said what is not understood; it is ended")
            return
        on_report(well_formed_values(report))  # type: ignore[arg-type]  # it is told no orders


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Most often it has ended. What is not understood, or what nobody reads, gets a moment to end its servers."""
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()


def _write(pipe: IO[bytes], orders: "SimpleQueue[Order | None]") -> None:
    """Until there are no more, or nobody reads them. The end of its input ends the program."""
    with can_be_left(), suppress(OSError, ValueError):
        while (order := orders.get()) is not None:
            pipe.write(to_line(order))
            pipe.flush()
    with suppress(OSError):
        pipe.close()


def _broken(on_end: OnEnd, _error: BaseException) -> None:
    on_end("", "")
