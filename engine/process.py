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
from multiprocessing.connection import Client, Connection
from typing import TYPE_CHECKING

import psutil

from engine.cancellation import Cancellation
from engine.errors import Cancelled, CoppiceError, InputError
from engine.messages import PROTOCOL, Cancel, Command, Event, Failed, Finished, Generate, Load, Ready, Shutdown

if TYPE_CHECKING:
    from engine.engine import Engine

Request = Load | Generate


class EngineProcess:
    """Answers one request after the other, while a second thread listens for `Cancel`, `Shutdown` and the end."""

    def __init__(self, connection: "Connection[Event, Command]") -> None:
        self._connection = connection
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._cancellation = Cancellation()
        self._engine: Engine | None = None

    def run(self) -> None:
        """Serve until the connection closes or `Shutdown` comes; the listening thread then ends the process."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        self._connection.send(Ready(PROTOCOL, os.getpid()))
        while True:
            self._serve(self._requests.get())

    def _listen(self) -> None:
        """Never waits for the model: a stop is seen at once, and the process ends even in the middle of a pass."""
        try:
            while True:
                command = self._connection.recv()
                if isinstance(command, Cancel):
                    self._cancellation.cancel(command.through)
                elif isinstance(command, Shutdown):
                    break
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
                self._connection.send(event)
        except Cancelled:
            self._connection.send(Finished(request.id, "cancelled"))
        except Exception as error:  # noqa: BLE001  # the one place where any failure becomes an event
            self._connection.send(_failed(request.id, error))

    def _answer(self, request: Request) -> Iterator[Event]:
        self._cancellation.check()
        from engine.engine import load  # noqa: PLC0415  # torch: seconds, so not before it is asked for
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
        yield from self._engine.generate(request.id, self._engine.prompt(request.chat), request.options)

    def _unload(self) -> None:
        if self._engine:
            self._engine.close()
        self._engine = None
        gc.collect()  # a model and its hooks hold each other; the next one needs their memory now


def _failed(request: int, error: Exception) -> Failed:
    if isinstance(error, CoppiceError):
        return Failed(request, error.message, error.hint)
    traceback.print_exception(error)
    words = str(error).strip().splitlines()
    detail = words[0][:300] if words else type(error).__name__
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower() or "can't allocate" in str(error):
        return Failed(
            request, f"Memory ran out: {detail}", "Close other programs, or choose a smaller model or budget."
        )
    return Failed(request, f"The engine met an unexpected error: {detail}", "Details are in the engine's log.")


def _settle_in() -> None:
    """Stay out of the application's way, off the network, and not alive without a parent."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    cores = psutil.cpu_count(logical=False) or 2
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores - 1)))  # the window needs a core of its own
    if sys.platform == "win32":
        return
    os.nice(5)  # a CPU-bound pass must not take the window's turn
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
    EngineProcess(Client(address, authkey=bytes.fromhex(key))).run()


if __name__ == "__main__":
    main()
