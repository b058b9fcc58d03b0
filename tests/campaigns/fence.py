"""Notes what this process writes outside the folders that it may write to."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_OF_ONE_PATH = ("os.mkdir", "os.rmdir", "os.remove", "os.truncate", "os.chmod", "os.chown", "os.utime")
_OF_TWO_PATHS = ("os.rename", "os.link", "os.symlink")
_DEVICES = ("/dev/", "/proc/self/")

_watching: list["Fence"] = []


class Fence:
    """Lists paths that were opened for writing, made, moved or removed elsewhere, but not by C libraries."""

    def __init__(self, allowed: Iterable[Path]) -> None:
        self._allowed = tuple(str(each.resolve()) for each in allowed)
        self.crossed: list[str] = []

    def watch(self) -> None:
        """Begin; a process watches until it ends."""
        if not _watching:
            sys.addaudithook(_hook)
        _watching.append(self)

    def take(self) -> list[str]:
        """What was written elsewhere since the last call."""
        found, self.crossed = self.crossed, []
        return found

    def note(self, path: object) -> None:
        """Look at one path that is written."""
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file descriptor
        absolute = Path(os.fsdecode(path)).absolute()
        full = str(absolute.parent.resolve() / absolute.name)
        if full.startswith(_DEVICES) or "__pycache__" in full:
            return
        if not any(full == each or full.startswith(each + os.sep) for each in self._allowed):
            self.crossed.append(full)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & _WRITING:
            _tell(arguments[:1])
    elif event in _OF_ONE_PATH:
        _tell(arguments[:1])
    elif event in _OF_TWO_PATHS:
        _tell(arguments[:2] if event == "os.rename" else arguments[1:2])


def _tell(paths: Iterable[object]) -> None:
    fence = _watching[-1]
    note: Callable[[object], None] = fence.note
    for path in paths:
        note(path)
