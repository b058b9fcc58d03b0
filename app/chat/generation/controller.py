"""Answers a conversation: turns a person's actions into requests, and the engine's events into turns."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.generation.context_fit import Summariser, first_turn_to_read
from app.chat.generation.shown_pictures import shown_pictures
from app.chat.generation.tool_run import ToolRun, as_asked, tools_on
from app.chat.history.answering import grown
from app.chat.history.calls import Call, last_step
from app.chat.history.conversation import Conversation, Removal, counted_text
from app.chat.history.message import AnswerEnding, Attachment, Message
from app.engine.interface import Answerer
from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.settings.constraints import OFF, TEXTS
from app.settings.generation import STOP, SUMMARISE, GenerationSettings
from app.settings.store import SettingsFile
from app.tools.toolbox import OfferedTool
from app.ui.notices import Notice, Tone
from engine.errors import InputError
from engine.protocol.messages import ChatMessage, Counted, Event, Failed, Finished, Ready, Round
from engine.protocol.options import EMBEDDED, GenerateOptions
from engine.protocol.tools import Tool

DEMO_BUDGET = 64

FAILED_NOTICE = "request-failed"
COUNT_NOTICE = "not-counted"
STEPS_NOTICE = "many-steps"
MOST_STEPS = 25  # in which an answer calls tools before a person is asked whether to go on
_COUNT_MS = 10_000  # that an answer waits for the length of its prompt; to count it usually takes milliseconds


def with_visible_tree(options: GenerateOptions, engine: EngineState) -> GenerateOptions:
    """The same, but for the embedded pair a tree of `DEMO_BUDGET` nodes, unless a method or a budget was chosen.

    The embedded pair shows what Coppice does. Resident and tiny, it would be fastest with hardly any tree. The text is
    the same either way.
    """
    speculation = options.speculation
    is_left_open = speculation.method == "auto" and not speculation.budget
    if engine.pair is None or engine.pair.target.source != EMBEDDED or not is_left_open:
        return options
    return replace(options, speculation=replace(speculation, budget=DEMO_BUDGET))


class ChatController(QObject):
    """Owns the conversation and its one running request.

    `answer_changed` carries the answer's new state and the text that came with it.
    """

    asked = Signal(int, tuple, object)  # a request has gone to the engine: its id, conversation and options
    conversation_replaced = Signal(Conversation)
    turn_added = Signal(Message, Message)
    path_changed = Signal(int)  # from the message of this number on, others are shown
    removed = Signal(Removal)  # after the change of the path
    restored = Signal(Removal)
    answer_changed = Signal(Message, str)
    answering_changed = Signal(bool)
    round_arrived = Signal(Round)
    rounds_arrived = Signal(list)  # of Round, all of them, before the change they make to the answer
    settings_changed = Signal(GenerationSettings)  # those of the conversation, which may be another one
    first_read_changed = Signal(int)  # from the turn of this number on, the model reads what is said
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)
    setting_wanted = Signal(str)  # a person wants to correct this one

    def __init__(self, link: Answerer, settings: SettingsFile, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._settings = settings
        self._engine = EngineState()
        self._request = 0
        self._stopped = 0  # the request that a person has stopped last
        self._count = 0  # the number of a count that the answer waits for
        self._counting = QTimer(self, singleShot=True, interval=_COUNT_MS)
        self._counting.timeout.connect(self._on_uncounted)
        self._resumed: Message | None = None  # the answer as it was before it was continued
        self.conversation = Conversation()
        self._summariser = Summariser(link, self)  # the answer waits for it
        self._summariser.written.connect(self._generate)
        self._summariser.stopped.connect(lambda: self._mark(AnswerEnding.STOPPED))
        self._summariser.lost.connect(lambda: self._mark(AnswerEnding.INTERRUPTED))
        self._summariser.notice_raised.connect(self.notice_raised)
        self._summariser.notice_withdrawn.connect(self.notice_withdrawn)
        self.tools = ToolRun(settings, self)
        self.tools.changed.connect(self._on_calls_changed)
        self.tools.ended.connect(self._go_on)
        self._steps = 0  # of the answer under way, in which it has called tools

    @property
    def is_answering(self) -> bool:
        """Whether an answer is under way, or waits for the engine."""
        answer = self.conversation.last_answer
        return answer is not None and not answer.ending.is_final

    @property
    def request(self) -> int:
        """The number of the request that the engine answers now; 0 for none."""
        return self._request

    @property
    def can_continue(self) -> bool:
        """Whether the last answer ended before its end."""
        answer = self.conversation.last_answer
        return answer is not None and answer.ending.is_early

    @property
    def beginning(self) -> GenerationSettings:
        """The settings of new chats."""
        return self._settings.current.beginning

    @property
    def generation(self) -> GenerationSettings:
        """The settings of the conversation; until its first question, or a change, those of new chats."""
        return self.conversation.settings or self.beginning

    @property
    def constraint_setting(self) -> str:
        """The name of the setting that says what answers are held to: its text, if it has one."""
        return self.generation.constraint if self.generation.constraint in TEXTS else "constraint"

    @property
    def next_options(self) -> GenerateOptions:
        """What the engine is told of the next answer; a random seed is drawn here."""
        return with_visible_tree(self._settings.current.complete_answer(self.generation.options()), self._engine)

    @property
    def tools_on(self) -> tuple[OfferedTool, ...]:
        """The tools that the next answer may call."""
        return tools_on(self.tools.offered, self.generation)

    @property
    def asked_tools(self) -> tuple[Tool, ...]:
        """The same as the engine is told of them."""
        return as_asked(self.tools_on)

    def prompt_of(self, answer: int) -> tuple[ChatMessage, ...]:
        """What the engine would be asked for another answer in the place of this one, to a question of the path."""
        return self._shown(self.conversation.prompt_of(answer, self.generation.system_prompt))

    # ---- what a person does -----------------------------------------------------------------------------------------

    def ask(self, question: str, attachments: Sequence[Attachment] = (), beginning: str = "") -> None:
        """Add a question to the conversation and have it answered, now or as soon as the engine can.

        The answer will begin with `beginning`.
        """
        if self.is_answering or not (question.strip() or attachments):
            return
        self.conversation.settings = self.generation
        self.turn_added.emit(*self.conversation.ask(question, attachments, beginning))
        self._start()

    def regenerate(self, message: int = 0) -> None:
        """Give this answer again, 0 for the last one; it stays as another version, with what followed behind it."""
        place = self._place(message or self.conversation.leaf)
        if self.is_answering or place is None or self.conversation.messages[place].role != "assistant":
            return
        if self._engine.phase is Phase.EMPTY:  # another version would be an empty one
            self._say_that_no_model_is_loaded()
            return
        if self._misses_pictures(message or self.conversation.leaf):
            return
        self.conversation.answer_again(message)
        self.path_changed.emit(place)
        self._start()

    def continue_answer(self) -> None:
        """Go on with an answer that was cut off; it grows, and its figures add up."""
        answer = self.conversation.last_answer
        if answer is None or not self.can_continue or self._misses_pictures(answer.id):
            return
        self._resumed = answer
        begun = last_step(answer.calls)
        text = answer.text[begun:].rstrip("\N{REPLACEMENT CHARACTER}")  # it may have been cut off inside a character
        self.conversation.change(replace(answer, text=answer.text[:begun] + text, ending=AnswerEnding.WAITING))
        self.path_changed.emit(len(self.conversation.messages) - 1)
        self._start()

    def branch(self, message: int, text: str) -> None:
        """Put another version of an answer beside it, which begins with `text` and is continued."""
        place = self._place(message)
        if self.is_answering or place is None or self.conversation.messages[place].role != "assistant":
            return
        if self._engine.phase is Phase.EMPTY:  # the other version would never be written on
            self._say_that_no_model_is_loaded()
            return
        if self._misses_pictures(message):
            return
        self._resumed = replace(self.conversation.answer_differently(message, text), ending=AnswerEnding.STOPPED)
        self.conversation.change(replace(self._resumed, ending=AnswerEnding.WAITING))
        self.path_changed.emit(place)
        self._start()

    def change_settings(self, generation: GenerationSettings) -> None:
        """Give the conversation other settings, from the next answer on; raises `InputError` if they are not legal."""
        generation.check()
        if generation != self.generation:
            self.conversation.settings = generation
            self.settings_changed.emit(generation)

    def set_speculation(self, speculates: bool) -> None:
        """Have the conversation's answers speculated on, or not."""
        method = "auto" if speculates and self.generation.method == "none" else self.generation.method
        self.change_settings(replace(self.generation, speculates=speculates, method=method))

    def switch_tools_off(self, tools: tuple[str, ...]) -> None:
        """Have the conversation's answers call none of these, each as `server/name`, and all others."""
        self.change_settings(replace(self.generation, tools_off=tools))

    def edit(self, message: int, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Put another wording beside a message: a question is asked anew, an answer stands as a person wrote it."""
        place = self._place(message)
        if self.is_answering or place is None or not (text.strip() or attachments):
            return
        before = self.conversation.messages[place]
        if (text, attachments) == (before.text, before.attachments):
            return
        if before.role == "user":
            self.conversation.ask_differently(message, text, attachments)
            self.path_changed.emit(place)
            self._start()
        else:
            self.conversation.answer_differently(message, text)
            self.path_changed.emit(place)

    def show_version(self, message: int, index: int) -> None:
        """Show another version of a message, and what followed it."""
        place = self._place(message)
        if self.is_answering or place is None or not 0 <= index < self.conversation.version(message).count:
            return
        self.conversation.show_version(message, index)
        self.path_changed.emit(place)

    def delete(self, message: int) -> None:
        """Take a message out, as `Conversation.remove` has it; `removed` tells what `undo_delete` needs."""
        if self.is_answering or self._place(message) is None:
            return
        removal = self.conversation.remove(message)
        self._show_other_path(removal.place)
        self.removed.emit(removal)

    def undo_delete(self, removal: Removal) -> None:
        """Put back what was deleted last."""
        if self.is_answering:
            return
        self.conversation.restore(removal)
        self._show_other_path(removal.place)
        self.restored.emit(removal)

    def stop(self) -> None:
        """End the answer; what is there of it stays."""
        if self._request:
            self._stopped = self._request
            self._link.cancel(self._request)
        elif self._summariser.is_at_work:
            self._summariser.stop()
        elif self.tools.is_at_work:
            self.tools.stop()
            self._mark(AnswerEnding.STOPPED)
        elif self.is_answering:
            self._mark(AnswerEnding.STOPPED)

    def leave(self) -> None:
        """The window goes: what is there of an answer stays."""
        self._abandon()

    def start_new_chat(self) -> None:
        """Begin an empty conversation; the one before stays in the list."""
        if not self.conversation.is_empty or self.conversation.settings is not None:
            self.show_conversation(Conversation())

    def show_conversation(self, conversation: Conversation) -> None:
        """Put the conversation aside and show another one."""
        self._abandon()
        self.conversation = conversation
        self.conversation_replaced.emit(conversation)
        self.settings_changed.emit(self.generation)
        self.first_read_changed.emit(conversation.first_read)

    # ---- what the engine does ---------------------------------------------------------------------------------------

    def on_engine_state(self, state: EngineState) -> None:
        """Send what waits for the engine, or give it up when none will come."""
        self._engine = state
        is_at_work = self._request or self._summariser.is_at_work or self.tools.is_at_work
        waiting = self.is_answering and not is_at_work
        if waiting and state.ready:
            self._submit()
        elif waiting and not state.busy:
            self._give_up_waiting(state)

    def on_events(self, events: list[Event]) -> None:
        """Take what belongs to the running request, as one change for the view."""
        for counted in (each for each in events if isinstance(each, Counted) and each.id == self._count):
            self._fit_context(counted)
        self._summariser.on_events(events, self._engine.ready)
        mine = [each for each in events if not isinstance(each, Ready) and each.id == self._request]
        answer = self.conversation.last_answer
        if not mine or answer is None:
            return
        before = len(answer.text)
        answer = grown(answer, mine, self._resumed.statistics if self._resumed else None)
        if isinstance(mine[-1], Failed):
            answer = self._failed(answer, mine[-1])
        rounds = [each for each in mine if isinstance(each, Round)]
        if rounds:
            self.rounds_arrived.emit(rounds)
        self._change(answer, answer.text[before:])
        if rounds:
            self.round_arrived.emit(rounds[-1])
        if isinstance(mine[-1], Finished) and not answer.ending.is_final:
            self._make_calls(answer)

    def _make_calls(self, answer: Message) -> None:
        """A step of the answer is complete. Of one that was stopped meanwhile no call is made, also where none asks."""
        if self._request == self._stopped:
            self._mark(AnswerEnding.STOPPED)
            return
        self._request = 0
        self._steps += 1
        self.tools.begin(answer.calls, self.tools_on)

    def _on_calls_changed(self, calls: tuple[Call, ...]) -> None:
        if answer := self.conversation.last_answer:
            self._change(replace(answer, calls=calls, ending=AnswerEnding.OPEN), "")

    def _go_on(self) -> None:
        """All calls have results: let the model read them, and write on."""
        answer = self.conversation.last_answer
        assert answer is not None, "it has called the tools"
        if self._steps >= MOST_STEPS:
            words = tr("The answer has called tools in {steps} steps, and waits for you to let it continue.")
            self.notice_raised.emit(Notice(STEPS_NOTICE, words.format(steps=MOST_STEPS), tone=Tone.HINT))
            self._mark(AnswerEnding.STOPPED)
            return
        self._resumed = replace(answer, ending=AnswerEnding.INTERRUPTED)
        self._mark(AnswerEnding.WAITING)
        self.on_engine_state(self._engine)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        for notice in (FAILED_NOTICE, COUNT_NOTICE, STEPS_NOTICE):
            self.notice_withdrawn.emit(notice)
        self._steps = 0
        self.answering_changed.emit(True)
        answer = self.conversation.last_answer
        if answer and not all(each.state.is_final for each in answer.calls):
            self.tools.begin(answer.calls, self.tools_on)
        else:
            self.on_engine_state(self._engine)

    def _submit(self) -> None:
        """Ask the engine; where turns may have to give way, ask it first how much there is."""
        generation = self.generation
        try:
            generation.check()
            generation.check_constraint()
        except InputError as error:
            self._raise_failure(error.message, error.hint, is_of_question=True)
            self._mark(AnswerEnding.FAILED)
            return
        if self._misses_pictures(self.conversation.leaf):
            self._mark(AnswerEnding.FAILED)
            return
        if generation.when_full != STOP:
            texts = map(counted_text, self.conversation.turns())
            prompt = self._shown(self.conversation.prompt(generation.system_prompt, 0))
            self._count = self._link.count(prompt, tuple(texts), tools=self.asked_tools)
            self._counting.start()
        else:
            self._generate(0)

    def _shown(self, prompt: tuple[ChatMessage, ...]) -> tuple[ChatMessage, ...]:
        return shown_pictures(prompt, reads_pictures=not self._engine.no_pictures)

    def _fit_context(self, counted: Counted) -> None:
        """Leave out as many of the oldest turns as must be, now that it is known how long everything is."""
        if not counted.context_tokens:
            self._on_uncounted()
            return
        self._end_count()
        now, context, longest = self.conversation.first_read, counted.context_tokens, self.generation.max_new_tokens
        has_summary = bool(self.conversation.summary)
        first = first_turn_to_read(counted.tokens, counted.texts, context, longest, now, has_summary)
        if first > now and self.generation.when_full == SUMMARISE:
            options = self._settings.current.complete_answer(self.generation.options())
            self._summariser.start(self.conversation, first, options, counted.context_tokens)
        else:
            self._generate(first)

    def _on_uncounted(self) -> None:
        """The engine did not count: it is asked all the same, with what was read last, and may refuse it."""
        self._end_count()
        words = tr("The length of this conversation could not be counted, so no turn was left out.")
        hint = tr("If the answer fails, start a new chat or restart the engine.")
        self.notice_raised.emit(Notice(COUNT_NOTICE, words, hint, tone=Tone.HINT))
        self._generate(self.conversation.first_read, self.conversation.summary)

    def _end_count(self) -> None:
        self._count = 0
        self._counting.stop()

    def _generate(self, first: int, summary: str = "") -> None:
        if first != self.conversation.first_read:
            self.conversation.read_from(first, summary)
            self.first_read_changed.emit(first)
        options = replace(self.next_options, conversation=str(self.conversation.id))
        prompt = self._shown(self.conversation.prompt(self.generation.system_prompt))
        self._request = self._link.generate(prompt, options, tools=self.asked_tools)
        self.asked.emit(self._request, prompt, options)
        self._mark(AnswerEnding.OPEN, self._engine.answerer)

    def _give_up_waiting(self, state: EngineState) -> None:
        if state.phase is Phase.EMPTY:
            self._say_that_no_model_is_loaded()
        self._mark(AnswerEnding.FAILED if state.phase is Phase.EMPTY else AnswerEnding.INTERRUPTED)

    def _say_that_no_model_is_loaded(self) -> None:
        self._raise_failure(tr("No model is loaded."), tr("Choose one in Models, then regenerate the answer."))

    def _misses_pictures(self, answer: int) -> bool:
        """Whether an answer is to a question with pictures that what is loaded cannot be shown; it is told."""
        place = self._place(answer)
        if not place or not self._engine.no_pictures or not self.conversation.messages[place - 1].pictures:
            return False
        hint = tr("Choose a model that reads pictures in Models, then regenerate the answer.")
        self._raise_failure(self._engine.no_pictures, hint)
        return True

    def _failed(self, answer: Message, failed: Failed) -> Message:
        """A failure while the engine is up is the request's own; the end of the engine is told elsewhere."""
        if not self._engine.ready:
            return replace(answer, ending=AnswerEnding.INTERRUPTED)
        hint = failed.hint
        if failed.kind == "too_long" and self.tools_on:
            hint = tr("Switch off tools that this chat does not need, start a new chat, or load a larger context.")
        self._raise_failure(failed.message, hint, is_of_question=failed.kind == "input")
        if failed.kind == "lost" and answer.text:
            return replace(answer, ending=AnswerEnding.LOST)
        return replace(answer, ending=self._resumed.ending if self._resumed else AnswerEnding.FAILED)

    def _raise_failure(self, message: str, hint: str, is_of_question: bool = False) -> None:
        """A question that cannot be answered as it is may be held to a wrong form: a button leads there."""
        if self.generation.constraint == OFF or not is_of_question:
            self.notice_raised.emit(Notice(FAILED_NOTICE, message, hint))
            return
        action, lead = tr("Structured output…"), lambda: self.setting_wanted.emit(self.constraint_setting)
        self.notice_raised.emit(Notice(FAILED_NOTICE, message, hint, action=action, on_action=lead))

    def _abandon(self) -> None:
        """Cancel the running request; events that still come have an id that is no longer expected."""
        if self._request:
            self._link.cancel(self._request)
        self._summariser.leave()
        self.tools.stop()
        if self.is_answering:
            self._mark(AnswerEnding.STOPPED)

    def _mark(self, ending: AnswerEnding, answerer: str = "") -> None:
        answer = self.conversation.last_answer
        assert answer is not None, "only an answer can be marked"
        if ending is AnswerEnding.FAILED and self._resumed:
            ending = self._resumed.ending
        self._change(replace(answer, ending=ending, answerer=answerer or answer.answerer), "")

    def _show_other_path(self, place: int) -> None:
        self.path_changed.emit(place)
        self.first_read_changed.emit(self.conversation.first_read)

    def _place(self, message: int) -> int | None:
        """The number of a message on the path that is shown."""
        return next((place for place, each in enumerate(self.conversation.messages) if each.id == message), None)

    def _change(self, answer: Message, text: str) -> None:
        self.conversation.change(answer)
        self.answer_changed.emit(answer, text)
        if answer.ending.is_final:
            self._end_count()
            self._request = 0
            self._resumed = None
            self.answering_changed.emit(False)
