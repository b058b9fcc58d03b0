"""A link without a thread or a process: it keeps what is asked for, and a test says what is answered."""

from pathlib import Path

from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from engine.protocol.keeping import ForgetTexts, KeepTexts
from engine.protocol.messages import (
    PROTOCOL,
    Command,
    Count,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loading,
    Ready,
)
from engine.protocol.watching import Inspect, Watch
from tests.app.fake_engine import finished, loaded, round_of


class FakeLink(EngineLink):
    """`sent` holds every command but for `counts`, `looks` and `keeps`; `said` what else was asked, such as a start."""

    def __init__(self) -> None:
        super().__init__(EngineProgram(("nothing",), Path("engine.log")))
        self.sent: list[Command] = []
        self.counts: list[Count] = []
        self.looks: list[Watch | Inspect] = []
        self.keeps: list[KeepTexts | ForgetTexts] = []
        self.said: list[str] = []

    def start(self, *_: object) -> None:
        """Only noted."""
        self.said.append("start")

    def isRunning(self) -> bool:
        """As if the thread ran from the first start on."""
        return "start" in self.said

    def restart(self) -> None:
        """Only noted."""
        self.said.append("restart")

    def close(self) -> None:
        """Only noted."""
        self.said.append("close")

    def _submit(self, command: Command) -> None:
        if isinstance(command, Count):
            self.counts.append(command)
        elif isinstance(command, Watch | Inspect):
            self.looks.append(command)
        elif isinstance(command, KeepTexts | ForgetTexts):
            self.keeps.append(command)
        else:
            self.sent.append(command)

    @property
    def last_load(self) -> Load:
        """The newest load that was asked for."""
        return [each for each in self.sent if isinstance(each, Load)][-1]

    @property
    def last_question(self) -> Generate:
        """The newest answer that was asked for."""
        return [each for each in self.sent if isinstance(each, Generate)][-1]

    def answer(self, *events: Event) -> None:
        """Let events arrive, as one list."""
        self.events_arrived.emit(list(events))

    def become_ready(self) -> None:
        """Start an engine that loads whatever it is asked for."""
        self.engine_starting.emit()
        self.answer(Ready(PROTOCOL, 4711))
        self.load_what_was_asked()

    def load_what_was_asked(self) -> None:
        """Answer the newest load."""
        request = self.last_load
        self.answer(Loading(request.id, "Loading demo-target", 0, 2))
        self.answer(loaded(request.id, request.options.target), Finished(request.id, "loaded"))

    def say(self, *pieces: str) -> None:
        """Let rounds with these pieces arrive for the newest question, as one list."""
        request = self.last_question
        self.answer(*(round_of(request.id, index, piece) for index, piece in enumerate(pieces)))

    def finish(self, reason: str = "stop", passes: int = 3) -> None:
        """End the newest question well."""
        self.answer(finished(self.last_question.id, reason, passes))  # type: ignore[arg-type]

    def tell_count(self, tokens: int, context_tokens: int = 2048, texts: tuple[int, ...] = ()) -> None:
        """Answer the newest count."""
        self.answer(Counted(self.counts[-1].id, tokens, context_tokens, texts))

    def die(self, message: str = "The engine was killed, perhaps because memory ran out.") -> None:
        """End the engine, and with it the newest question if there is one, as the real link would."""
        ending = Failed(0, message, "Look into the log.")
        self.engine_stopped.emit(ending)
        asked = [each for each in self.sent if isinstance(each, Generate)]
        if asked:
            self.answer(Failed(asked[-1].id, ending.message, ending.hint))
