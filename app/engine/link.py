"""The thread that starts the engine process, carries commands down to it and events up from it."""

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pickle import UnpicklingError
from queue import Empty, SimpleQueue
from typing import Any

from PySide6.QtCore import QObject, Qt, QThread, Signal, SignalInstance

from app.engine.interface import APPLICATION
from app.engine.process import BROKEN, EngineChild, describe_exit
from app.engine.program import EngineProgram
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.system.background import lasting, report
from app.system.plain_text import well_formed_values
from engine.errors import CoppiceError
from engine.protocol.keeping import ForgetTexts, KeepTexts
from engine.protocol.messages import (
    PROTOCOL,
    Appraise,
    Cancel,
    ChatMessage,
    Command,
    Count,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Ready,
    Request,
    Shutdown,
    Unload,
)
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.serving import Serve, StopServing
from engine.protocol.tools import Tool
from engine.protocol.watching import Inspect, Watch

_log = logging.getLogger("coppice.engine")

_UNREADABLE = (UnpicklingError, AttributeError, ImportError, TypeError, ValueError)
_SECONDS_TO_PART = 1.0
_MOST_EVENTS = 1000  # in one list, so that a flood cannot keep the list from being delivered
_SECONDS_TO_GATHER = 0.02  # nor an engine that sends as fast as is read, which on a busy machine is not fast at all


class EngineLink(QThread):
    """The way to the engine. Every method but `run` belongs to the GUI thread and returns at once.

    Every request ends in one `Finished` or `Failed`; when the engine dies, the link writes the `Failed` itself.
    When it dies, `engine_stopped` comes first, so that the reason is known when such a `Failed` arrives.

    The thread has every signal emitted by the GUI thread: emitted by its own, one receiver could hear of a dead engine
    and the screen be painted, or the user's click be answered, before the next receiver does.
    """

    requested = Signal(int, int)  # a load or an answer, by its id, and who asks for it
    cancelled = Signal(int, int)  # every request with at most this id, of this asker
    engine_starting = Signal()
    events_arrived = Signal(list)
    engine_stopped = Signal(Failed)
    _said = Signal(object, tuple)  # from the thread: which of the three above is to be emitted, and with what

    def __init__(self, program: EngineProgram, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._program = program
        self.ids: Iterator[int] = itertools.count(1)  # other engines take theirs from here too
        self._commands: SimpleQueue[Command] = SimpleQueue()
        self._wake_reader, self._wake_writer = Pipe(duplex=False)
        self._child: EngineChild | None = None
        self._connected = False
        self._restarting = threading.Event()
        self._closing = threading.Event()
        self._running: set[int] = set()
        self._said.connect(self._on_said, Qt.ConnectionType.QueuedConnection)

    @property
    def program(self) -> EngineProgram:
        """What is started as the engine."""
        return self._program

    # ---- for the GUI thread -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the engine's process before the thread, which finds it then; what goes wrong is told by the thread."""
        with suppress(Exception):
            self._child = EngineChild(self._program)

    def load(self, options: LoadOptions) -> int:
        """Ask for a pair; returns the id that the answering events carry."""
        command = Load(next(self.ids), options)
        self.requested.emit(command.id, APPLICATION)
        self._submit(command)
        return command.id

    def unload(self) -> int:
        """Have the memory of what is loaded given back; returns the id that the answering event carries."""
        command = Unload(next(self.ids))
        self.requested.emit(command.id, APPLICATION)
        self._submit(command)
        return command.id

    def generate(
        self,
        chat: tuple[ChatMessage, ...],
        options: GenerateOptions,
        asker: int = APPLICATION,
        *,
        tools: tuple[Tool, ...] = (),
    ) -> int:
        """Ask for the answer to a conversation, with tools to call; returns the id that the answering events carry."""
        command = Generate(next(self.ids), well_formed_values(chat), options, well_formed_values(tools), asker=asker)
        self.requested.emit(command.id, asker)
        self._submit(command)
        return command.id

    def appraise(self, options: LoadOptions) -> int:
        """Ask what a pair would take and give; returns the id of its `Appraised`, which a dying engine never sends."""
        command = Appraise(next(self.ids), options)
        self._submit(command)
        return command.id

    def count(self, chat: tuple[ChatMessage, ...], texts: tuple[str, ...] = (), *, tools: tuple[Tool, ...] = ()) -> int:
        """Ask how many tokens these have; returns the id of the `Counted`, which a dying engine never sends."""
        command = Count(next(self.ids), well_formed_values(chat), well_formed_values(texts), well_formed_values(tools))
        self._submit(command)
        return command.id

    def look(self, command: Watch | Inspect) -> None:
        """Say what is watched of the rounds, or ask about a node; a new engine must be told anew."""
        self._submit(command)

    def serve(self, command: Serve | StopServing) -> None:
        """Switch the local server on or off; `Serving` or `ServingEnded` tells. A new engine must be told anew."""
        self._submit(command)

    def keep(self, command: KeepTexts | ForgetTexts) -> None:
        """Say what is kept of texts, from now on or until now; a new engine must be told anew."""
        self._submit(command)

    def cancel(self, through: int, asker: int = APPLICATION) -> None:
        """Cancel every request of this asker whose id is at most `through`."""
        self.cancelled.emit(through, asker)
        self._submit(Cancel(through, asker))

    def restart(self) -> None:
        """End the engine if it runs, and start a new one."""
        self._restarting.set()
        if self._child is not None:
            self._child.kill()
        self._wake()

    def close(self) -> None:
        """End the engine and this thread: a connected engine gets a second to exit, one still starting is killed."""
        self._closing.set()
        if self._child is not None and not self._connected:
            self._child.kill()
        self._wake()

    def wait_closed(self) -> None:
        """After `close`, block until the engine and the thread have ended; for when the window is gone."""
        if not self.wait(int(_SECONDS_TO_PART * 2000)) and self._child is not None:
            self._child.kill()
            self.wait()
        if self._child is not None:  # the thread was never started
            self._child.end()

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine, None where none runs."""
        child = self._child
        return None if child is None else child.pid

    def _submit(self, command: Command) -> None:
        self._commands.put(command)
        self._wake()

    def _wake(self) -> None:
        self._wake_writer.send_bytes(b"")

    def _on_said(self, signal: SignalInstance, values: tuple[Any, ...]) -> None:
        signal.emit(*values)

    # ---- in the thread ----------------------------------------------------------------------------------------------

    @lasting("engine link")
    def run(self) -> None:
        """Serve one engine after the other, until closed."""
        while not self._closing.is_set():
            self._said.emit(self.engine_starting, ())
            ending = self._serve_engine()
            if self._closing.is_set():
                return
            if self._restarting.is_set():
                ending = Failed(0, tr("The engine was restarted."))
            self._said.emit(self.engine_stopped, (ending,))
            self._fail_requests(ending)
            self._wait_for_restart()

    def _serve_engine(self) -> Failed:
        """Start an engine and carry messages until it is gone; returns why it went."""
        self._restarting.clear()
        try:
            child = self._child or EngineChild(self._program)
        except CoppiceError as error:
            return Failed(0, error.message, error.hint)
        except OSError as error:
            words = tr("The engine could not be started: {error}.").format(error=reason_text(error))
            return Failed(0, words, tr("Check the installation, then restart it."))
        except BaseException as error:  # noqa: BLE001  # an engine must be startable again
            return _unexpected(error)
        self._child = child
        if self._closing.is_set():
            child.kill()
        reason = ""
        try:
            with child.connect() as connection:
                reason = self._greet(connection)
                self._connected = not reason
                while self._connected and self._carry(connection):
                    pass
        except BROKEN:
            pass  # the exit code tells more
        except _UNREADABLE as error:
            reason = tr("The engine sent something that cannot be read ({error}).").format(error=error)
        except BaseException as error:  # noqa: BLE001  # a thread that ends would leave every request waiting
            reason = _unexpected(error).message
        finally:
            self._connected = False
            if reason or self._closing.is_set():
                child.kill()
            code = child.end()
            self._child = None
        is_wanted = self._closing.is_set() or self._restarting.is_set()
        level = logging.INFO if is_wanted else logging.WARNING
        _log.log(level, "The engine has ended: exit code %d%s", code, f" ({reason})" if reason else "")
        hint = tr("What it printed last is in {file}.").format(file=self._program.log) if child.has_printed else ""
        return Failed(0, reason or describe_exit(code), hint)

    def _greet(self, connection: "Connection[Any, Any]") -> str:
        """Read the first message; returns what is wrong with it, or nothing."""
        ready = connection.recv()
        if not isinstance(ready, Ready):
            return tr("The engine did not introduce itself.")
        if ready.protocol != PROTOCOL:
            return tr(
                "The engine speaks version {its} of the protocol, this window version {ours}: "
                "they come from different installations."
            ).format(its=ready.protocol, ours=PROTOCOL)
        self._said.emit(self.events_arrived, ([ready],))
        return ""

    def _carry(self, connection: "Connection[Any, Any]") -> bool:
        """Wait for either side and pass on what is there; False when it is time to part."""
        awake = wait([connection, self._wake_reader])
        if self._restarting.is_set():
            return False  # what waits now is for the next engine
        if self._wake_reader in awake:
            self._drain_wakes()
            with suppress(OSError):  # an engine that has just died may still have said something: read on to its end
                for command in self._take_commands():
                    connection.send(command)
        if self._closing.is_set():
            connection.send(Shutdown())
            _hear_out(connection)
            return False
        if connection in awake:
            self._pass_events(connection)
        return True

    def _pass_events(self, connection: "Connection[Any, Any]") -> None:
        """Emit what has arrived as one list, also when the connection breaks in the middle."""
        events: list[Event] = []
        deadline = time.monotonic() + _SECONDS_TO_GATHER
        try:
            while len(events) < _MOST_EVENTS and connection.poll():
                events.append(well_formed_values(connection.recv()))
                if time.monotonic() >= deadline:
                    break  # what has come is shown, and commands that wait are sent
        finally:
            self._running.difference_update(each.id for each in events if isinstance(each, Finished | Failed))
            if events:
                self._said.emit(self.events_arrived, (events,))

    def _take_commands(self) -> list[Command]:
        """Everything that waits in the queue; the requests in it run from now on."""
        commands: list[Command] = []
        while True:
            try:
                commands.append(self._commands.get_nowait())
            except Empty:
                break
        self._running.update(each.id for each in commands if isinstance(each, Request))
        return commands

    def _drain_wakes(self) -> None:
        while self._wake_reader.poll():
            self._wake_reader.recv_bytes()

    def _fail_requests(self, ending: Failed) -> None:
        """End what ran in the engine that is gone; what still waits is kept only if a new engine was asked for."""
        if not self._restarting.is_set():
            self._take_commands()
        failed = [Failed(each, ending.message, ending.hint) for each in sorted(self._running)]
        self._running.clear()
        if failed:
            self._said.emit(self.events_arrived, (failed,))

    def _wait_for_restart(self) -> None:
        """Without an engine every request fails at once."""
        while not (self._restarting.is_set() or self._closing.is_set()):
            self._wake_reader.recv_bytes()
            self._fail_requests(Failed(0, tr("The engine is not running."), tr("Restart it.")))


def _unexpected(error: BaseException) -> Failed:
    """Report an unexpected error; returns the end of the engine that it means."""
    report(error)
    words = tr("The connection to the engine failed because of an error in this program ({error}).")
    return Failed(0, words.format(error=str(error) or type(error).__name__), tr("Restart it; the log tells more."))


def _hear_out(connection: "Connection[Any, Any]") -> None:
    """Give an engine that was told to end a moment to do so; raises `EOFError` as soon as it has."""
    deadline = time.monotonic() + _SECONDS_TO_PART
    while (left := deadline - time.monotonic()) > 0 and connection.poll(left):
        connection.recv()
