"""Keeps the small operations of a pass in the thread that asks for them, where its matrices are shared out otherwise.

torch wakes all its threads for every operation on more than 32,768 numbers: at 17 rows of a small network for some ten
in each layer, none of which takes as long as the waking. Beside another program each then waits until the system lets
that thread run. Bits do not depend on it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class _Held(threading.local):  # as torch's own setting is each thread's
    threads = 0


_held = _Held()


def threads_allowed() -> int:
    """How many threads may compute for this one."""
    return _held.threads or torch.get_num_threads()


@contextmanager
def in_own_thread() -> Iterator[None]:
    """torch computes in this thread alone; what is worth it asks for `with_all_threads`."""
    if _held.threads:
        yield
        return
    _held.threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(_held.threads)
        _held.threads = 0


def with_all_threads(compute: Callable[..., T], *arguments: object) -> T:
    """What `compute` gives, by as many threads as may compute for this one."""
    if not _held.threads:
        return compute(*arguments)
    torch.set_num_threads(_held.threads)
    try:
        return compute(*arguments)
    finally:
        torch.set_num_threads(1)
