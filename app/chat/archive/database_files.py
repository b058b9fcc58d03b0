"""What lies beside the database: the mark of a clean end, copies from before an upgrade, files that were set aside.

chats.sqlite3-clean                     how the file was left, so that only one that was not closed is checked
chats.v3.sqlite3                        copy from before an upgrade: removed after 30 days
chats.damaged-20261122-101500.sqlite3   set aside because it is damaged: removed after 90 days
chats.set-aside-20261122-101500.sqlite3 set aside for another reason, and whole: never removed by the program

The mark holds the database's size, the time of its last change and its number on the disk. It is written when
everything is in the file and nobody uses it, and taken away before anything is changed. A crash, a kill and a power cut
leave no mark, and a file that came from elsewhere, or was changed, does not fit it.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

from app.system import json_text as json
from app.system.files import write_private
from engine.files import remove

COPY_SECONDS = 30 * 24 * 3600.0
DAMAGED_SECONDS = 90 * 24 * 3600.0
_COMPANIONS = ("", "-wal", "-shm")
_STAMP = "%Y%m%d-%H%M%S"
_log = logging.getLogger("coppice.archive")


def take_clean_mark(path: Path) -> bool:
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


def leave_clean_mark(path: Path) -> None:
    """The database is closed, and everything is in it. Raises `OSError`; then the next start checks it."""
    write_private(_mark(path), _state(path).encode())


def _mark(path: Path) -> Path:
    return path.with_name(path.name + "-clean")


def _state(path: Path) -> str:
    found = path.stat()
    return json.dumps({"size": found.st_size, "modified_ns": found.st_mtime_ns, "inode": found.st_ino})


def set_aside(path: Path, is_damaged: bool) -> tuple[Path, float]:
    """Rename the file and what belongs to it; returns the new path, and when it is removed (0: never)."""
    now = time.time()
    moved = _rename(path, path, "damaged" if is_damaged else "set-aside", now)
    return moved, now + DAMAGED_SECONDS if is_damaged else 0.0


def sort_out(path: Path, is_damaged: Callable[[Path], bool]) -> None:
    """Give damaged files, which earlier versions named as they named whole ones, the name of damaged ones.

    Their time begins now. `is_damaged` reads a whole file, so this is done once, at an upgrade.
    """
    for each in list(_found(path, r"set-aside-\d{8}-\d{6}(?:-\d+)?")):
        if is_damaged(each):
            _rename(path, each, "damaged", time.time())


def remove_old(path: Path) -> None:
    """Remove what has been kept for its time; what cannot be removed is tried again at the next start."""
    now = time.time()
    copies = [each for each in _found(path, r"v\d+") if each.stat().st_mtime < now - COPY_SECONDS]
    damaged = [
        each for each in _found(path, r"damaged-\d{8}-\d{6}(?:-\d+)?") if _set_aside_at(each) < now - DAMAGED_SECONDS
    ]
    for each in chain.from_iterable(map(_with_companions, [*copies, *damaged])):
        try:
            each.unlink(missing_ok=True)
        except OSError:
            _log.exception("%s could not be removed", each.name)


def _rename(path: Path, old: Path, kind: str, now: float) -> Path:
    """`path` is the database, `old` the file that gets a name beside it."""
    stamp = time.strftime(_STAMP, time.localtime(now))
    names = (f"{path.stem}.{kind}-{stamp}{end}{path.suffix}" for end in chain([""], (f"-{n}" for n in count(2))))
    target = next(each for each in map(path.with_name, names) if not any(map(Path.exists, _with_companions(each))))
    for before, after in zip(_with_companions(old), _with_companions(target), strict=True):
        if before.exists():
            before.rename(after)
    return target


def _set_aside_at(path: Path) -> float:
    """By the name: a file keeps the time of its last change when it is renamed."""
    found = re.search(r"-(\d{8}-\d{6})", path.name)
    try:
        return time.mktime(time.strptime(found[1], _STAMP)) if found else time.time()
    except (ValueError, OverflowError):
        return time.time()


def _found(path: Path, pattern: str) -> Iterator[Path]:
    """Files beside the database with its name and such a word in it."""
    name = re.compile(rf"{re.escape(path.stem)}\.{pattern}{re.escape(path.suffix)}")
    return (each for each in path.parent.iterdir() if name.fullmatch(each.name) and each.is_file())


def _with_companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + each) for each in _COMPANIONS]
