"""Counts the tokens of the conversation and the draft question, a little behind the keyboard."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.generation.context_fit import answer_reserve
from app.chat.generation.controller import ChatController
from app.chat.history.message import Attachment, Message, with_attachments
from app.engine.interface import Answerer
from app.engine.state import EngineState
from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.settings.generation import DROP, STOP, SUMMARISE
from engine.protocol.messages import ChatMessage, Counted, Event

_CONSEQUENCES = {
    STOP: (mark("nearly full: the next answer may be cut off"), mark("too long to be answered")),
    DROP: (mark("nearly full: the oldest turns will be dropped"), mark("the oldest turns will be dropped")),
    SUMMARISE: (mark("nearly full: the oldest turns will be summarised"), mark("the oldest turns will be summarised")),
}

_PAUSE_MS = 250  # between two counts, however fast somebody writes
_TIMEOUT_MS = 10_000  # after which a count is given up, and the next change is counted


@dataclass(frozen=True, slots=True)
class ContextUse:
    """`tokens` of what will be read and `reserve` for the answer, of the context's `context_tokens`; 0: no model."""

    tokens: int = 0
    context_tokens: int = 0
    reserve: int = 0
    when_full: str = STOP

    @property
    def share(self) -> float:
        """The part of the context that is taken, from 0 to 1."""
        return min(1.0, self.tokens / self.context_tokens) if self.context_tokens else 0.0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for even one token more."""
        return 0 < self.context_tokens <= self.tokens

    @property
    def is_scarce(self) -> bool:
        """Whether the answer might not find room."""
        return 0 < self.context_tokens < self.tokens + self.reserve

    @property
    def words(self) -> str:
        """Such as `1,200 of 4,096 tokens`, with what is about to happen; empty without a model."""
        if not self.context_tokens:
            return ""
        words = tr("{tokens:,} of {context:,} tokens")
        counted = words.format(tokens=Number(self.tokens), context=Number(self.context_tokens))
        nearly, full = _CONSEQUENCES[self.when_full]
        if self.is_full:
            return f"{counted} · {tr(full)}"
        return f"{counted} · {tr(nearly)}" if self.is_scarce else counted


class TokenCounter(QObject):
    """Asks the engine for one count at a time; changes meanwhile are counted next."""

    use_changed = Signal(ContextUse)
    costs_changed = Signal(tuple)  # of int: the tokens of each attachment

    def __init__(self, link: Answerer, chat: ChatController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._chat = chat
        self._draft = ""
        self._attachments: tuple[Attachment, ...] = ()
        self._ready = False
        self._asked = 0
        self._stale = False
        self._context_tokens = 0
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._ask)
        self._timeout = QTimer(self, singleShot=True, interval=_TIMEOUT_MS)
        self._timeout.timeout.connect(self._give_up)
        for signal in (chat.conversation_replaced, chat.path_changed, chat.settings_changed, chat.first_read_changed):
            signal.connect(self.request)
        chat.answer_changed.connect(self._on_answer_changed)

    def follow_draft(self, text: str, attachments: tuple[Attachment, ...]) -> None:
        """The question that is being written is another one."""
        self._draft, self._attachments = text, attachments
        self.request()

    def request(self) -> None:
        """Count anew, soon."""
        if self._asked:
            self._stale = True
        elif self._ready and not self._timer.isActive():
            self._timer.start()

    def on_engine_state(self, state: EngineState) -> None:
        """Another model counts otherwise; without one there is nothing to count with."""
        self._ready = state.ready
        self._context_tokens = state.pair.context_tokens if state.ready and state.pair else 0
        if not state.ready:
            self._asked, self._stale = 0, False
            self._timer.stop()
            self._timeout.stop()
            self.use_changed.emit(ContextUse())
        self.request()

    def on_events(self, events: list[Event]) -> None:
        """Take the count that was asked for."""
        for counted in (each for each in events if isinstance(each, Counted) and each.id == self._asked):
            self._asked = 0
            self._timeout.stop()
            if not self._chat.is_answering:
                self._show(counted.tokens)
            self.costs_changed.emit(counted.texts)
        self._ask_again()

    def _give_up(self) -> None:
        """A count that failed in the engine is never answered."""
        self._asked = 0
        self._ask_again()

    def _ask_again(self) -> None:
        if self._stale and not self._asked:
            self._stale = False
            self.request()

    def _ask(self) -> None:
        if self._ready:
            texts = tuple(each.written_out for each in self._attachments)
            self._asked = self._link.count(self._prompt(), texts)
            self._timeout.start()

    def _prompt(self) -> tuple[ChatMessage, ...]:
        """What would be read if the question were asked now; without one, what has been said."""
        prompt = self._chat.conversation.prompt(self._chat.generation.system_prompt)
        if not (self._draft.strip() or self._attachments):
            return prompt
        if prompt and prompt[-1].role == "user":  # an answer that has not begun
            prompt = prompt[:-1]
        return (*prompt, ChatMessage("user", with_attachments(self._draft, self._attachments)))

    def _on_answer_changed(self, answer: Message, _text: str) -> None:
        """While an answer grows, its own figures tell."""
        figures = answer.statistics
        if answer.ending.is_final:
            self.request()
        elif figures is not None and figures.prompt_tokens:
            self._show(figures.prompt_tokens + figures.new_tokens)

    def _show(self, tokens: int) -> None:
        generation = self._chat.generation
        reserve = 0 if self._chat.is_answering else answer_reserve(generation.max_new_tokens, self._context_tokens)
        self.use_changed.emit(ContextUse(tokens, self._context_tokens, reserve, generation.when_full))
