"""What the window asks of an engine, wherever it runs; and the switch between the local one and one elsewhere."""

from typing import Protocol

from PySide6.QtCore import QObject, Signal, SignalInstance

from engine.protocol.messages import ChatMessage, Event, Failed, Ready
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.protocol.serving import Serve, StopServing
from engine.protocol.tools import Tool
from engine.protocol.watching import Inspect, Watch

APPLICATION = 0  # the asker of loads, and of all that no window asks for; windows have the numbers from 1 on
_MOST_ASKED = 10_000  # requests and counts of which it is known who asked


class Answerer(Protocol):
    """Whoever answers conversations. Ids grow over all engines, so that cancelling by number holds for each of them.

    Every request ends in one `Finished` or `Failed`. Methods belong to the window's thread and return at once.
    """

    @property
    def events_arrived(self) -> SignalInstance:
        """A list of events."""

    def generate(self, chat: tuple[ChatMessage, ...], options: GenerateOptions, *, tools: tuple[Tool, ...] = ()) -> int:
        """Ask for the answer to a conversation, with tools to call; returns the id that the answering events carry."""

    def count(self, chat: tuple[ChatMessage, ...], texts: tuple[str, ...] = (), *, tools: tuple[Tool, ...] = ()) -> int:
        """Ask how many tokens these have, the conversation with its tools; returns the id of the `Counted`."""

    def look(self, command: Watch | Inspect) -> None:
        """Say what is watched of the rounds, or ask about a node."""

    def cancel(self, through: int) -> None:
        """Cancel every request whose id is at most `through`."""

    def close(self) -> None:
        """End everything; nothing more is heard of it."""


class SharedAnswerer(Answerer, Protocol):
    """One that answers several askers, each a number: what one of them cancels leaves the others' answers alone."""

    @property
    def requested(self) -> SignalInstance:
        """A request, by its id and its asker."""

    @property
    def cancelled(self) -> SignalInstance:
        """Every request with at most this id, of this asker."""

    @property
    def engine_stopped(self) -> SignalInstance:
        """The engine is gone, or cannot be reached: a `Failed` says why."""

    def generate(
        self,
        chat: tuple[ChatMessage, ...],
        options: GenerateOptions,
        asker: int = APPLICATION,
        *,
        tools: tuple[Tool, ...] = (),
    ) -> int:
        """As `Answerer.generate`, in this asker's turn."""

    def cancel(self, through: int, asker: int = APPLICATION) -> None:
        """Cancel every request of this asker whose id is at most `through`."""


class Engine(SharedAnswerer, Protocol):
    """One that also loads models, tells what they would take, and serves others."""

    @property
    def engine_starting(self) -> SignalInstance:
        """Its process is being started."""

    def restart(self) -> None:
        """Begin anew, with another process."""

    def load(self, options: LoadOptions) -> int:
        """Ask for a pair; returns the id that the answering events carry."""

    def unload(self) -> int:
        """Have the memory of what is loaded given back; returns the id that the answering event carries."""

    def appraise(self, options: LoadOptions) -> int:
        """Ask what a pair would take and give; returns the id of its `Appraised`."""

    def serve(self, command: Serve | StopServing) -> None:
        """Switch the local server on or off."""


class EngineSwitch(QObject):
    """Stands for all engines: what concerns models goes to the local one, conversations to the one that is chosen.

    Requests and events of every engine are heard, so an answer under way ends where it was begun. `engine_starting`
    and `engine_stopped` are the local engine's: whoever chooses one elsewhere follows that one itself.
    """

    requested = Signal(int, int)
    cancelled = Signal(int, int)
    engine_starting = Signal()
    events_arrived = Signal(list)
    engine_stopped = Signal(Failed)

    def __init__(self, local: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._local = local
        self._chosen: SharedAnswerer = local
        self._watches: dict[int, Watch] = {}  # by asker
        self._askers: dict[int, int] = {}  # of requests and counts
        self._hear(local)
        local.engine_starting.connect(self.engine_starting)
        local.engine_stopped.connect(self.engine_stopped)

    @property
    def is_elsewhere(self) -> bool:
        """Whether conversations go to another engine than the local one."""
        return self._chosen is not self._local

    def choose(self, engine: SharedAnswerer | None) -> None:
        """Have conversations answered by this engine from now on; None for the local one. The former one is closed."""
        former, self._chosen = self._chosen, engine or self._local
        if engine is not None:
            self._hear(engine)
            engine.look(self._watch)
        if former is not self._local and former is not self._chosen:
            former.close()

    def load(self, options: LoadOptions) -> int:
        """As `Engine.load`, of the local engine."""
        return self._local.load(options)

    def unload(self) -> int:
        """As `Engine.unload`, of the local engine."""
        return self._local.unload()

    def appraise(self, options: LoadOptions) -> int:
        """As `Engine.appraise`, of the local engine."""
        return self._local.appraise(options)

    def serve(self, command: Serve | StopServing) -> None:
        """As `Engine.serve`, of the local engine."""
        self._local.serve(command)

    def generate(
        self,
        chat: tuple[ChatMessage, ...],
        options: GenerateOptions,
        asker: int = APPLICATION,
        *,
        tools: tuple[Tool, ...] = (),
    ) -> int:
        """As `Engine.generate`, of the chosen engine."""
        return self._asked(self._chosen.generate(chat, options, asker, tools=tools), asker)

    def count(
        self,
        chat: tuple[ChatMessage, ...],
        texts: tuple[str, ...] = (),
        asker: int = APPLICATION,
        *,
        tools: tuple[Tool, ...] = (),
    ) -> int:
        """As `Engine.count`, of the chosen engine."""
        return self._asked(self._chosen.count(chat, texts, tools=tools), asker)

    def look(self, command: Watch | Inspect, asker: int = APPLICATION) -> None:
        """Both engines are told: either may have had the round. What is watched, those to come should know too."""
        if isinstance(command, Watch):
            self._watches.pop(asker, None)
            if command != Watch():  # a window that goes says so last, and is forgotten by then
                self._watches[asker] = command
            command = self._watch
        self._chosen.look(command)
        if self._chosen is not self._local:
            self._local.look(command)

    def cancel(self, through: int, asker: int = APPLICATION) -> None:
        """Both engines are told: either may have such requests."""
        if self._chosen is not self._local:
            self._chosen.cancel(through, asker)
        self._local.cancel(through, asker)

    def concerns(self, asker: int, event: Event) -> bool:
        """Whether an event is this asker's to hear: all are but those of what another one asked for."""
        return isinstance(event, Ready) or self._askers.get(getattr(event, "id", 0), asker) == asker

    def forget(self, asker: int) -> None:
        """The asker is gone: what it asked for ends, and nothing is watched for it."""
        self.cancel(max((request for request, its in self._askers.items() if its == asker), default=0), asker)
        if self._watches.pop(asker, None):
            self.look(self._watch)

    def restart(self) -> None:
        """As `Engine.restart`, of the local engine."""
        self._local.restart()

    def close(self) -> None:
        """End all of them."""
        if self._chosen is not self._local:
            self._chosen.close()
        self._local.close()

    def _asked(self, number: int, asker: int) -> int:
        """Remember who asked; that of long ago is over."""
        self._askers[number] = asker
        if len(self._askers) > _MOST_ASKED:
            del self._askers[next(iter(self._askers))]
        return number

    @property
    def _watch(self) -> Watch:
        """What somebody wants to watch."""
        wanted = self._watches.values()
        return Watch(*(any(getattr(each, name) for each in wanted) for name in ("verdicts", "drafts", "layers")))

    def _hear(self, engine: SharedAnswerer) -> None:
        engine.requested.connect(self.requested)
        engine.cancelled.connect(self.cancelled)
        engine.events_arrived.connect(self.events_arrived)
