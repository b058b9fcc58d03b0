"""The engine as a child process: commands in, events out, over one authenticated local connection.

Started as `python -m engine.process` with COPPICE_ENGINE_ADDRESS and COPPICE_ENGINE_KEY (hex) in the environment.
"""

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil

from engine.errors import Cancellation
from engine.files import let_many_files_open
from engine.idle_threads import ask_for_fast_cores, let_idle_threads_sleep
from engine.loading.out_of_memory import let_gpu_segments_grow
from engine.observing.answerer import Answerer
from engine.observing.watcher import Watcher
from engine.protocol.keeping import ForgetTexts, KeepTexts
from engine.protocol.messages import (
    PROTOCOL,
    UNHEARD_EXIT,
    Appraise,
    Appraised,
    Cancel,
    Command,
    Count,
    Counted,
    Event,
    Finished,
    Generate,
    Load,
    Queued,
    Ready,
    Request,
    Shutdown,
)
from engine.protocol.serving import Serve, StopServing
from engine.protocol.watching import Inspect, Watch
from engine.serving.desk import Desk, Job, window_name
from engine.serving.switch import ServerSwitch
from engine.serving.worker import Worker, failed_by

if TYPE_CHECKING:
    from engine.loading.estimate import Estimator

OOM_SCORE = 500  # added to what the process inherits; weighs as much as half of the machine's memory
SECONDS_TO_COUNT = 10.0  # a pattern of the model's tokenizer may never end


class EngineProcess:
    """Answers one request after the other, while a second thread listens for `Cancel`, `Shutdown` and the end.

    `Appraise` and `Count` are answered beside them. Whatever is raised anywhere, every question gets its answer.
    """

    def __init__(
        self,
        connection: "Connection[Event, Command]",
        reading: "Future[None]",
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        """`reading` is done as soon as what loading and answering need has been imported, or could not be.

        `leave` ends the process with an exit code: not `sys.exit`, as the main thread may be deep inside a pass.
        """
        self._connection = connection
        self._reading = reading
        self._leave = leave
        self._sending = threading.Lock()
        self._posted: deque[bytes] = deque()  # events that are sent as soon as nobody else sends
        self._has_posted = threading.Event()
        threading.Thread(target=self._deliver, name="events", daemon=True).start()
        self._desk = Desk()
        self._appraisals = Answerer("appraisals", self._appraised, _failure, self._post)
        self._counts = Answerer("counts", self._counted, _failure, self._post, SECONDS_TO_COUNT)
        self._estimator: Estimator | None = None
        self._has_loaded = False  # or begun to: what libraries take can no longer be told from a pair
        self._cancellation = Cancellation()
        self._server = ServerSwitch(self._desk, self._post, reading)
        self._told_to_wait: set[int] = set()  # requests of windows
        self._watcher = Watcher(self._send)
        self._worker = Worker(self._desk, self._cancellation, self._watcher, reading, self._send, compiles_ahead=True)

    def run(self) -> None:
        """Serve until the connection closes or `Shutdown` comes; the listening thread then ends the process."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        self._send(Ready(PROTOCOL, os.getpid()))
        self._worker.run()

    def _listen(self) -> None:
        """Never waits for the model: a stop is seen at once, and the process ends even in the middle of a pass."""
        code = UNHEARD_EXIT
        try:
            self._receive()
            code = 0
        except BaseException:  # noqa: BLE001  # without commands the engine is of no use
            traceback.print_exc()
        finally:
            self._leave(code)

    def _receive(self) -> None:
        """Take commands until `Shutdown`, or until the application is gone; raises what makes one unreadable."""
        while True:
            try:
                message = self._connection.recv_bytes()
            except (EOFError, OSError):
                return
            command = pickle.loads(message)  # noqa: S301  # from the application, which alone has the key
            if isinstance(command, Shutdown):
                return
            try:
                self._take(command)
            except BaseException as error:  # noqa: BLE001  # fails this command; those that come next are read
                self._fail(command, error)

    def _take(self, command: Command) -> None:
        if isinstance(command, Cancel):
            self._cancel(command.through, window_name(command.asker))
        elif isinstance(command, Watch):
            self._watcher.watch(command)
        elif isinstance(command, Inspect):
            if inspected := self._watcher.answer(command):
                self._post(inspected)
        elif isinstance(command, Appraise):
            self._appraisals.put(command)
        elif isinstance(command, Count):
            self._counts.put(command)
        elif isinstance(command, Request):
            self._has_loaded |= isinstance(command, Load)
            asker = window_name(command.asker if isinstance(command, Generate) else 0)
            self._desk.put(Job(command, asker, self._send, partial(self._moved, command.id, asker)))
        elif isinstance(command, Serve | StopServing):
            self._server.turn(command)
        elif isinstance(command, KeepTexts):
            self._worker.keeping = command
        elif isinstance(command, ForgetTexts):
            if engine := self._desk.engine:
                engine.forget(command.conversations)
        else:
            raise TypeError(f"no command: {command!r:.200}")

    def _cancel(self, through: int, asker: str) -> None:
        """What runs ends within one layer; what waits behind the requests of others ends at once."""
        self._cancellation.cancel(through, asker)
        for job in self._desk.withdraw(asker, through):
            self._told_to_wait.discard(job.request.id)
            self._post(Finished(job.request.id, "cancelled"))

    def _moved(self, request: int, asker: str, ahead: int) -> None:
        """Only who waits behind others wants to know, and when that is over. The desk calls this in turn."""
        if ahead and self._desk.serves_others(asker):
            self._told_to_wait.add(request)
            self._post(Queued(request, ahead))
        elif not ahead and request in self._told_to_wait:
            self._told_to_wait.remove(request)
            self._post(Queued(request, 0))

    def _fail(self, command: Command, error: BaseException) -> None:
        traceback.print_exception(error)
        if isinstance(command, Request | Appraise | Count):
            self._post(_failure(command, error))

    def _appraised(self, question: Appraise) -> Appraised:
        self._reading.result()  # imports that meet in two threads can see each other half done
        from engine.loading.estimate import Estimator  # noqa: PLC0415  # torch

        self._estimator = self._estimator or Estimator(loaded=self._has_loaded)
        return self._estimator.estimate(question)

    def _counted(self, question: Count) -> Counted:
        """Counting may never end, and an engine that is unloaded meanwhile must be free to go: it is not held."""
        engine = self._desk.engine
        if engine is None:
            return _no_count(question)
        from engine.text.prompt import count_tokens  # noqa: PLC0415  # what an engine has read by now

        tokenizer, context_tokens, write = engine.tokenizer, engine.context_tokens, engine.write_pictures
        del engine
        return count_tokens(tokenizer, question, context_tokens, write)

    def _send(self, event: Event) -> None:
        """Send, and wait until it is taken: who answers cannot run ahead of the application."""
        content = pickle.dumps(event)
        with self._sending:
            self._send_posted()
            self._write(content)

    def _post(self, event: Event) -> None:
        """Have it sent, without waiting.

        The listening thread must go on reading: an application that is sending itself takes nothing meanwhile.
        """
        self._posted.append(pickle.dumps(event))
        self._has_posted.set()

    def _deliver(self) -> None:
        while self._has_posted.wait():
            self._has_posted.clear()
            try:
                with self._sending:
                    self._send_posted()
            except BaseException:  # noqa: BLE001  # costs one event; those that come next are sent
                traceback.print_exc()

    def _send_posted(self) -> None:
        while self._posted:
            self._write(self._posted.popleft())

    def _write(self, content: bytes) -> None:
        try:
            self._connection.send_bytes(content)
        except OSError:  # the application is gone
            self._leave(0)


def _failure(command: Request | Appraise | Count, error: BaseException) -> Event:
    """The answer to a command that could not be handled."""
    if isinstance(command, Count):
        return _no_count(command)
    failed = failed_by(command.id, error)
    return Appraised(command.id, "no", failed.message) if isinstance(command, Appraise) else failed


def _no_count(question: Count) -> Counted:
    return Counted(question.id, 0, 0, (0,) * len(question.texts))


def _read_ahead(reading: "Future[None]") -> None:
    """Import what every load needs while the application opens its window: torch alone takes seconds."""
    gc.disable()  # none of this is freed again, and the collector took a fifth of the time
    try:
        import engine.engine  # noqa: PLC0415
        import engine.loading.estimate  # noqa: PLC0415
        import engine.loading.pair  # noqa: F401, PLC0415
    except BaseException as error:  # noqa: BLE001  # for the load, where it becomes an event; it would wait for ever
        reading.set_exception(error)
    else:
        reading.set_result(None)
    finally:
        gc.freeze()
        gc.enable()


def _configure_process() -> None:
    """Stay off the network, leave the application a core, end with it, and keep prompts out of core files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the window
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one text at a time: threads of the library would have no work
    cores = psutil.cpu_count(logical=False) or 2
    # The window needs a core of its own: with all of two, answers of the embedded pair took twice as long beside it.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores - 1)))
    let_gpu_segments_grow()
    let_idle_threads_sleep()
    ask_for_fast_cores()
    let_many_files_open()
    forbid_core_files()
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # Linux only

        # The listening thread sees the connection close; this holds even if that thread cannot run.
        set_parent_death_signal, sigkill = 1, 9
        ctypes.CDLL(None).prctl(set_parent_death_signal, sigkill, 0, 0, 0)
        _raise_oom_score()


def forbid_core_files() -> None:
    """Prompts are nothing that a crash may leave on the disk."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _raise_oom_score() -> None:
    """Where memory runs out, have the kernel end this process and not the window with the chats."""
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):  # a sandbox may not show it
        score.write_text(str(min(1000, int(score.read_text()) + OOM_SCORE)))


def main() -> None:
    """Connect to the application that started this process, and serve it."""
    address = os.environ.pop("COPPICE_ENGINE_ADDRESS", "")
    key = os.environ.pop("COPPICE_ENGINE_KEY", "")
    if not address or not key:
        sys.exit("error: engine.process is started by the application. Use `coppice-engine` on a terminal.")
    _configure_process()
    reading: Future[None] = Future()
    threading.Thread(target=_read_ahead, args=(reading,), name="imports", daemon=True).start()
    if sys.platform != "win32":  # there the window in front goes first anyway: see `ask_for_fast_cores`
        os.nice(5)  # a CPU-bound pass must not take the window's turn; on Linux the thread before this stays as it is
    try:
        connection = cast("Connection[Event, Command]", Client(address, authkey=bytes.fromhex(key)))
        EngineProcess(connection, reading).run()
    except BaseException:  # noqa: BLE001  # a process without an application must end
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    main()
