"""The server as the window switches it: on, off, or on with other options."""

from collections.abc import Callable

from engine.errors import CoppiceError
from engine.protocol.messages import Event
from engine.protocol.serving import Serve, Serving, ServingEnded, StopServing
from engine.serving.desk import Desk
from engine.serving.listening import Listening, listen


class ServerSwitch:
    """Holds the one server that runs, if one does. `tell` is called from any thread."""

    def __init__(self, desk: Desk, tell: Callable[[Event], None]) -> None:
        self._desk = desk
        self._tell = tell
        self._running: Listening | None = None

    def turn(self, command: Serve | StopServing) -> None:
        """Do what the window asks for, and tell how it stands afterwards."""
        if self._running:
            self._running.close()
            self._running = None
        if isinstance(command, StopServing):
            self._tell(ServingEnded())
            return
        try:
            self._running = listen(self._desk, command.options, self._tell)
        except CoppiceError as error:
            self._tell(ServingEnded(error.message, error.hint))
        else:
            self._tell(Serving(self._running.address))
