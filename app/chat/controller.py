"""Answers a conversation: turns what a person does into requests, and events into turns."""

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.chat.conversation import Conversation, Ending, Message
from app.engine_link import EngineLink
from app.engine_state import EngineState, Phase
from app.notices import Notice, Tone
from app.settings import SettingsFile
from engine.errors import InputError
from engine.messages import Event, Failed, Finished, Prefilled, Ready, Round, Statistics

FAILED_NOTICE = "request-failed"
NEW_CHAT_NOTICE = "new-chat"

_ENDINGS = {"stop": Ending.COMPLETE, "length": Ending.LENGTH, "cancelled": Ending.STOPPED}


class ChatController(QObject):
    """Owns the conversation and its one running request.

    `answer_changed` carries the answer's new state and the text that came with it.
    """

    conversation_replaced = Signal(Conversation)
    turn_added = Signal(Message, Message)
    answer_restarted = Signal(Message)
    answer_changed = Signal(Message, str)
    answering_changed = Signal(bool)
    round_arrived = Signal(Round)
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: EngineLink, settings: SettingsFile, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._settings = settings
        self._engine = EngineState()
        self._request = 0
        self._before_new_chat: Conversation | None = None
        self.conversation = Conversation()

    @property
    def is_answering(self) -> bool:
        """Whether an answer is under way, or waits for the engine."""
        answer = self.conversation.last_answer
        return answer is not None and not answer.ending.is_final

    # ---- what a person does -----------------------------------------------------------------------------------------

    def ask(self, question: str) -> None:
        """Add a question to the conversation and have it answered, now or as soon as the engine can."""
        if self.is_answering or not question.strip():
            return
        self.notice_withdrawn.emit(NEW_CHAT_NOTICE)
        self.turn_added.emit(*self.conversation.ask(question))
        self._start()

    def regenerate(self) -> None:
        """Answer the last question again."""
        if self.is_answering or self.conversation.is_empty:
            return
        answer = Message("assistant", "", Ending.WAITING)
        self.conversation.replace_answer(answer)
        self.answer_restarted.emit(answer)
        self._start()

    def stop(self) -> None:
        """End the answer; what is there of it stays."""
        if self._request:
            self._link.cancel(self._request)
        elif self.is_answering:
            self._mark(Ending.STOPPED)

    def start_new_chat(self) -> None:
        """Put the conversation aside and begin an empty one; `undo_new_chat` brings it back."""
        if self.conversation.is_empty:
            return
        self._abandon()
        self._before_new_chat, self.conversation = self.conversation, Conversation()
        self.conversation_replaced.emit(self.conversation)
        self.notice_raised.emit(Notice(NEW_CHAT_NOTICE, "Started a new chat.", action="Undo", tone=Tone.HINT))

    def undo_new_chat(self) -> None:
        """Bring back the conversation that the last new chat put aside."""
        if self._before_new_chat is None:
            return
        self._abandon()
        self.conversation, self._before_new_chat = self._before_new_chat, None
        self.conversation_replaced.emit(self.conversation)

    # ---- what the engine does ---------------------------------------------------------------------------------------

    def on_engine_state(self, state: EngineState) -> None:
        """Send what waits for the engine, or give it up when none will come."""
        self._engine = state
        waiting = self.is_answering and not self._request
        if waiting and state.ready:
            self._submit()
        elif waiting and not state.busy:
            self._give_up_waiting(state)

    def on_events(self, events: list[Event]) -> None:
        """Take what belongs to the running request, as one change for the view."""
        mine = [each for each in events if not isinstance(each, Ready) and each.id == self._request]
        answer = self.conversation.last_answer
        if not mine or answer is None:
            return
        text = "".join(each.text for each in mine if isinstance(each, Round | Finished))
        for event in mine:
            answer = _after(answer, event)
        if isinstance(mine[-1], Failed):
            answer = self._failed(answer, mine[-1])
        self._change(replace(answer, text=answer.text + text), text)
        rounds = [each for each in mine if isinstance(each, Round)]
        if rounds:
            self.round_arrived.emit(rounds[-1])

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.notice_withdrawn.emit(FAILED_NOTICE)
        self.answering_changed.emit(True)
        self.on_engine_state(self._engine)

    def _submit(self) -> None:
        generation = self._settings.current.generation
        try:
            generation.check()
        except InputError as error:
            self._raise_failure(error.message, error.hint)
            self._mark(Ending.FAILED)
            return
        prompt = self.conversation.prompt(generation.system_prompt)
        self._request = self._link.generate(prompt, generation.options())
        self._mark(Ending.OPEN)

    def _give_up_waiting(self, state: EngineState) -> None:
        if state.phase is Phase.EMPTY:
            self._raise_failure("No model is loaded.", "Choose one in Models, then regenerate the answer.")
        self._mark(Ending.FAILED if state.phase is Phase.EMPTY else Ending.INTERRUPTED)

    def _failed(self, answer: Message, failed: Failed) -> Message:
        """A failure while the engine is up is the request's own; the end of the engine is told elsewhere."""
        if not self._engine.ready:
            return replace(answer, ending=Ending.INTERRUPTED)
        self._raise_failure(failed.message, failed.hint)
        return replace(answer, ending=Ending.FAILED)

    def _raise_failure(self, message: str, hint: str) -> None:
        self.notice_raised.emit(Notice(FAILED_NOTICE, message, hint))

    def _abandon(self) -> None:
        """Leave the running request behind; whatever it still sends has an id that nobody waits for."""
        if self._request:
            self._link.cancel(self._request)
        if self.is_answering:
            self._mark(Ending.STOPPED)

    def _mark(self, ending: Ending) -> None:
        answer = self.conversation.last_answer
        assert answer is not None, "only an answer can be marked"
        self._change(replace(answer, ending=ending), "")

    def _change(self, answer: Message, text: str) -> None:
        self.conversation.replace_answer(answer)
        self.answer_changed.emit(answer, text)
        if answer.ending.is_final:
            self._request = 0
            self.answering_changed.emit(False)


def _after(answer: Message, event: Event) -> Message:
    """The answer's ending and figures after one event; until it has finished the figures are a running count."""
    count = answer.statistics or Statistics()
    match event:
        case Prefilled():
            return replace(answer, statistics=replace(count, prompt_tokens=event.prompt_tokens))
        case Round():
            count = replace(
                count,
                new_tokens=count.new_tokens + event.new_tokens,
                passes=count.passes + 1,
                seconds=replace(count.seconds, decode=count.seconds.decode + event.seconds.decode),
            )
            return replace(answer, statistics=count)
        case Finished():
            return replace(answer, ending=_ENDINGS[event.reason], statistics=event.statistics)
        case _:
            return answer
