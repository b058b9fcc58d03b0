"""Files of texts that were read before: where they lie, what they take, how they go. Both processes use this.

kept/<model>/<owner>-<text>.<part>.safetensors: what a model computed of one text, in parts that follow each other; the
names tell a model and a conversation by hashes alone. All of it can be computed again.
"""

import hashlib
import os
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.files import remove_leftovers

FOLDER = "kept"  # in the cache folder
AUTOMATIC = -1  # bytes that may be kept: a part of what is free
AUTOMATIC_SHARE, AUTOMATIC_MOST = 0.05, 8 * 10**9  # of the disk's free bytes; and so many at most
RESERVE_BYTES = 1 << 30  # stays free on the disk: a full one harms more than a prompt that is read again
_PRIVATE = 0o700
_NAME = re.compile(r"(?P<owner>[0-9a-f]{16})-(?P<text>[0-9a-f]{16})\.(?P<part>\d{2})\.safetensors")


def kept_folder(cache: str | Path) -> Path:
    """Where texts are kept in a cache folder."""
    return Path(cache) / FOLDER


def owner_of(conversation: str) -> str:
    """How a conversation is called in names of files."""
    return hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One part of a kept text; `used`: seconds since the epoch, when it was of use last."""

    path: Path
    owner: str
    text: str
    part: int
    nbytes: int
    used: float


def part_path(folder: Path, owner: str, text: str, part: int) -> Path:
    """The file of a part of a text."""
    return folder / f"{owner}-{text}.{part:02d}.safetensors"


def files_of(folder: Path) -> list[KeptFile]:
    """The parts in the folder of one model. Links, and whatever has another name, are left alone."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:  # nothing was kept yet, or it is gone again
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            with suppress(OSError):  # gone meanwhile
                state = entry.stat(follow_symlinks=False)
                if name and stat.S_ISREG(state.st_mode):
                    owner, text, part = name["owner"], name["text"], int(name["part"])
                    found.append(KeptFile(Path(entry.path), owner, text, part, state.st_size, state.st_mtime))
    return found


def all_files(root: Path) -> list[KeptFile]:
    """The parts of every model's texts."""
    return [file for folder in _models(root) for file in files_of(folder)]


def kept_bytes(root: Path) -> int:
    """What all texts take."""
    return sum(file.nbytes for file in all_files(root))


def planned_bytes(root: Path, most_bytes: int) -> int:
    """How many bytes may be kept; `AUTOMATIC`: a part of what would be free without them. Raises `OSError`."""
    if most_bytes != AUTOMATIC:
        return most_bytes
    free = shutil.disk_usage(_existing(root)).free
    return min(AUTOMATIC_MOST, int(AUTOMATIC_SHARE * (free + kept_bytes(root))))


def make_room(root: Path, new_bytes: int, most_bytes: int, staying: Iterable[Path] = ()) -> bool:
    """Remove the texts that were of no use for longest, until so many bytes fit; whether they do. Raises `OSError`.

    They fit where all that is kept takes at most `most_bytes`, and `RESERVE_BYTES` of the disk stay free. Where that
    cannot be had, nothing is removed but what killed processes left half written. `staying`: parts of the text that
    grows.
    """
    _sweep(root)
    texts, stays = defaultdict[tuple[Path, str, str], list[KeptFile]](list), frozenset(staying)
    for file in all_files(root):
        texts[file.path.parent, file.owner, file.text].append(file)
    total = sum(file.nbytes for files in texts.values() for file in files)
    free = shutil.disk_usage(_existing(root)).free
    too_many = max(total + new_bytes - most_bytes, new_bytes + RESERVE_BYTES - free)
    going = []
    for files in sorted(texts.values(), key=lambda files: max(file.used for file in files)):
        if too_many <= 0:
            break
        if not any(file.path in stays for file in files):
            going.append(files)
            too_many -= sum(file.nbytes for file in files)
    if too_many > 0:
        return False
    for files in going:
        remove_parts(file.path for file in files)
    return True


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove files, the last part first: what is left of a text can be used, whenever this is interrupted."""
    for path in sorted(paths, reverse=True):
        with suppress(OSError):  # gone already; or open, on Windows, and removed when its time comes again
            path.unlink()


def forget(root: Path, conversations: Iterable[str] | None = None) -> int:
    """Remove what is kept of these conversations, or of all; returns the bytes that are free again."""
    owners = None if conversations is None else {owner_of(each) for each in conversations}
    files = [file for file in all_files(root) if owners is None or file.owner in owners]
    remove_parts(file.path for file in files)
    _sweep(root)
    for folder in _models(root):
        with suppress(OSError):  # it is not empty
            folder.rmdir()
    return sum(file.nbytes for file in files if not file.path.exists())


def make_private(folder: Path) -> None:
    """Make the folder of a model, which nobody else may enter. Raises `OSError`, also where it is a link."""
    for each in (folder.parent, folder):
        each.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if each.is_symlink():
            raise NotADirectoryError(20, "Not a directory", str(each))
        if os.name == "posix" and each.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            each.chmod(_PRIVATE)


def _sweep(root: Path) -> None:
    """Remove what processes have left that were killed while they wrote: it is gigabytes, and nothing counts it."""
    for folder in _models(root):
        with suppress(OSError):  # open on Windows
            remove_leftovers(folder)


def _models(root: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(root) as entries:
        yield from sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))


def _existing(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if each.is_dir()), folder)
