"""Imports modules in a thread that works only while the window's own waits for it, a few milliseconds at a time.

With Python before 3.12, Shiboken keeps the types of Qt's classes in one table. Whoever makes one enters it there, and
Qt looks into it whenever it asks a widget for its type, without Python's lock: types that a thread made meanwhile ended
the program now and then. And imported by the window's thread itself, a package like pyqtgraph, all in one piece, would
keep the window from answering for a fifth of a second. So the thread rests before each module, once its turn is over.
"""

import logging
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

_log = logging.getLogger(__name__)

TURN_SECONDS = 0.008
_LONGEST_SECONDS = 1.0  # that the window waits: a module that takes longer, as from a cold disk, goes on beside it
_LOOK_SECONDS = 0.05


class _EndedError(BaseException):
    """No module that is being imported takes it for one of its own."""


class ImportsInTurns:
    """Two lists of modules. A finder of modules, too, that finds none: every import asks it first."""

    def __init__(self, beside: Sequence[str], in_turns: Sequence[str]) -> None:
        """`beside`: those that make no types of Qt, which are imported first, at any time."""
        self._beside, self._in_turns = beside, in_turns
        self._condition = threading.Condition()
        self._thread = 0
        self._has_turn = False
        self._until = 0.0
        self._is_late = False  # the window has waited long enough for this turn to end
        self._is_stopped = False

    def read(self) -> None:
        """Import all modules; for the thread. Errors are only logged: the first use raises the same one."""
        for name in self._beside:
            self._import(name)
        self._thread = threading.get_ident()
        sys.meta_path = [self, *sys.meta_path]  # another list: a thread may look through it
        try:
            for name in self._in_turns:
                self._rest()
                self._import(name)
        except _EndedError:
            _log.debug("The window has closed before all of it was read")
        finally:
            sys.meta_path = [each for each in sys.meta_path if each is not self]
            with self._condition:
                self._thread, self._has_turn, self._is_late = 0, False, False
                self._condition.notify_all()

    def _import(self, name: str) -> None:
        if self._is_stopped:
            return
        try:
            import_module(name)
        except Exception:  # noqa: BLE001  # told where it is used
            _log.exception("%s could not be read ahead", name)

    def let_go_on(self) -> None:
        """Wait while the thread has a turn; for the window's thread, again and again."""
        with self._condition:
            if self._thread and not self._is_late:
                self._until = time.monotonic() + TURN_SECONDS
                self._has_turn = True
                self._condition.notify_all()
                self._is_late = not self._condition.wait_for(lambda: not self._has_turn, _LONGEST_SECONDS)

    def stop(self) -> None:
        """Import no further module: the program ends."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()

    def find_spec(self, _name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        """Asked for a module before it is looked for, by whatever thread."""
        if threading.get_ident() == self._thread:
            self._rest()

    def _rest(self) -> None:
        """Until the next turn, if this one is over; raises `_EndedError` when there will be none."""
        with self._condition:
            if time.monotonic() >= self._until:
                self._has_turn = self._is_late = False
                self._condition.notify_all()
            while not (self._has_turn or self._is_stopped or _window_waits_for_import()):
                self._condition.wait(_LOOK_SECONDS)
            if self._is_stopped:
                raise _EndedError


def _window_waits_for_import() -> bool:
    """Whether it needs a module itself that is being imported here: then it gives no turn before it has that."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename == "<frozen importlib._bootstrap>"
