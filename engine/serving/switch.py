"""The server as the window switches it: on, off, or on with other options."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING

from engine.errors import CoppiceError
from engine.protocol.messages import Event
from engine.protocol.serving import Serve, Serving, ServingEnded, StopServing
from engine.serving.desk import Desk
from engine.serving.worker import failed_by

if TYPE_CHECKING:
    from engine.serving.listening import Listening


class ServerSwitch:
    """Holds the one server that runs, if one does. `tell` is called from any thread.

    Orders are carried out one after the other in a thread of their own: to read the web framework takes a second, and
    so may a server that ends; whoever hears commands must not wait for either.
    """

    def __init__(self, desk: Desk, tell: Callable[[Event], None], reading: "Future[None]") -> None:
        """`reading` is done as soon as nothing heavy is imported in another thread."""
        self._desk = desk
        self._tell = tell
        self._reading = reading
        self._running: Listening | None = None
        self._orders: SimpleQueue[Serve | StopServing] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="server-switch", daemon=True)

    def turn(self, command: Serve | StopServing) -> None:
        """Have done what the window asks for; how it stands afterwards is told. Returns at once."""
        self._orders.put(command)
        if self._thread.ident is None:
            self._thread.start()

    def _work(self) -> None:
        while True:
            self._tell(self._outcome(self._orders.get()))

    def _outcome(self, command: Serve | StopServing) -> Event:
        try:
            self._end()
            if isinstance(command, StopServing):
                return ServingEnded()
            self._running = self._listen(command)
        except CoppiceError as error:
            return ServingEnded(error.message, error.hint)
        except BaseException as error:  # noqa: BLE001  # the window waits for an answer, whatever fails
            failed = failed_by(0, error)
            return ServingEnded(failed.message, failed.hint)
        return Serving(self._running.address)

    def _listen(self, command: Serve) -> "Listening":
        self._reading.result()
        from engine.serving.listening import listen  # noqa: PLC0415  # fastapi, which few need

        return listen(self._desk, command.options, self._tell)

    def _end(self) -> None:
        running, self._running = self._running, None
        if running:
            running.close()
