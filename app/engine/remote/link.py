"""The way to one engine elsewhere: requests in threads, their events in the window's, as the local link has them."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, Qt, Signal

from app.engine.interface import APPLICATION
from app.engine.remote import counting, failures
from app.engine.remote.addresses import VLLM, Place, place_of
from app.engine.remote.answer import AnswerEvent, RemoteAnswer
from app.engine.remote.figures import Counters, counters_in
from app.engine.remote.questions import KINDS_THAT_MAY_REFUSE, question, reduced
from app.engine.remote.servers import Server, look_at
from app.engine.remote.wire import Wire
from app.system.background import Stop
from app.system.plain_text import well_formed_values
from app.ui.jobs import Job, Jobs
from engine.errors import CoppiceError
from engine.protocol.messages import ChatMessage, Counted, Failed, FailureKind, Finished
from engine.protocol.options import GenerateOptions
from engine.protocol.tools import Tool
from engine.protocol.watching import Inspect, Watch

_AT_A_TIME = 6  # an answer and a count of two windows each, and the ends of what was cancelled
_MOST_UNREAD = 1000  # events that wait for the window; then the server has to wait


@dataclass(frozen=True, slots=True)
class _Going:
    """An answer under way."""

    job: Job
    answer: RemoteAnswer
    asker: int


class RemoteEngine(QObject):
    """Implements `Answerer`. It asks the network when something is asked of it, and never otherwise.

    `found` tells what `look_for` has found; `engine_stopped`, why it has found nothing.
    """

    requested = Signal(int, int)
    cancelled = Signal(int, int)
    events_arrived = Signal(list)
    engine_stopped = Signal(Failed)
    found = Signal(object)  # `Server`
    _arrived = Signal()

    def __init__(self, place: Place, wire: Wire, ids: Iterator[int], parent: QObject | None = None) -> None:
        """`ids`: where every engine takes its numbers from."""
        super().__init__(parent)
        self.place = place
        self._wire = wire
        self._ids = ids
        self._going: dict[int, _Going] = {}
        self._looking: Job | None = None
        self._watch = Watch()
        self._unread = _Unread()
        self._has_counters = True  # until it turns out that it has none
        self._jobs = Jobs(_AT_A_TIME, "remote engine", self)
        self._arrived.connect(self._on_arrived, Qt.ConnectionType.QueuedConnection)

    # ---- for the window's thread ------------------------------------------------------------------------------------

    def look_for(self) -> None:
        """Ask what is there; `found` or `engine_stopped` tells."""
        if self._looking:
            self._looking.cancel()
        self._looking = self._jobs.start(partial(look_at, self._wire))
        self._looking.done.connect(self._on_found)
        self._looking.failed.connect(lambda error: self.engine_stopped.emit(Failed(0, error.message, error.hint)))

    def generate(
        self,
        chat: tuple[ChatMessage, ...],
        options: GenerateOptions,
        asker: int = APPLICATION,
        *,
        tools: tuple[Tool, ...] = (),
    ) -> int:
        """As `Answerer.generate`."""
        request = next(self._ids)
        self.requested.emit(request, asker)
        begun = len(chat[-1].content) if chat and chat[-1].role == "assistant" else 0
        answer = RemoteAnswer(request, self._wire.host, begun=begun)
        options = replace(options, verdicts=self._watch.verdicts)
        asked = partial(self._answer, answer, well_formed_values(chat), options, well_formed_values(tools))
        job = self._jobs.start(asked)
        job.failed.connect(partial(self._on_failed, request))
        self._going[request] = _Going(job, answer, asker)
        return request

    def count(self, chat: tuple[ChatMessage, ...], texts: tuple[str, ...] = (), *, tools: tuple[Tool, ...] = ()) -> int:
        """As `Answerer.count`; all numbers are 0 where the engine does not count."""
        request = next(self._ids)
        asked = (well_formed_values(chat), well_formed_values(texts), well_formed_values(tools))
        job = self._jobs.start(partial(self._count, request, *asked))
        job.done.connect(lambda counted: self.events_arrived.emit([counted]))
        job.failed.connect(lambda _error: self.events_arrived.emit([Counted(request, 0, 0, (0,) * len(texts))]))
        return request

    def look(self, command: Watch | Inspect) -> None:
        """A Coppice is asked for its verdicts with the next question; nothing else is told between rounds."""
        if isinstance(command, Watch):
            self._watch = command

    def cancel(self, through: int, asker: int = APPLICATION) -> None:
        """Close the streams of these requests; they end at once, with what they have so far."""
        self.cancelled.emit(through, asker)
        for request in [each for each, going in self._going.items() if each <= through and going.asker == asker]:
            self._on_arrived()  # what is there already belongs to the answer
            if going := self._going.pop(request, None):
                going.job.cancel()
                self.events_arrived.emit([Finished(request, "cancelled", "", going.answer.statistics)])

    def close(self) -> None:
        """End every request and the threads."""
        for asker in {each.asker for each in self._going.values()}:
            self.cancel(max(self._going, default=0), asker)
        self._jobs.close()

    # ---- in threads -------------------------------------------------------------------------------------------------

    def _answer(
        self,
        answer: RemoteAnswer,
        chat: tuple[ChatMessage, ...],
        options: GenerateOptions,
        tools: tuple[Tool, ...],
        stop: Stop,
    ) -> None:
        place = self.place
        body = question(place.kind, place.model, chat, options, tools)
        before = self._counters(stop)
        try:
            self._read(answer, body, stop)
        except failures.RemoteError as error:
            if _is_of_options(error) and place.kind in KINDS_THAT_MAY_REFUSE:
                self._read(answer, reduced(body), stop)
            elif not (answer.has_ended and error.kind == "lost"):  # else all that was said is there
                raise
        if answer.metrics:
            self._has_counters = False  # it tells of each answer, which is better
        gained = None
        if before is not None and (after := self._counters(stop)):
            gained = after.since(before)
        self._send(list(answer.end(gained)), stop)

    def _read(self, answer: RemoteAnswer, body: dict[str, object], stop: Stop) -> None:
        """Take what comes until the answer is over; who answers may hold the connection open beyond that."""
        with closing(self._wire.events("/v1/chat/completions", body, stop, self.place.name)) as arriving:
            for sent in arriving:
                stop.check()
                self._send([event for each in sent for event in answer.take(each)], stop)
                if answer.is_over:
                    return

    def _counters(self, stop: Stop) -> Counters | None:
        """vLLM's counters; None where there are none, or nobody may look at them."""
        found = None
        if self.place.kind == VLLM and self._has_counters:
            with suppress(failures.RemoteError):
                found = counters_in(self._wire.text("/metrics", stop))
            self._has_counters = found is not None
        return found

    def _count(
        self,
        request: int,
        chat: tuple[ChatMessage, ...],
        texts: tuple[str, ...],
        tools: tuple[Tool, ...],
        stop: Stop,
    ) -> Counted:
        place = self.place
        if place.kind not in counting.KINDS or not place.context_tokens:
            return Counted(request, 0, 0, (0,) * len(texts))
        tokens, of_texts = counting.counted(self._wire, place.kind, place.model, chat, texts, tools, stop)
        return Counted(request, tokens, place.context_tokens if tokens else 0, of_texts)

    def _send(self, events: list[AnswerEvent], stop: Stop) -> None:
        """Have events reach the window, together with those that it has not taken yet; waits where those are many."""
        if not events:
            return
        while len(self._unread) >= _MOST_UNREAD:
            stop.wait(0.01)
        if self._unread.put(events):
            with suppress(RuntimeError):  # the window is gone
                self._arrived.emit()

    # ---- slots ------------------------------------------------------------------------------------------------------

    def _on_found(self, server: Server) -> None:
        if model := server.model(self.place.model):
            self.place = place_of(self.place.address, server.kind, model)
        self.found.emit(server)

    def _on_arrived(self) -> None:
        """Pass on what belongs to requests that have not been cancelled."""
        events = [each for each in self._unread.take() if each.id in self._going]
        for each in events:
            if isinstance(each, Finished):
                self._going.pop(each.id, None)
        if events:
            self.events_arrived.emit(events)

    def _on_failed(self, request: int, error: CoppiceError) -> None:
        self._on_arrived()
        if self._going.pop(request, None):
            kind: FailureKind = error.kind if isinstance(error, failures.RemoteError) else "internal"
            self.events_arrived.emit([Failed(request, error.message, error.hint, kind)])


def _is_of_options(error: failures.RemoteError) -> bool:
    """Whether a server may have refused an option that it does not know."""
    return error.kind == "input" and error.status in (400, 422)


class _Unread:
    """Events on their way between two threads, told of once until they are taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[AnswerEvent] = deque()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: list[AnswerEvent]) -> bool:
        """Add some; whether the other side has to be told."""
        with self._lock:
            was_empty = not self._events
            self._events += events
            return was_empty

    def take(self) -> list[AnswerEvent]:
        """All of them."""
        with self._lock:
            events, self._events = list(self._events), deque()
            return events
