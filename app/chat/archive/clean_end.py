"""Knows whether the database was closed in order, so that only a file that was not is checked from end to end.

A mark beside the database holds how the file was left: its size, the time of its last change and its number on the
disk. It is written when everything is in the file and nobody uses it, and taken away before anything is changed. A
crash, a kill and a power cut leave no mark, and a file that came from elsewhere, or was changed, does not fit it.
"""

from pathlib import Path

from app.system import json_text as json
from app.system.files import write_private
from engine.files import remove


def take(path: Path) -> bool:
    """Take the mark away; returns whether the database was closed in order and is still as it was then.

    Raises `OSError` where the mark cannot be taken away.
    """
    mark, log = _mark(path), path.with_name(path.name + "-wal")
    try:
        is_clean = mark.read_text(encoding="utf-8") == _state(path) and not (log.exists() and log.stat().st_size)
    except (OSError, ValueError):
        is_clean = False
    remove(mark)
    return is_clean


def leave(path: Path) -> None:
    """The database is closed, and everything is in it. Raises `OSError`; then the next start checks it."""
    write_private(_mark(path), _state(path).encode())


def _mark(path: Path) -> Path:
    return path.with_name(path.name + "-clean")


def _state(path: Path) -> str:
    found = path.stat()
    return json.dumps({"size": found.st_size, "modified_ns": found.st_mtime_ns, "inode": found.st_ino})
