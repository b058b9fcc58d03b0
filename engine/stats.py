"""Clocks and memory counters."""

import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine.protocol.messages import Seconds

if sys.platform != "win32":
    import resource


class Stopwatch:
    """Adds up wall time under names such as `draft` and `target`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._last: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `name`, also when it ends in an exception."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._last[name] = seconds = time.perf_counter() - begin
            self._seconds[name] += seconds

    def last(self, name: str) -> float:
        """Seconds of the newest measurement under `name`."""
        return self._last[name]

    def add(self, name: str, seconds: float) -> None:
        """Add time that was measured elsewhere."""
        self._seconds[name] += seconds

    def __getitem__(self, name: str) -> float:
        return self._seconds[name]

    def seconds(self, load: float = 0.0) -> Seconds:
        """Everything measured so far; `other` is decode less draft and target."""
        draft, target, decode = self["draft"], self["target"], self["decode"]
        return Seconds(
            load=load, prefill=self["prefill"], draft=draft, target=target, decode=decode,
            other=max(0.0, decode - draft - target), hidden_draft=self["hidden_draft"],
            stream_wait=self["stream_wait"],
        )  # fmt: skip


def peak_rss_bytes() -> int:
    """The most memory this process has held so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    elif sys.platform == "linux":  # noqa: RET505  # getrusage would tell the parent's peak if that was higher
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    else:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS, in bytes there


def peak_vram_bytes() -> int:
    """The most CUDA memory this process has held so far, in bytes; 0 where there is none."""
    torch = sys.modules.get("torch")  # using CUDA imports it
    if torch is None or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.max_memory_reserved())
