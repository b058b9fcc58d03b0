"""Has the engine answer something beside the conversation, which never hears of it: for everything that compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Answerer
from app.engine.steps import plausible
from app.engine.token_times import TokenClock, TokenTimes
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Ready, Round, Statistics, Wrote
from engine.protocol.options import GenerateOptions
from engine.protocol.sentences import joined, say

CANCELLED = say("The comparison was cancelled.")
OTHER_RUNS = say("Another comparison is running. Wait for its end, or cancel it.")


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """What came of a run. `statistics` is None where it failed or was cancelled; `words` say why, empty if it is well.

    `times` count from the first character of `text`; `chat` and `options` are what was asked.
    """

    request: int
    chat: tuple[ChatMessage, ...]
    options: GenerateOptions
    text: str
    times: TokenTimes
    statistics: Statistics | None = None
    words: str = ""


class SideRun(QObject):
    """One at a time, in the engine's own queue. The conversation goes first: what runs makes way for its answer."""

    grew = Signal(int)  # request
    ended = Signal(object)  # SideAnswer

    def __init__(self, link: Answerer, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._request = 0
        self._asked: tuple[tuple[ChatMessage, ...], GenerateOptions] = ((), GenerateOptions())
        self.last: SideAnswer | None = None
        """The last run that went well, until it is forgotten."""
        self._text = ""
        self._tokens = 0
        self._clock = TokenClock()

    @property
    def is_running(self) -> bool:
        """Whether the engine has not yet ended what it was asked."""
        return self._request != 0

    @property
    def so_far(self) -> SideAnswer:
        """What there is of the run."""
        return SideAnswer(self._request, *self._asked, self._text, self._clock.times(len(self._text)))

    @property
    def tokens(self) -> int:
        """How many there are of the run, also of an engine that tells no rounds."""
        return self._tokens

    def start(self, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> int:
        """Ask the engine; returns the request's id, which `grew` and `ended` carry."""
        assert not self.is_running, "one run at a time"
        self._text, self._tokens, self._clock = "", 0, TokenClock()
        self._asked = (chat, options)
        self._request = self._link.generate(chat, options)
        return self._request

    def cancel(self) -> None:
        """Stop the run, if there is one; it ends when the engine says so."""
        if self.is_running:
            self._link.cancel(self._request)

    def forget(self) -> None:
        """Other models are loaded now: what was written last is not what they would write."""
        self.last = None

    def on_events(self, events: Sequence[Event]) -> None:
        """Follow the run."""
        for event in events:
            if self._request and not isinstance(event, Ready) and event.id == self._request:
                self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case Round():
                self._clock.add(event)
                self._text += event.text
                self._tokens += event.new_tokens
                self.grew.emit(self._request)
            case Wrote():
                self._text += event.text
                self._tokens += max(0, event.tokens)
                self.grew.emit(self._request)
            case Failed():
                self._end(None, joined((event.message, event.hint)))
            case Finished(reason="cancelled"):
                self._end(None, CANCELLED)
            case Finished():
                self._text += event.text
                self._end(plausible(event.statistics or Statistics()), "")
            case _:
                pass

    def _end(self, statistics: Statistics | None, words: str) -> None:
        ended = replace(self.so_far, statistics=statistics, words=words)
        self._request = 0
        self.last = ended if statistics is not None else self.last
        self.ended.emit(ended)
