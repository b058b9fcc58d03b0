"""Runs the last question once more without speculation, and measures what speculation gave."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from PySide6.QtCore import QObject, Signal

from app.engine.interface import Answerer
from app.engine.listener import EventListener, takes
from app.engine.side_run import OTHER_RUNS, SideAnswer, SideRun
from app.engine.state import EngineState
from engine.protocol.messages import ChatMessage, Event, Failed, Finished, Ready, Round, Statistics
from engine.protocol.options import GenerateOptions
from engine.protocol.sentences import say

NOTHING_ASKED = say("Ask something first: the comparison repeats the last question without speculation.")
NOT_MEASURED = say("The last answer has no figures to compare with. Regenerate it, then compare.")
NOT_ASKED = say("This engine speculates as it was started: it cannot be asked to write without.")
NOT_SPECULATED = say("The last answer was written without speculation. Choose a method, regenerate it, then compare.")
OTHERS_WROTE = say("The last answer was written by other models. Regenerate it, then compare.")
STILL_ANSWERING = say("Wait for the end of the answer.")
ENGINE_BUSY = say("Wait until a model is loaded.")


class Stage(Enum):
    """Where a comparison stands."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the engine got it: with the id, the options and the seed of that very answer."""

    request: int
    chat: tuple[ChatMessage, ...]
    options: GenerateOptions


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The last answer of a conversation of another day: figures, what the model wrote, and the models that wrote it.

    `question`: what it would be asked for with now. How it was drawn, with which seed, is not kept.
    """

    statistics: Statistics
    text: str
    answerer: str
    question: Callable[[], tuple[tuple[ChatMessage, ...], GenerateOptions]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The same answer, measured twice: figures, texts, and the temperature of both, None where it is not known."""

    speculated: Statistics
    plain: Statistics
    texts: tuple[str, str] = ("", "")
    temperature: float | None = 0.0

    @property
    def has_same_text(self) -> bool:
        """Whether both wrote the same; either may have ended inside a character."""
        one, other = (text.rstrip("\N{REPLACEMENT CHARACTER}") for text in self.texts)
        return one == other

    @property
    def speed_up(self) -> float:
        """How many times as fast speculation was; 0 if one of the two gave nothing."""
        plain = self.plain.tokens_per_second
        return self.speculated.tokens_per_second / plain if plain else 0.0


class Comparison(QObject, EventListener):
    """One at a time, and none beside an answer. It asks like anybody else, and the conversation never hears of it."""

    changed = Signal()

    def __init__(self, link: Answerer, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run = SideRun(link, self)
        self.run.grew.connect(self._on_grew)
        self.run.ended.connect(self._on_ended)
        self._engine = EngineState()
        self._asked: Asked | None = None
        self._answer: Statistics | None = None
        self._answering = False
        self._request = 0
        self._against = Statistics()
        self._answer_text = self._against_text = ""
        self._temperature: float | None = 0.0
        self.kept: Callable[[], KeptAnswer | None] = lambda: None
        """The last answer of the conversation as it was kept, for one in which nothing has been asked since."""
        self.stage = Stage.NONE
        self.tokens = 0
        self.outcome: Outcome | None = None
        self.words = ""

    @property
    def refusal(self) -> str:
        """Why nothing can be compared now; empty if it can."""
        kept = self._kept_answer
        answer = (kept.statistics if kept else self._answer) or Statistics()
        by_others = kept is not None and kept.answerer not in ("", self._engine.answerer)
        reasons = (
            (self._answering, STILL_ANSWERING),
            (self._asked is None and kept is None, NOTHING_ASKED),
            (not self._engine.ready, ENGINE_BUSY),
            (not self._engine.speculates_as_asked, NOT_ASKED),
            (by_others, OTHERS_WROTE),
            (not answer.passes, NOT_MEASURED),
            (not answer.drafted_nodes and answer.new_tokens <= answer.passes, NOT_SPECULATED),
            (self.run.is_running and self.stage is not Stage.RUNNING, OTHER_RUNS),
        )
        return next((words for holds, words in reasons if holds), "")

    @property
    def may_be_asked_for(self) -> bool:
        """Whether to offer it; what is missing then is told in words."""
        return not self._answering and self._engine.ready and self.stage is not Stage.RUNNING

    @property
    def can_be_shown(self) -> bool:
        """Whether there is an answer, whose text could stand beside another."""
        return not self._answering and (self._answer is not None or self._kept_answer is not None)

    @property
    def total(self) -> int:
        """How many tokens the run without speculation gives."""
        return self._against.new_tokens

    def start(self) -> None:
        """Ask again without speculation, for as many tokens as the answer has; or say why not."""
        self.words = self.refusal
        if self.stage is not Stage.RUNNING and not self.words:
            chat, options = self._take_question()
            self.tokens, self.outcome, self.stage = 0, None, Stage.RUNNING
            self._request = self.run.start(chat, with_method(options, "none", self._against.new_tokens))
        self.changed.emit()

    @property
    def _kept_answer(self) -> KeptAnswer | None:
        return self.kept() if self._asked is None else None

    def _take_question(self) -> tuple[tuple[ChatMessage, ...], GenerateOptions]:
        """What the answer was asked with; from now on the comparison is with that answer."""
        if kept := self._kept_answer:
            self._against, self._against_text, self._temperature = kept.statistics, kept.text, None
            return kept.question()
        assert self._asked is not None, "what is refused is not started"
        assert self._answer is not None, "nor is anything without figures"
        self._against, self._against_text = self._answer, self._answer_text
        self._temperature = self._asked.options.sampling.temperature
        return self._asked.chat, self._asked.options

    def cancel(self) -> None:
        """Stop the run, if there is one; it ends when the engine says so."""
        if self.stage is Stage.RUNNING:
            self.run.cancel()

    def forget(self) -> None:
        """Another conversation is shown: there is nothing to compare in it yet."""
        self.run.cancel()
        self._asked = self._answer = self.outcome = None
        self._request, self._answering = 0, False
        self._end("")

    # ---- what happens elsewhere --------------------------------------------------------------------------------------

    def on_asked(self, request: int, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> None:
        """The conversation has asked the engine something: an answer goes before a comparison, whoever runs it."""
        self.run.cancel()
        self._answering = True
        self._asked, self._answer, self.outcome, self.words = Asked(request, chat, options), None, None, ""
        self._answer_text = ""
        self.changed.emit()

    def on_engine_state(self, state: EngineState) -> None:
        """A comparison is not what another model should have to wait for."""
        self._engine = state
        if not state.ready:
            self.run.cancel()
        self.changed.emit()

    def on_events(self, events: Sequence[Event]) -> None:
        """Follow the run; and keep the figures of the answer that it is compared with."""
        self.run.on_events(events)
        super().on_events(events)

    def concerns(self, event: Event) -> bool:
        """What comes of the answer does."""
        return self._asked is not None and not isinstance(event, Ready) and event.id == self._asked.request

    @takes(Round)
    def _on_round(self, event: Round) -> None:
        self._answer_text += event.text

    @takes(Finished, Failed)
    def _on_answered(self, event: Finished | Failed) -> None:
        text, self._answer = (event.text, event.statistics) if isinstance(event, Finished) else ("", None)
        self._answer_text += text
        self._answering = False
        self.changed.emit()

    def _on_grew(self, request: int) -> None:
        if request == self._request:
            self.tokens = self.run.tokens
            self.changed.emit()

    def _on_ended(self, answer: SideAnswer) -> None:
        if answer.request != self._request or self.stage is not Stage.RUNNING:
            self.changed.emit()  # somebody else's: another one may be asked for now
            return
        if answer.statistics is not None:
            texts = (self._against_text, answer.text)
            self.outcome = Outcome(self._against, answer.statistics, texts, self._temperature)
        self._end(answer.words)

    def _end(self, words: str) -> None:
        self.stage = Stage.DONE if self.outcome else Stage.NONE
        self.words = words
        self.changed.emit()


def with_method(options: GenerateOptions, method: str, tokens: int = 0) -> GenerateOptions:
    """The same question in another method, for so many tokens at most; 0: as many as before."""
    speculation = replace(options.speculation, method=method)
    return replace(options, speculation=speculation, max_new_tokens=tokens or options.max_new_tokens)
