"""A thread of the engine process that answers questions beside the requests, and survives every failure."""

import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.protocol.messages import Appraise, Count, Event

Question = TypeVar("Question", bound=Appraise | Count)


class Answerer(Generic[Question]):
    """Every question gets exactly one event: the answer or a failure. The thread starts with the first question.

    With a time limit, a second thread fails what is not answered in time; an answer that comes later is dropped. So a
    question that never ends costs those behind it no more than the limit.
    """

    def __init__(
        self,
        name: str,
        answer: Callable[[Question], Event],
        failure_event: Callable[[Question, BaseException], Event],
        send: Callable[[Event], None],
        seconds: float | None = None,
    ) -> None:
        self._answer = answer
        self._failure_event = failure_event
        self._send = send
        self._seconds = seconds
        self._questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._due: dict[int, tuple[float, Question]] = {}  # by id, oldest first; what was put and is not answered yet
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True)]
        if seconds is not None:
            self._threads.append(threading.Thread(target=self._guard, name=f"{name}-guard", daemon=True))

    def put(self, question: Question) -> None:
        """Have a question answered."""
        with self._changed:
            self._due[question.id] = (time.monotonic() + (self._seconds or 0), question)
            self._changed.notify_all()
        self._questions.put(question)
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def _run(self) -> None:
        while True:
            question = self._questions.get()
            try:
                if question.id in self._due:  # not failed yet: it may have waited behind one that takes long
                    self._say(question, self._answered(question))
            except BaseException:  # noqa: BLE001  # without this thread no question is answered any more
                traceback.print_exc()

    def _guard(self) -> None:
        while True:
            try:
                question = self._take_overdue()
                error = TimeoutError(f"{type(question).__name__} {question.id} took more than {self._seconds} seconds")
                self._send(self._failed_event(question, error))
            except BaseException:  # noqa: BLE001  # as above
                traceback.print_exc()

    def _take_overdue(self) -> Question:
        """The oldest unanswered question, once its time is over; from then on this thread alone answers it."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: bool(self._due))
                due, question = next(iter(self._due.values()))
                if (left := due - time.monotonic()) <= 0:
                    del self._due[question.id]
                    return question
                self._changed.wait(left)

    def _answered(self, question: Question) -> Event:
        try:
            return self._answer(question)
        except BaseException as error:  # noqa: BLE001  # a library may raise what is no Exception, such as a panic
            return self._failed_event(question, error)

    def _failed_event(self, question: Question, error: BaseException) -> Event:
        traceback.print_exception(error)
        return self._failure_event(question, error)

    def _say(self, question: Question, event: Event) -> None:
        if not self._is_first(question):
            return
        try:
            self._send(event)
        except Exception as error:  # noqa: BLE001  # an answer that cannot be sent
            self._send(self._failed_event(question, error))

    def _is_first(self, question: Question) -> bool:
        """Whether it was not answered yet; from now on no other thread answers it."""
        with self._changed:
            return self._due.pop(question.id, None) is not None
