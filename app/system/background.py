"""Worker threads of the application: the one way to make them, and none of them ends silently.

Whatever work in a thread raises is reported to `threading.excepthook`, which in the window logs it and shows a notice.
`BaseException` is meant: Rust libraries derive their panics from it, and `SystemExit` in a worker ends no program, only
that thread. Standard library only, since the downloads and the installation use it without a window.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from engine.errors import Cancelled

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_Instead = TypeVar("_Instead")
_Thread = TypeVar("_Thread")

_FIRST_PAUSE_SECONDS = 0.05  # before work that failed runs again; doubled each time
_LONGEST_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 0.02  # whether a thread has come to where it can be left


def report(error: BaseException) -> None:
    """Hand an error that a worker thread met and survived to `threading.excepthook`, which logs it and tells of it."""
    arguments = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    try:
        threading.excepthook(arguments)
    except BaseException:  # noqa: BLE001  # a hook that fails must not end the thread that reports
        _log.exception("The hook for errors of threads failed")
        _log.error("The error that it was called for", exc_info=error)


def attempt(work: Callable[[], _Result], otherwise: Callable[[BaseException], _Instead]) -> _Result | _Instead:
    """The result of `work`; whatever it raises is reported, and the result is that of `otherwise`."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  # the point of it
        report(error)
        return otherwise(error)


class _Worker(threading.Thread):
    """Made by `start`: what a library made is not ours to wait for."""

    can_be_left = False


@contextmanager
def can_be_left() -> Iterator[None]:
    """While the block runs, the program may end without its thread: it waits for a network, and nothing would be lost.

    What is waited for so cannot always be interrupted: a connection that is being made, or a name that is looked up.
    """
    thread = threading.current_thread()
    if not isinstance(thread, _Worker):
        yield
        return
    former, thread.can_be_left = thread.can_be_left, True
    try:
        yield
    finally:
        thread.can_be_left = former


def start(
    name: str, work: Callable[[], object], on_error: Callable[[BaseException], object] = lambda _error: None
) -> threading.Thread:
    """Do `work` in a daemon thread; after an error, `on_error` gets it, to answer who waits.

    `name` is what the log and the notices know the thread by.
    """
    thread = _Worker(target=_run, args=(work, on_error), name=name, daemon=True)
    thread.start()
    return thread


def still_running(seconds: float, threads: Iterable[threading.Thread] | None = None) -> list[str]:
    """The names of threads made by `start`, of these or of all, that have not ended after so many seconds.

    Sooner, where all that have not ended can be left.
    """
    deadline = time.monotonic() + seconds
    workers = [each for each in (threading.enumerate() if threads is None else threads) if isinstance(each, _Worker)]
    while True:
        workers = [each for each in workers if each.is_alive()]
        needed = [each for each in workers if not each.can_be_left]
        if not needed or time.monotonic() >= deadline:
            return [each.name for each in workers]
        needed[0].join(_LOOK_SECONDS)


def repeat(work: Callable[[], object]) -> None:
    """Do `work` until it returns without an error; each error is reported, and the next try waits a little longer."""

    def is_done() -> bool:
        work()
        return True

    pause = _FIRST_PAUSE_SECONDS
    while not attempt(is_done, lambda _error: False):
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def lasting(name: str) -> Callable[[Callable[[_Thread], None]], Callable[[_Thread], None]]:
    """Decorates the `run` of a Qt thread: it runs again after an error, so that later orders are served."""

    def decorate(run: Callable[[_Thread], None]) -> Callable[[_Thread], None]:
        def lasting_run(thread: _Thread) -> None:
            threading.current_thread().name = name  # Python does not know the name of Qt's threads
            repeat(lambda: run(thread))

        return lasting_run

    return decorate


def pool(most: int, name: str) -> "ThreadPoolExecutor":
    """A pool of threads; what its work raises is raised again where the results are taken."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # few starts need one

    return ThreadPoolExecutor(most, name)


def _run(work: Callable[[], object], on_error: Callable[[BaseException], object]) -> None:
    try:
        attempt(work, on_error)
    except BaseException as error:  # noqa: BLE001  # `on_error` failed too
        report(error)


class Stop:
    """Once made, it stands. What blocks meanwhile, such as a connection that is being read, can be interrupted."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._interrupts: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether to stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Make the request; from any thread, at any time."""
        with self._lock:  # held, so that nothing is interrupted whose block has ended
            self._asked.set()
            for interrupt in self._interrupts:
                interrupt()

    def check(self) -> None:
        """Raise `Cancelled` if it was made."""
        if self._asked.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> None:
        """Wait, but raise `Cancelled` as soon as the request is made."""
        self._asked.wait(seconds)
        self.check()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the thread that asks calls `interrupt`. Raises `Cancelled` if one has asked before."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)
