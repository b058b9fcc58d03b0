"""Has the engine answer something beside the conversation, which never hears of it: for everything that compares."""

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Answerer
from app.engine.listener import EventListener, takes
from app.engine.steps import plausible
from app.engine.token_times import TokenClock, TokenTimes
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Reading, Ready, Round, Statistics, Wrote
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


class SideRun(QObject, EventListener):
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
        self.reading: Reading | None = None
        """How much of a long question was read, until the first token is there."""

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
        self._text, self._tokens, self._clock, self.reading = "", 0, TokenClock(), None
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

    def concerns(self, event: Event) -> bool:
        """What comes of the run does."""
        return self._request != 0 and not isinstance(event, Ready) and event.id == self._request

    @takes(Reading)
    def _on_reading(self, event: Reading) -> None:
        self.reading = event
        self.grew.emit(self._request)

    @takes(Round)
    def _on_round(self, event: Round) -> None:
        self._clock.add(event)
        self._grow(event.text, event.new_tokens)

    @takes(Wrote)
    def _on_wrote(self, event: Wrote) -> None:
        self._grow(event.text, max(0, event.tokens))

    @takes(Failed)
    def _on_failed(self, event: Failed) -> None:
        self._end(None, joined((event.message, event.hint)))

    @takes(Finished)
    def _on_finished(self, event: Finished) -> None:
        if event.reason == "cancelled":
            self._end(None, CANCELLED)
        else:
            self._text += event.text
            self._end(plausible(event.statistics or Statistics()), "")

    def _grow(self, text: str, tokens: int) -> None:
        self._text += text
        self._tokens += tokens
        self.reading = None
        self.grew.emit(self._request)

    def _end(self, statistics: Statistics | None, words: str) -> None:
        ended = replace(self.so_far, statistics=statistics, words=words)
        self._request = 0
        self.last = ended if statistics is not None else self.last
        self.ended.emit(ended)
