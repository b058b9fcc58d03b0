"""Which two answers are compared, and what is still to be written for it; the conversation never hears of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.chat.archive.worker import Archive
from app.chat.generation.controller import ChatController
from app.chat.history.message import Message
from app.comparison.candidates import AGAIN, Candidate, candidates_for, first_pair
from app.comparison.transcript import Transcript, of_message, of_run
from app.comparison.words import how
from app.engine.side_run import OTHER_RUNS, SideAnswer, SideRun
from app.engine.state import EngineState
from app.engine.token_times import TokenTimes
from app.i18n.sentences import translated
from app.settings.generation import RANDOM_SEED
from app.telemetry.comparison import ENGINE_BUSY, NOT_ASKED, STILL_ANSWERING, with_method
from engine.protocol.messages import ChatMessage, Reading
from engine.protocol.options import GenerateOptions


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """What an answer began with, before more was written to it. `is_continued`: its end was asked for by itself."""

    chat: tuple[ChatMessage, ...]
    options: GenerateOptions
    is_continued: bool = False


@dataclass(slots=True)
class Side:
    """What a column shows. `transcript` None: it is still to be written; `words` say why it could not be.

    `has_no_times`: nobody kept, or told, when its tokens were there.
    """

    candidate: Candidate
    transcript: Transcript | None = None
    words: str = ""
    is_running: bool = False
    has_no_times: bool = False

    @property
    def title(self) -> str:
        """How it was written, or is to be."""
        return how(self.transcript.statistics if self.transcript else None) or self.candidate.title


class ComparisonSession(QObject):
    """Two sides of one answer. What was written for a side is kept until another answer is compared."""

    opened = Signal()
    changed = Signal(int)  # number of the side
    closed = Signal()  # the answer is not shown any more

    def __init__(
        self, chat: ChatController, run: SideRun, archive: Archive, save: Callable[[], None], parent: QObject
    ) -> None:
        """`save` has what is new of the conversation written, so that its rounds can be read."""
        super().__init__(parent)
        self._chat, self._run, self._archive, self._save = chat, run, archive, save
        self._engine = EngineState()
        self._asked: dict[int, AskedAnswer] = {}  # by answer, of this conversation and this start
        self._said: dict[ChatMessage, ChatMessage] = {}  # what these were asked with, each message once
        self._drawn: dict[int, GenerateOptions] = {}  # the same for answers of other days
        self._written: dict[tuple[str, str], Transcript] = {}  # by candidate and who wrote it
        self._answer: Message | None = None
        self._request = 0
        self._answerer = ""  # who writes what runs
        self.candidates: tuple[Candidate, ...] = ()
        self.sides: tuple[Side, ...] = ()
        run.grew.connect(self._on_grew)
        run.ended.connect(self._on_ended)
        archive.times_read.connect(self._on_times_read)
        chat.conversation_replaced.connect(self._on_replaced)
        chat.path_changed.connect(self._on_path_changed)
        chat.answering_changed.connect(self._on_path_changed)

    # ---- what a person does -----------------------------------------------------------------------------------------

    def answer_to_open(self, answer: int = 0) -> Message | None:
        """The answer of this id among those that are shown, or else the last one; None if it has no text yet."""
        path = self._chat.conversation.messages
        found = next((each for each in path if each.id == answer), self._chat.conversation.last_answer)
        return found if found is not None and found.ending.is_final and found.text else None

    def open(self, answer: Message) -> None:
        """Compare this answer, which is shown, with another one."""
        self.cancel()
        if self._answer is None or self._answer.id != answer.id:
            self._written.clear()
        self._answer = answer
        self._list()
        self.sides = tuple(Side(each) for each in first_pair(self.candidates, answer.id))
        self.opened.emit()
        for number, side in enumerate(self.sides):
            self.choose(number, side.candidate)

    def choose(self, number: int, candidate: Candidate) -> None:
        """Show something else on a side; what runs for it is cancelled."""
        side = self.sides[number]
        if side.is_running:
            self.cancel()
        side.candidate, side.words, side.is_running, side.has_no_times = candidate, "", False, False
        message = candidate.message
        if message is None:
            side.transcript = self._known(candidate)
        else:
            side.transcript = of_message(message)
            self._save()
            self._archive.read_times(self._chat.conversation.id, message.id, len(message.text))
        self.changed.emit(number)

    def start(self, number: int) -> None:
        """Have the engine write what a side is to show; or say why not."""
        side = self.sides[number]
        side.words = translated(self.refusal(side.candidate))
        if not side.words and self._answer is not None:
            self._answerer = self._engine.answerer
            side.is_running = True
            self._request = self._run.start(*self._question(side.candidate))
            side.transcript = None
        self.changed.emit(number)

    def cancel(self) -> None:
        """Stop what runs for a side, if anything does."""
        if any(side.is_running for side in self.sides):
            self._run.cancel()

    def refusal(self, candidate: Candidate) -> str:
        """Why nothing can be written now; empty if it can."""
        if self._chat.is_answering:
            return STILL_ANSWERING
        if not self._engine.ready:
            return ENGINE_BUSY
        if not self._engine.speculates_as_asked and candidate.method != AGAIN:
            return NOT_ASKED
        return OTHER_RUNS if self._run.is_running else ""

    @property
    def total(self) -> int:
        """How many tokens a side is written for at most; 0 where the answer told no length."""
        statistics = self._answer.statistics if self._answer else None
        return statistics.new_tokens if statistics else 0

    @property
    def tokens(self) -> int:
        """How many tokens of what runs are there."""
        return self._run.tokens

    @property
    def reading(self) -> Reading | None:
        """How much of its question was read, where that was told."""
        return self._run.reading

    @property
    def has_same_seed(self) -> bool:
        """Whether tokens are drawn as they were for the answer: one that was continued was drawn with two seeds.

        Of an answer of another day a random seed is not kept.
        """
        if self._answer is None:
            return True
        asked = self._asked.get(self._answer.id)
        if asked is not None:
            return not (asked.is_continued and asked.options.sampling.temperature)
        return self._chat.generation.seed != RANDOM_SEED or not self._chat.generation.temperature

    def catch_up(self) -> None:
        """Have the side that is being written know all that there is of it."""
        for _, side in self._running(self._request):
            side.transcript = of_run(self._run.so_far, self._answerer)

    @property
    def temperature(self) -> float | None:
        """At which both sides were drawn; None where models or questions differ too, or nobody knows."""
        transcripts = [side.transcript for side in self.sides]
        if self._answer is None or None in transcripts or len({each.answerer for each in transcripts if each}) > 1:
            return None
        one, other = (self._asked_for(side.candidate.message or self._answer) for side in self.sides)
        is_same = one.chat == other.chat and one.options.sampling.temperature == other.options.sampling.temperature
        return one.options.sampling.temperature if is_same and not (one.is_continued or other.is_continued) else None

    # ---- what happens elsewhere -------------------------------------------------------------------------------------

    def on_engine_state(self, state: EngineState) -> None:
        """Other models may be loaded now: what is still to be written is theirs, what is written stays as it is."""
        before, self._engine = self._engine.answerer, state
        if state.answerer != before:
            self._run.forget()
            if self._answer is not None:
                self._list()
            for number, side in enumerate(self.sides):
                if side.transcript is None and not side.is_running:
                    same = (each for each in self.candidates if each.key == side.candidate.key)
                    self.choose(number, next(same, self.candidates[0]))
        self._tell_all()

    def on_asked(self, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> None:
        """Remember how the answer that begins was asked for; or that it goes on."""
        answer = self._chat.conversation.last_answer
        if answer is not None:
            before = self._asked.get(answer.id)
            said = tuple(self._said.setdefault(each, each) for each in chat)
            self._asked[answer.id] = replace(before, is_continued=True) if before else AskedAnswer(said, options)
        self._tell_all()

    def _on_replaced(self) -> None:
        self._asked.clear()
        self._said.clear()
        self._drawn.clear()
        self._leave()

    def _on_path_changed(self, *_: object) -> None:
        """Another version may be shown, or there is one more, or an answer has grown; or the answer is gone."""
        if self._answer is None:
            return
        if self._answer.id not in (each.id for each in self._versions()):
            self._leave()
        elif not self._chat.is_answering:
            self._list()
            known = {each.key: each for each in self.candidates}
            for number, side in enumerate(self.sides):
                self._renew(number, known.get(side.candidate.key, side.candidate))
        self._tell_all()

    def _renew(self, number: int, candidate: Candidate) -> None:
        """The same candidate as it is by now: its message may have been continued."""
        side = self.sides[number]
        before, side.candidate = side.candidate.message, candidate
        if before is not None and candidate.message is not None and before.text != candidate.message.text:
            self.choose(number, candidate)

    def _on_grew(self, request: int) -> None:
        for number, _ in self._running(request):
            self.changed.emit(number)

    def _on_ended(self, answer: SideAnswer) -> None:
        for number, side in self._running(answer.request):
            side.is_running = False
            side.words = translated(answer.words)
            side.transcript = None if answer.words else of_run(answer, self._answerer)
            if side.transcript is not None:
                side.has_no_times = not side.transcript.times.is_measured
                self._written[side.candidate.key, self._answerer] = side.transcript
            self.changed.emit(number)
        self._tell_all()  # another side may be written now

    def _on_times_read(self, message: int, times: TokenTimes | None) -> None:
        for number, side in enumerate(self.sides):
            shown = side.candidate.message
            if shown is not None and shown.id == message:
                side.transcript, side.has_no_times = of_message(shown, times), times is None
                self.changed.emit(number)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Compare nothing any more."""
        if self._answer is not None:
            self.cancel()
            self._answer, self._request = None, 0
            self.sides, self.candidates = (), ()
            self.closed.emit()

    def _running(self, request: int) -> list[tuple[int, Side]]:
        if not request or request != self._request:
            return []
        return [(number, side) for number, side in enumerate(self.sides) if side.is_running]

    def _shown(self) -> Message | None:
        """The answer to the same question that the chat shows; None where the chat does not show that question."""
        assert self._answer is not None
        parent = self._answer.parent
        return next((each for each in self._chat.conversation.messages if each.parent == parent), None)

    def _versions(self) -> tuple[Message, ...]:
        """All answers to the question that are left; a person may have deleted the one that is compared."""
        shown = self._shown()
        return () if shown is None else self._chat.conversation.versions(shown.id)

    def _list(self) -> None:
        assert self._answer is not None
        versions, shown = self._versions(), self._shown()
        self._answer = next(each for each in versions if each.id == self._answer.id)
        self.candidates = candidates_for(versions, shown.id if shown else self._answer.id, self._engine.answerer)

    def _known(self, candidate: Candidate) -> Transcript | None:
        """What was written for it before, here or for the figures in Telemetry."""
        known = self._written.get((candidate.key, self._engine.answerer))
        last = self._run.last
        if known is None and last is not None and (last.chat, last.options) == self._question(candidate):
            known = of_run(last, self._engine.answerer)
        return known

    def _question(self, candidate: Candidate) -> tuple[tuple[ChatMessage, ...], GenerateOptions]:
        assert self._answer is not None
        asked = self._asked_for(self._answer)
        method = candidate.method or asked.options.speculation.method
        return asked.chat, with_method(asked.options, method, self.total)

    def _asked_for(self, answer: Message) -> AskedAnswer:
        """What it was asked with; of an answer of another day, as its chat would ask for it now."""
        if answer.id in self._asked:
            return self._asked[answer.id]
        prompt = self._chat.prompt_of(answer.id)
        options = self._drawn.setdefault(answer.id, self._chat.next_options)  # one seed for all that stands beside it
        return AskedAnswer(prompt, options)

    def _tell_all(self) -> None:
        for number in range(len(self.sides)):
            self.changed.emit(number)
