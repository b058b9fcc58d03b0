"""Notes what this process writes outside the folders that it may write to."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Of each event: the places of paths among its arguments, each with that of the folder it is relative to (0: none).
_PATHS = {
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.remove": ((0, 1),),
    "os.truncate": ((0, 0),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
}
_DEVICES = ("/dev/", "/proc/self/")

_watching: list["Fence"] = []


class Fence:
    """Lists paths that were opened for writing, made, moved or removed elsewhere, but not by C libraries."""

    def __init__(self, allowed: Iterable[Path]) -> None:
        self._allowed = tuple(str(each.resolve()) for each in allowed)
        self.crossed: list[str] = []

    def watch(self) -> None:
        """Begin; a process watches until it ends."""
        _watching.append(self)
        if len(_watching) == 1:
            sys.addaudithook(_hook)

    def take(self) -> list[str]:
        """What was written elsewhere since the last call."""
        found, self.crossed = self.crossed, []
        return found

    def note(self, path: object, folder: object = None) -> None:
        """Look at one path that is written; `folder` is the descriptor of the one that it is relative to, if any."""
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file descriptor
        absolute = Path(os.fsdecode(path)).absolute()
        if isinstance(folder, int) and folder >= 0:
            absolute = Path(f"/proc/self/fd/{folder}").resolve() / os.fsdecode(path)
        full = str(absolute.parent.resolve() / absolute.name)
        if full.startswith(_DEVICES) or "__pycache__" in full:
            return
        if not any(full == each or full.startswith(each + os.sep) for each in self._allowed):
            self.crossed.append(full)


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    fence = _watching[-1]
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & _WRITING:
            fence.note(arguments[0])
    for path, folder in _PATHS.get(event, ()):
        fence.note(arguments[path], arguments[folder] if folder else None)
