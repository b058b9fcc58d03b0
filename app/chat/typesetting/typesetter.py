"""Sends formulas and code to the drawing process from a thread, one after another."""

from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Condition, Thread
from typing import Any, Protocol

from PySide6.QtCore import QObject, Qt, Signal, SignalInstance

from app.chat.typesetting.drawing_process import DrawingProcess
from app.system.background import attempt, start

_SECONDS_TO_END = 1.0  # a killed process takes milliseconds; closing never waits for more than this


class TypesettingJob(Protocol):
    """What is to be drawn; jobs that are equal have one answer."""

    @property
    def is_urgent(self) -> bool:
        """Whether it goes before those that are not."""

    @property
    def request(self) -> dict[str, object]:
        """How the process is asked for it."""


class Typesetter(QObject):
    """A queue of jobs with a thread; both thread and process start with the first job.

    `answered` carries a job and its answer, None if there was none in time, in a later turn of the event loop.
    """

    answered = Signal(object, object)  # Job, what `DrawingProcess.ask` returned
    _came = Signal(object, object)

    def __init__(self, parent: QObject | None = None, process: DrawingProcess | None = None) -> None:
        super().__init__(parent)
        self._jobs = _JobQueue()
        self._process = process or DrawingProcess()
        self._thread: Thread | None = None
        # queued, since a job can be done before the one who asked has written down where it belongs
        self._came.connect(self.answered, Qt.ConnectionType.QueuedConnection)
        self.destroyed.connect(partial(_close, self._jobs, self._process))

    @property
    def pid(self) -> int | None:
        """The id of the process, if one runs."""
        return self._process.pid

    def ask(self, job: TypesettingJob) -> None:
        """Do it when its turn comes."""
        if not self._jobs.put(job):
            return
        if self._thread is None:
            work = (self._jobs, self._process, self._came)
            self._thread = start("formulas", partial(_work, *work))

    def drop(self, unwanted: Callable[[TypesettingJob], bool]) -> None:
        """Forget these, unless they are done already."""
        self._jobs.drop(unwanted)

    def close(self) -> None:
        """End the process, whatever it does; nothing is drawn any more."""
        _close(self._jobs, self._process)
        if self._thread is not None:
            self._thread.join(_SECONDS_TO_END)
            self._thread = None


class _JobQueue:
    """Those that wait, the urgent ones first."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: tuple[deque[TypesettingJob], deque[TypesettingJob]] = (deque(), deque())
        self._is_closed = False

    def put(self, job: TypesettingJob) -> bool:
        """Add a job; returns False if the queue is closed."""
        with self._changed:
            if not self._is_closed:
                self._waiting[0 if job.is_urgent else 1].append(job)
                self._changed.notify()
            return not self._is_closed

    def take(self) -> TypesettingJob | None:
        """The next one, as soon as there is one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or any(self._waiting))
            if self._is_closed:
                return None
            return next(each.popleft() for each in self._waiting if each)

    def drop(self, unwanted: Callable[[TypesettingJob], bool]) -> None:
        with self._changed:
            for waiting in self._waiting:
                kept = [each for each in waiting if not unwanted(each)]
                waiting.clear()
                waiting.extend(kept)

    def tell(self, came: SignalInstance, job: TypesettingJob, answer: Any) -> None:
        """Say that a job is done, unless it is the end: the one who would be told may just be taken apart."""
        with self._changed:
            if not self._is_closed:
                came.emit(job, answer)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()


def _close(jobs: _JobQueue, process: DrawingProcess) -> None:
    jobs.close()
    process.close()


def _work(jobs: _JobQueue, process: DrawingProcess, came: SignalInstance) -> None:
    """Do what comes, until the end."""
    while (job := jobs.take()) is not None:
        # A job that fails is one without an answer.
        jobs.tell(came, job, attempt(partial(process.ask, job.request), lambda _error: None))
    process.end()
