"""How a thread calls what belongs to the window: in the window's thread, and only if it is still there.

A thread that emits the signal of an object, or is the last that holds one, races with the window that destroys it: Qt
may be delivering to that object at this very moment. So a thread holds and emits nothing of the window's. It calls what
`in_window_thread` has returned, which goes through one object that lasts as long as the process.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakMethod

import shiboken6
from PySide6.QtCore import QObject, Qt, Signal


class _Post(QObject):
    """Lives in the window's thread, and is never destroyed."""

    came = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self.came.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def _deliver(self, to: "WeakMethod[Callable[..., None]]", arguments: tuple[object, ...]) -> None:
        method: Any = to()
        if method is not None and shiboken6.isValid(method.__self__):
            method(*arguments)


_POST: list[_Post] = []


def in_window_thread(method: Callable[..., None]) -> Callable[..., None]:
    """A function for threads that has a method called in the window's thread, in a later turn of its event loop.

    To be asked for in the window's thread. It does not keep the object of the method alive: what is told when that has
    gone, or has been destroyed by Qt, is told to nobody.
    """
    if not _POST:
        assert threading.current_thread() is threading.main_thread()
        _POST.append(_Post())
    return partial(_send, _POST[0], WeakMethod(method))


def _send(post: _Post, to: "WeakMethod[Callable[..., None]]", *arguments: Any) -> None:
    post.came.emit(to, arguments)
