"""An engine elsewhere as the window has it, with everything that was heard of it."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pytestqt.qtbot import QtBot

from app.engine.remote.addresses import Place
from app.engine.remote.link import RemoteEngine
from app.engine.remote.servers import Server
from app.engine.remote.wire import Wire
from engine.protocol.messages import ChatMessage, Counted, Event, Failed, Finished, Round, Statistics, Wrote
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import Tool

PATIENCE_MS = 30_000
CHAT = (ChatMessage("user", "Tell me of a fox."),)


class Listener:
    """Asks one engine, and hears what comes."""

    def __init__(self, engine: RemoteEngine, qtbot: QtBot) -> None:
        self.engine, self._qtbot = engine, qtbot
        self.events: list[Event] = []
        self.servers: list[Server] = []
        self.stopped: list[Failed] = []
        engine.events_arrived.connect(self.events.extend)
        engine.found.connect(self.servers.append)
        engine.engine_stopped.connect(self.stopped.append)

    def connect(self) -> Server:
        """Look for the engine, which is there."""
        self.engine.look_for()
        self.wait(lambda: self.servers)
        model = self.servers[0].models[0]
        self.engine.place = Place(self.engine.place.address, model.name, self.servers[0].kind, model.context_tokens)
        return self.servers[0]

    def ask(
        self,
        options: GenerateOptions | None = None,
        chat: tuple[ChatMessage, ...] = CHAT,
        tools: tuple[Tool, ...] = (),
    ) -> Finished | Failed:
        """Have a question answered to its end."""
        self.engine.generate(chat, options or GenerateOptions(), tools=tools)
        self.wait(lambda: self.endings)
        return self.endings[-1]

    def count(self, *texts: str) -> Counted:
        """Have the conversation counted."""
        self.engine.count(CHAT, texts)
        self.wait(lambda: any(isinstance(each, Counted) for each in self.events))
        return next(each for each in self.events if isinstance(each, Counted))

    def wait(self, until: Callable[[], object]) -> None:
        """Let events arrive."""
        self._qtbot.waitUntil(lambda: bool(until()), timeout=PATIENCE_MS)

    @property
    def endings(self) -> list[Finished | Failed]:
        """How requests ended."""
        return [each for each in self.events if isinstance(each, Finished | Failed)]

    @property
    def failure(self) -> Failed:
        """The one bad ending."""
        assert [type(each) for each in self.endings] == [Failed]
        return next(each for each in self.endings if isinstance(each, Failed))

    @property
    def statistics(self) -> Statistics:
        """Of the one answer, which ended well."""
        ending = self.endings[0]
        assert isinstance(ending, Finished), ending
        assert ending.statistics is not None
        return ending.statistics

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(each.text for each in self.events if isinstance(each, Wrote | Round | Finished))


@contextmanager
def listening(
    address: str, qtbot: QtBot, key: str = "", kind: str = "", silent_seconds: float = PATIENCE_MS / 1000
) -> Iterator[Listener]:
    """An engine at an address, ended again."""
    wire = Wire(address, lambda: key, silent_seconds)
    engine = RemoteEngine(Place(address, "demo", kind), wire, itertools.count(1))
    try:
        yield Listener(engine, qtbot)
    finally:
        engine.close()
