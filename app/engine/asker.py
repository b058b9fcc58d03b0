"""The engines as one window sees them: it asks under its number, and hears of its own requests alone."""

from PySide6.QtCore import QObject, Signal

from app.engine.interface import EngineSwitch
from engine.protocol.messages import ChatMessage, Event
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import Tool
from engine.protocol.watching import Inspect, Watch


class Asker(QObject):
    """One of several windows before the same engines; implements `Answerer`.

    `events_arrived` leaves out what tells of the requests of other windows.
    """

    events_arrived = Signal(list)

    def __init__(self, switch: EngineSwitch, number: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.number = number
        self._switch = switch
        switch.events_arrived.connect(self._on_events)

    def generate(self, chat: tuple[ChatMessage, ...], options: GenerateOptions, *, tools: tuple[Tool, ...] = ()) -> int:
        """As `Answerer.generate`, in this window's turn."""
        return self._switch.generate(chat, options, self.number, tools=tools)

    def count(self, chat: tuple[ChatMessage, ...], texts: tuple[str, ...] = (), *, tools: tuple[Tool, ...] = ()) -> int:
        """As `Answerer.count`."""
        return self._switch.count(chat, texts, self.number, tools=tools)

    def look(self, command: Watch | Inspect) -> None:
        """As `Answerer.look`; what other windows watch is watched on."""
        self._switch.look(command, self.number)

    def cancel(self, through: int) -> None:
        """Cancel every request of this window whose id is at most `through`."""
        self._switch.cancel(through, self.number)

    def close(self) -> None:
        """The window goes: what it asked for ends, and nothing is watched for it any more."""
        self._switch.events_arrived.disconnect(self._on_events)
        self._switch.forget(self.number)

    def _on_events(self, events: list[Event]) -> None:
        own = [each for each in events if self._switch.concerns(self.number, each)]
        if own:
            self.events_arrived.emit(own)
