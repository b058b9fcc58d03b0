"""How this program starts others of its own, which do work beside the window: their command lines and environment."""

import faulthandler
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from app.system.background import Stop
from app.system.bundle import is_frozen, root
from engine.memory_limit import limit_own_memory

Content = bytes | bytearray | memoryview
_log = logging.getLogger(__name__)

_PASSED_ON = (  # of the environment: what a Python needs to start, and nothing that is secret
    *("PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME"),
    "USERPROFILE",  # the only place where Windows tells the home folder, which libraries ask for when they are imported
)


def command(word: str, module: str) -> list[str]:
    """Runs `module`, which `word` names in a packaged program, as that has no Python to start."""
    return [sys.executable, word] if is_frozen() else [sys.executable, "-m", module]


@contextmanager
def answering(seconds: float, memory_bytes: int) -> Iterator[BinaryIO]:
    """For such a program itself: yields where its answer goes; what libraries print goes nowhere.

    It ends after so many seconds, if nobody else ends it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the window
    nowhere = os.open(os.devnull, os.O_WRONLY)
    faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # from a thread that needs no Python
    limit_own_memory(memory_bytes)
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(nowhere, 1)
        yield answer


def answer_of(words: Sequence[str], content: Content, seconds: float, stop: Stop) -> bytes:
    """What such a program says to `content` until it ends, or is ended: after so many seconds, or when stopped.

    Raises `OSError` where no process can be started.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    ) as process:
        try:
            with stop.interrupting(process.kill):
                said, _ = process.communicate(cast(bytes, content), seconds)  # any buffer will do
        except subprocess.TimeoutExpired:
            _log.warning("%s had no answer within %.0f s", " ".join(words[1:3]), seconds)
            process.kill()
            said, _ = process.communicate()
        except BaseException:
            process.kill()
            raise
    return said


def environment() -> dict[str, str]:
    """What the process gets."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    passed["PYTHONSAFEPATH"] = "1"  # a folder named `app` where the person happens to be is not ours
    if not is_frozen():
        passed["PYTHONPATH"] = str(root())
    return passed
