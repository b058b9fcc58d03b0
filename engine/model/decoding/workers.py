"""Decodes the chunks of one weight on several CPU threads, each of which calls torch on its own.

torch's own threads share one operation at a time, and only some: of the decoders' lookups and moves of bytes most run
in one thread. Chunks are independent, and torch gives the interpreter up while it computes, so that whole chunks scale.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache

import torch

from engine.own_thread import threads_allowed


def work_through(work: Callable[[slice], None], chunks: Sequence[slice], device: torch.device) -> None:
    """Do `work` for every chunk, in any order; returns, or raises what was raised, when nobody works on any more.

    On a CPU as many threads work as torch may use here, otherwise the calling one.
    """
    threads = threads_allowed() if device.type == "cpu" else 1
    waiting = iter(chunks)

    def run() -> None:
        with torch.inference_mode():  # modes are those of a thread, and `out` may be a tensor of this one
            for chunk in waiting:  # one list's iterator for all: each takes the next chunk when it has done one
                work(chunk)

    busy = min(threads, len(chunks))
    if busy < 2:
        for chunk in waiting:
            work(chunk)
        return
    futures = [_pool(threads).submit(run) for _ in range(busy)]
    wait(futures)
    for future in futures:
        future.result()


@lru_cache(maxsize=1)
def _pool(count: int) -> ThreadPoolExecutor:
    """Threads in which torch itself uses one alone."""
    begun = threading.Barrier(count + 1)

    def begin() -> None:
        threads_allowed()  # at its first use a thread takes over what was set last, by any of them
        torch.set_num_threads(1)
        begun.wait()

    pool = ThreadPoolExecutor(count, "decoder", initializer=begin)
    try:
        for _ in range(count):  # none is idle before all have begun, so that each call begins one
            pool.submit(bool)
    except RuntimeError:  # the system gives no more threads
        begun.abort()
        raise
    begun.wait()
    torch.set_num_threads(count)  # threads that begin later take over what was set last
    return pool
