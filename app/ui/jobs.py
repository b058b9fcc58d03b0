"""Work that blocks, done in threads: results, errors and progress come as signals in the window's thread.

`Jobs` does pieces of work in turn, each of which can be cancelled; `Task` does the same thing whenever it is asked to.
`app.system.background` makes the threads.
"""

import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from queue import SimpleQueue

from PySide6.QtCore import QObject, Signal

from app.i18n.translation import tr
from app.system.background import Stop, attempt, report, start
from app.system.window_thread import in_window_thread
from engine.errors import Cancelled, CoppiceError

Work = Callable[[Stop], object]


class Job(QObject):
    """One piece of work. It ends in `done`, in `failed`, or, after `cancel`, in neither.

    Work that is an iterator is followed step by step: each goes into `stepped`, and the last one into `done` too.
    The thread has the errand and never this object: it would destroy it if it were the last to hold it.
    """

    stepped = Signal(object)
    done = Signal(object)
    failed = Signal(CoppiceError)

    def __init__(self, work: Work, on_over: "Callable[[Job], None]") -> None:
        super().__init__()
        self._on_over = on_over
        self._stop = Stop()
        self.errand = _Errand(work, self._stop, in_window_thread(self._on_step), in_window_thread(self._on_ended))

    def cancel(self) -> None:
        """Let nothing more be heard of it; the thread stops as soon as it can."""
        self._stop.ask()

    def _on_step(self, step: object) -> None:
        if not self._stop.asked:
            self.stepped.emit(step)

    def _on_ended(self, result: object, error: CoppiceError | None) -> None:
        if not self._stop.asked:
            if error is None:
                self.done.emit(result)
            else:
                self.failed.emit(error)
        self._on_over(self)


class _Errand:
    """What the thread of a job has: the work, the request to stop, and how to tell of steps and of the end."""

    def __init__(
        self, work: Work, stop: Stop, made_step: Callable[[object], None], ended: Callable[[object, object], None]
    ) -> None:
        self._work, self._stop, self._made_step, self._ended = work, stop, made_step, ended

    def perform(self) -> None:
        """Do the work; for the thread that does it."""
        result: object = None
        error: CoppiceError | None = None
        try:
            self._stop.check()
            result = self._work(self._stop)
            if isinstance(result, Iterator):
                result = self._follow(result)
        except Cancelled:
            self._stop.ask()
        except CoppiceError as known:
            error = known
        except BaseException as unknown:  # noqa: BLE001  # a thread that dies would leave the window waiting
            report(unknown)
            words = tr("That did not work: {reason}").format(reason=str(unknown) or type(unknown).__name__)
            error = CoppiceError(words, tr("Details are in the application's log."))
        self._ended(result, error)

    def _follow(self, steps: Iterator[object]) -> object:
        """The last step; each is announced on the way. What the work cleans up, it cleans up in this thread."""
        last = None
        try:
            for last in steps:
                self._stop.check()
                self._made_step(last)
        finally:
            if isinstance(steps, Generator):
                steps.close()
        return last


class Jobs(QObject):
    """Does a few pieces of work at a time, the others in turn. The threads end with the process, if not before."""

    def __init__(self, at_a_time: int, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: SimpleQueue[_Errand | None] = SimpleQueue()
        self._at_a_time = at_a_time
        self._going: set[Job] = set()
        self._threads = [start(name, partial(_work_off, self._waiting)) for _ in range(at_a_time)]

    def start(self, work: Work) -> Job:
        """Put a piece of work into the queue; connect to its signals at once: nothing is sent before that."""
        job = Job(work, self._going.discard)
        self._going.add(job)
        self._waiting.put(job.errand)
        return job

    @property
    def idle(self) -> bool:
        """Whether nothing is under way any more."""
        return not self._going

    def close(self) -> None:
        """Cancel everything, and let the threads end."""
        for job in self._going:
            job.cancel()
        for _ in range(self._at_a_time):
            self._waiting.put(None)

    def wait(self, seconds: float) -> bool:
        """After `close`, until the threads have ended; returns whether they have in so many seconds."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)


def _work_off(waiting: "SimpleQueue[_Errand | None]") -> None:
    while errand := waiting.get():
        attempt(errand.perform, lambda _error: None)


class Task(QObject):
    """One thing, done at most once at a time in a thread of its own; `done` brings its result.

    After an error, which is reported, the result is that of `otherwise`.
    """

    done = Signal(object)

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        parent: QObject | None = None,
        otherwise: Callable[[BaseException], object] = lambda _error: None,
    ) -> None:
        super().__init__(parent)
        self._name = name
        self._work: Work = lambda _stop: attempt(work, otherwise)
        self._job: Job | None = None

    @property
    def is_running(self) -> bool:
        """Whether it goes on, or is done and not yet told."""
        return self._job is not None

    def start(self) -> None:
        """Do it, unless that goes on already."""
        if self._job is None:
            self._job = Job(self._work, lambda _job: None)
            self._job.done.connect(self._on_done)
            start(self._name, self._job.errand.perform)

    def _on_done(self, result: object) -> None:
        self._job = None
        self.done.emit(result)
