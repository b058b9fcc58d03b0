"""What a crash leaves behind: the stack of every thread, made into a report at the next start. Nothing is sent."""

import faulthandler
import platform
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TextIO

from app.shell.log_excerpt import hide_secrets, log_excerpt
from app.system.paths import Folders
from engine import __version__

_MOST_REPORTS = 5
_MOST_BYTES = 200_000


class CrashWatch:
    """Writes down where every thread was when the process dies of a fault; `begin` tells of the last time."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._fault = folders.logs / "fault.txt"
        self._file: TextIO | None = None

    def begin(self) -> Path | None:
        """Start watching; returns the report of a crash since the last time, if there was one. Raises `OSError`."""
        report = self._report()
        self._file = self._fault.open("w", encoding="utf-8")
        faulthandler.enable(self._file, all_threads=True)
        return report

    def end(self) -> None:
        """Stop watching: what comes now is the orderly end."""
        if self._file is None:
            return
        faulthandler.disable()
        self._file.close()
        self._file = None
        self._fault.unlink(missing_ok=True)

    def _report(self) -> Path | None:
        """Write the report of what the last process left, if it left anything; the oldest reports go."""
        try:
            stack = self._fault.read_text(encoding="utf-8", errors="replace")[:_MOST_BYTES]
        except FileNotFoundError:
            return None
        if not stack.strip():
            return None
        path = _free(self._folders.logs, time.strftime("crash-%Y%m%d-%H%M%S"))
        path.write_text("\n".join(self._lines(stack)) + "\n", encoding="utf-8")
        for old in reports(self._folders)[:-_MOST_REPORTS]:
            old.unlink(missing_ok=True)
        return path

    def _lines(self, stack: str) -> Iterator[str]:
        yield f"Coppice {__version__} ended by a fault before {time.strftime('%Y-%m-%d %H:%M:%S')}"
        yield f"Python {platform.python_version()}, {platform.system()} {platform.release()}, {platform.machine()}"
        home = str(Path.home())
        yield from ("", "## Where its threads were")
        yield from (hide_secrets(each.replace(home, "~")) for each in stack.splitlines())
        excerpt = log_excerpt(self._folders.application_log, self._folders.chats_file)
        yield from ("", "## The last lines of its log", *(each.replace(home, "~") for each in excerpt))


def reports(folders: Folders) -> list[Path]:
    """All that are kept, the oldest first."""
    return sorted(folders.logs.glob("crash-*.txt"))


def _free(folder: Path, name: str) -> Path:
    """A file of that name that is not there yet."""
    names = (f"{name}.txt" if number == 1 else f"{name}-{number}.txt" for number in count(1))
    return next(path for path in map(folder.__truediv__, names) if not path.exists())
