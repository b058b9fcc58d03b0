"""Counts the tokens of the conversation and the draft question, and foresees what will give way for it."""

import time
from collections.abc import Generator

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.generation.context_fit import answer_reserve
from app.chat.generation.context_use import ContextUse
from app.chat.generation.controller import ChatController
from app.chat.generation.foresight import Draft, Question, foresee
from app.chat.history.message import Attachment, Message
from app.engine.interface import Answerer
from app.engine.state import EngineState
from engine.protocol.messages import Counted, Event, Prefilled, Round

_PAUSE_MS = 250  # between two counts, however fast somebody writes
_PAUSE_PER_COUNT = 2  # and at least so many times as long as the last one took
_UNKNOWN_MS = 500  # after which what was counted of another conversation is not shown any more
_TIMEOUT_MS = 10_000  # after which a count is given up, and the next change is counted


class TokenCounter(QObject):
    """Asks the engine for one count at a time, a little behind the keyboard; changes meanwhile are counted next."""

    use_changed = Signal(ContextUse)
    costs_changed = Signal(tuple)  # of int: the tokens of each attachment

    def __init__(self, link: Answerer, chat: ChatController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._chat = chat
        self._draft = Draft()
        self._foreseeing: Generator[Question, Counted, ContextUse] | None = None
        self._is_first = False  # of the counts that are needed
        self._known: dict[str, int] = {}  # tokens of turns
        self._begun = 0.0  # seconds of a clock that only goes forward
        self._ready = False
        self._reads_pictures = True
        self._asked = 0
        self._stale = False
        self._context_tokens = 0
        self._before = 0  # tokens that the model has read before what it has written of the answer
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._ask)
        self._timeout = QTimer(self, singleShot=True, interval=_TIMEOUT_MS)
        self._timeout.timeout.connect(self._give_up)
        for signal in (chat.conversation_replaced, chat.path_changed, chat.settings_changed, chat.first_read_changed):
            signal.connect(self._on_replaced)
        chat.tools.offered_changed.connect(self._on_replaced)
        self._unknown = QTimer(self, singleShot=True, interval=_UNKNOWN_MS)
        self._unknown.timeout.connect(lambda: self.use_changed.emit(ContextUse()))
        chat.conversation_replaced.connect(lambda _: self._unknown.start())
        self.use_changed.connect(self._unknown.stop)
        chat.answer_changed.connect(self._on_answer_changed)

    def follow_draft(self, text: str, attachments: tuple[Attachment, ...], beginning: str = "") -> None:
        """The question that is being written is another one, or its answer is to begin otherwise."""
        self._draft = Draft(text, attachments, beginning)
        self.request()

    def request(self) -> None:
        """Count anew, soon."""
        if self._asked:
            self._stale = True
        elif self._ready and not self._timer.isActive():
            self._timer.start()

    def on_engine_state(self, state: EngineState) -> None:
        """Another model counts otherwise; without one there is nothing to count with."""
        self._ready, self._reads_pictures = state.ready, not state.no_pictures
        self._context_tokens = state.pair.context_tokens if state.ready and state.pair else 0
        if not state.ready:
            self._asked, self._stale, self._foreseeing = 0, False, None
            self._timer.stop()
            self._timeout.stop()
            self._known.clear()
            self.use_changed.emit(ContextUse())
        self.request()

    def on_events(self, events: list[Event]) -> None:
        """Take the count that was asked for, and what the model reads for the next step of an answer."""
        self._follow_steps(events)
        for counted in (each for each in events if isinstance(each, Counted) and each.id == self._asked):
            self._asked = 0
            self._timeout.stop()
            self._take(counted)
        self._ask_again()

    def _follow_steps(self, events: list[Event]) -> None:
        """What is read for a step of the answer has all that was written before; the chat has taken these events."""
        mine = [each for each in events if getattr(each, "id", 0) == self._chat.request]
        prefilled = next((each for each in mine if isinstance(each, Prefilled)), None)
        answer = self._chat.conversation.last_answer
        if prefilled is not None and answer is not None and answer.statistics is not None:
            since = sum(each.new_tokens for each in mine if isinstance(each, Round))
            self._before = prefilled.prompt_tokens - (answer.statistics.new_tokens - since)

    def _on_replaced(self, *_: object) -> None:
        """What is being found out is of something else, such as an answer that was not whole yet."""
        self._foreseeing = None
        self.request()

    def _give_up(self) -> None:
        """A count that failed in the engine is never answered."""
        self._asked, self._foreseeing = 0, None
        self._ask_again()

    def _ask_again(self) -> None:
        if self._stale and not self._asked:
            self._stale = False
            self.request()

    def _ask(self) -> None:
        if self._ready:
            self._begun, self._is_first = time.monotonic(), True
            conversation, generation = self._chat.conversation, self._chat.generation
            self._foreseeing = foresee(conversation, generation, self._draft, self._known, self._reads_pictures)
            self._count(next(self._foreseeing))

    def _count(self, question: Question) -> None:
        self._asked = self._link.count(*question, tools=self._chat.asked_tools)
        self._timeout.start()

    def _take(self, counted: Counted) -> None:
        """One of the counts has come: ask for the next one that is needed, or tell what they mean."""
        if self._is_first:
            self._context_tokens = counted.context_tokens  # only so is it known of engines elsewhere
            self.costs_changed.emit(counted.texts)
        self._is_first = False
        if self._foreseeing is None:
            return
        try:
            self._count(self._foreseeing.send(counted))
        except StopIteration as end:
            self._foreseeing = None
            took_ms = (time.monotonic() - self._begun) * 1000
            self._timer.setInterval(max(_PAUSE_MS, int(took_ms * _PAUSE_PER_COUNT)))
            if not self._chat.is_answering:
                self.use_changed.emit(end.value)

    def _on_answer_changed(self, answer: Message, _text: str) -> None:
        """While an answer grows, its own figures tell."""
        figures = answer.statistics
        if answer.ending.is_final:
            self._before = 0
            self._on_replaced()
        elif figures is not None and figures.prompt_tokens:
            self._show((self._before or figures.prompt_tokens) + figures.new_tokens)

    def _show(self, tokens: int) -> None:
        generation = self._chat.generation
        reserve = 0 if self._chat.is_answering else answer_reserve(generation.max_new_tokens, self._context_tokens)
        self.use_changed.emit(ContextUse(tokens, self._context_tokens, reserve, generation.when_full))
