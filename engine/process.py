"""The engine as a child process: commands in, events out, over one authenticated local connection.

Started as `python -m engine.process` with COPPICE_ENGINE_ADDRESS and COPPICE_ENGINE_KEY (hex) in the environment.
"""

import gc
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from multiprocessing.connection import Client, Connection
from typing import TYPE_CHECKING

import psutil

from engine.cancellation import Cancellation
from engine.errors import Cancelled, CoppiceError, InputError
from engine.messages import (
    PROTOCOL,
    Appraise,
    Appraised,
    Cancel,
    Command,
    Count,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Ready,
    Shutdown,
)
from engine.shortage import shortage_of
from engine.watcher import Watcher
from engine.watching import Inspect, Watch

if TYPE_CHECKING:
    from engine.engine import Engine

Request = Load | Generate


class EngineProcess:
    """Answers one request after the other, while a second thread listens for `Cancel`, `Shutdown` and the end.

    Two more, started when they are first needed, answer `Appraise` and `Count` beside them.
    """

    def __init__(self, connection: "Connection[Event, Command]", reading: "Future[None]") -> None:
        """`reading` is done as soon as what loading and answering need has been imported, or could not be."""
        self._connection = connection
        self._reading = reading
        self._sending = threading.Lock()
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._questions: queue.SimpleQueue[Appraise] = queue.SimpleQueue()
        self._counts: queue.SimpleQueue[Count] = queue.SimpleQueue()
        self._cancellation = Cancellation()
        self._engine: Engine | None = None
        self._watcher = Watcher(self._send)

    def run(self) -> None:
        """Serve until the connection closes or `Shutdown` comes; the listening thread then ends the process."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        self._send(Ready(PROTOCOL, os.getpid()))
        while True:
            self._serve(self._requests.get())

    def _listen(self) -> None:
        """Never waits for the model: a stop is seen at once, and the process ends even in the middle of a pass."""
        appraising = threading.Thread(target=self._appraise, name="appraisals", daemon=True)
        counting = threading.Thread(target=self._count, name="counts", daemon=True)
        try:
            while True:
                command = self._connection.recv()
                if isinstance(command, Cancel):
                    self._cancellation.cancel(command.through)
                elif isinstance(command, Shutdown):
                    break
                elif isinstance(command, Watch | Inspect):
                    self._look(command)
                elif isinstance(command, Appraise):
                    self._questions.put(command)
                    if appraising.ident is None:
                        appraising.start()
                elif isinstance(command, Count):
                    self._counts.put(command)
                    if counting.ident is None:
                        counting.start()
                else:
                    self._requests.put(command)
        except (EOFError, OSError):
            pass  # the application is gone
        finally:
            # Not sys.exit: the main thread may be deep inside a pass, and nobody is left to read what it would say.
            os._exit(0)

    def _serve(self, request: Request) -> None:
        self._cancellation.begin(request.id)
        try:
            for event in self._answer(request):
                self._send(event)
        except Cancelled:
            self._send(Finished(request.id, "cancelled"))
        except Exception as error:  # noqa: BLE001  # the one place where any failure becomes an event
            self._send(_failed(request.id, error))

    def _look(self, command: Watch | Inspect) -> None:
        if isinstance(command, Watch):
            self._watcher.watch(command)
        elif inspected := self._watcher.answer(command):
            self._send(inspected)

    def _appraise(self) -> None:
        appraiser = None
        while True:
            question = self._questions.get()
            try:
                self._reading.result()  # imports that meet in two threads can see each other half done
                from engine.appraisal import Appraiser  # noqa: PLC0415  # torch

                appraiser = appraiser or Appraiser(loaded=self._engine is not None)
                self._send(appraiser.appraise(question))
            except Exception as error:  # noqa: BLE001  # as in `_serve`: an answer must come
                self._send(Appraised(question.id, "no", _failed(question.id, error).message))

    def _count(self) -> None:
        while True:
            self._send(self._counted(self._counts.get()))

    def _counted(self, question: Count) -> Counted:
        """The engine is held no longer than this takes: what is unloaded must be free to go."""
        engine = self._engine
        try:
            if engine:
                return engine.count(question)
        except Exception:  # noqa: BLE001  # as in `_serve`: an answer must come
            traceback.print_exc()
        return Counted(question.id, 0, 0, (0,) * len(question.texts))

    def _send(self, event: Event) -> None:
        with self._sending:
            self._connection.send(event)

    def _answer(self, request: Request) -> Iterator[Event]:
        self._cancellation.check()
        self._reading.result()
        from engine.engine import load  # noqa: PLC0415  # torch, which is read by now
        from engine.pair import open_pair  # noqa: PLC0415

        if isinstance(request, Load):
            if self._engine and self._engine.options == request.options:
                yield from (self._engine.describe(request.id, seconds=0.0), Finished(request.id, "loaded"))
                return
            pair = open_pair(request.options)  # what is loaded stays until the new pair is known to be usable
            self._unload()
            self._engine = yield from load(request.id, pair, self._cancellation)
            return
        if self._engine is None:
            raise InputError("No model is loaded.", "Choose a model first.")
        prompt = self._engine.prompt(request.chat)
        yield from self._engine.generate(request.id, prompt, request.options, self._watcher)

    def _unload(self) -> None:
        if self._engine:
            self._engine.close()
        self._engine = None
        gc.collect()  # a model and its hooks hold each other; the next one needs their memory now


def _failed(request: int, error: Exception) -> Failed:
    if shortage := shortage_of(error, "this request"):
        traceback.print_exception(shortage)  # with what the allocator said, for the log
        return Failed(request, shortage.message, shortage.hint)
    if isinstance(error, CoppiceError):
        return Failed(request, error.message, error.hint)
    traceback.print_exception(error)
    words = str(error).strip().splitlines()
    detail = words[0][:300] if words else type(error).__name__
    return Failed(request, f"The engine met an unexpected error: {detail}", "Details are in the engine's log.")


def _read_ahead(reading: "Future[None]") -> None:
    """Import what every load needs while the application opens its window: torch alone takes seconds."""
    gc.disable()  # nothing of this goes again, and looking for garbage in it took a fifth of the time
    try:
        import engine.appraisal  # noqa: PLC0415
        import engine.engine  # noqa: PLC0415
        import engine.pair  # noqa: F401, PLC0415
    except Exception as error:  # noqa: BLE001  # for the load, where it becomes an event
        reading.set_exception(error)
    else:
        reading.set_result(None)
    gc.freeze()
    gc.enable()


def _settle_in() -> None:
    """Stay off the network, leave the application a core, and do not outlive it."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    cores = psutil.cpu_count(logical=False) or 2
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores - 1)))  # the window needs a core of its own
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # Linux only

        # The listening thread sees the connection close; this holds even if that thread cannot run.
        set_parent_death_signal, sigkill = 1, 9
        ctypes.CDLL(None).prctl(set_parent_death_signal, sigkill, 0, 0, 0)


def main() -> None:
    """Connect to the application that started this process, and serve it."""
    address = os.environ.pop("COPPICE_ENGINE_ADDRESS", "")
    key = os.environ.pop("COPPICE_ENGINE_KEY", "")
    if not address or not key:
        sys.exit("error: engine.process is started by the application. Use `coppice-engine` on a terminal.")
    _settle_in()
    reading: Future[None] = Future()
    threading.Thread(target=_read_ahead, args=(reading,), name="imports", daemon=True).start()
    if sys.platform != "win32":
        os.nice(5)  # a CPU-bound pass must not take the window's turn; on Linux the thread before this stays as it is
    EngineProcess(Client(address, authkey=bytes.fromhex(key)), reading).run()


if __name__ == "__main__":
    main()
