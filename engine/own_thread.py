"""Keeps the small operations of a pass in the thread that asks for them, where its matrices are shared out otherwise.

torch wakes all its threads for every operation on more than 32,768 numbers: at 17 rows of a small network for some ten
in each layer, none of which takes as long as the waking. Beside another program each then waits until the system lets
that thread run. Bits do not depend on it.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

FEW_NUMBERS = 1 << 18  # of which one thread makes exponentials in a fraction of a millisecond


class _Held(threading.local):  # as torch's own setting is each thread's
    threads = 0


_held = _Held()


def threads_allowed() -> int:
    """How many threads may compute for this one."""
    return _held.threads or torch.get_num_threads()


@contextmanager
def in_own_thread() -> Iterator[None]:
    """torch computes in this thread alone; what is worth it asks for `in_all_threads`."""
    threads, is_held = torch.get_num_threads(), _held.threads > 0
    if threads == 1 and is_held:
        yield
        return
    _held.threads = _held.threads or threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if not is_held:
            _held.threads = 0


@contextmanager
def in_all_threads() -> Iterator[None]:
    """torch computes in as many threads as may compute for this one, also inside of `in_own_thread`."""
    if not _held.threads:
        yield
        return
    torch.set_num_threads(_held.threads)
    try:
        yield
    finally:
        torch.set_num_threads(1)


def threads_for(numbers: int, few: int = FEW_NUMBERS) -> AbstractContextManager[None]:
    """For an operation on so many numbers on a CPU: this thread alone where it has done it before another has woken."""
    return in_own_thread() if numbers <= few else in_all_threads()
