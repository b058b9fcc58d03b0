"""Deleting models so that a slip of the hand costs nothing: set aside at once, removed only when it is settled."""

import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.library.local.models import bytes_below
from engine.errors import CoppiceError
from engine.files import retried

_log = logging.getLogger(__name__)

ASIDE = ".coppice-removed-"


@dataclass(frozen=True, slots=True)
class Removed:
    """A folder that was set aside, or these `parts` of it, as paths in it.

    `to_trash`: it belongs to the person, and ends in the trash, not in nothing.
    """

    original: Path
    aside: Path
    bytes: int
    to_trash: bool
    parts: tuple[Path, ...] = ()


@dataclass
class Removals:
    """What was deleted since the dialog opened; `settle` when it closes. Every method blocks on the disk."""

    waiting: list[Removed] = field(default_factory=list)

    def remove(self, root: Path, to_trash: bool, parts: Sequence[Path] = ()) -> Removed:
        """Set a folder aside, beside itself, where that costs nothing; with `parts`, no more of it than these files.

        `CoppiceError` if that is not possible.
        """
        if root.is_symlink() or not root.is_dir() or root == root.parent:
            words = tr("{folder} is not a folder that can be deleted.").format(folder=root)
            raise CoppiceError(words, tr("Nothing was deleted."))
        aside = root.with_name(f"{ASIDE}{uuid.uuid4().hex}") / root.name  # named, so that a crash does not lose it
        taken = tuple(path.relative_to(root) for path in _with_blobs(root, parts))
        size = sum((root / each).lstat().st_size for each in taken) if parts else bytes_below(root)
        removed = Removed(root, aside, size, to_trash, taken)
        try:
            aside.parent.mkdir()
            _move(root, aside, taken)
        except OSError as error:
            _remove_empty(aside.parent)
            why = reason_text(error)
            words = tr("{folder} cannot be deleted: {reason}.").format(folder=root, reason=why)
            raise CoppiceError(words, tr("If it is loaded, load another model first.")) from None
        self.waiting.append(removed)
        return removed

    def undo(self, removed: Removed) -> None:
        """Put it back where it was. `CoppiceError` if something else has taken its place."""
        hint = tr("What was deleted is in {folder}.").format(folder=removed.aside)
        if any(os.path.lexists(path) for path in _originals(removed)):
            raise CoppiceError(tr("{folder} is there again.").format(folder=_originals(removed)[0]), hint)
        try:
            _take_back(removed)
        except OSError as error:
            why = reason_text(error)
            raise CoppiceError(tr("It cannot be put back: {reason}.").format(reason=why), hint) from None
        self.waiting.remove(removed)

    def settle(self) -> int:
        """Make every removal final; returns the bytes that are free now, or when the trash is emptied."""
        freed = 0
        for removed in self.waiting:
            if _end(removed):
                freed += removed.bytes
        self.waiting.clear()
        return freed


def settle_leftovers(cache: Path, waiting: Iterable[Removed] = ()) -> None:
    """Finish removals that a crash interrupted, in a cache whose content can be had again; not those that wait."""
    for aside in _leftovers(cache, waiting) if cache.is_dir() else ():
        if not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)


def put_back_leftovers(folder: Path, waiting: Iterable[Removed] = ()) -> None:
    """Undo removals that a crash interrupted, in a folder of the person's; not those that wait.

    What has been replaced stays aside.
    """
    asides: list[Path] = []
    with suppress(OSError):  # a folder that is out of reach hinders nothing
        asides += _leftovers(folder, waiting)
    for aside in asides:
        try:
            if removed := _left_in(aside):
                Removals([removed]).undo(removed)
        except (CoppiceError, OSError) as error:
            _log.warning("%s could not be put back: %s", aside, error)


def _leftovers(folder: Path, waiting: Iterable[Removed]) -> list[Path]:
    names = {each.aside.parent.name for each in waiting}  # unique, whichever way leads to the folder
    return [path for path in folder.glob(f"{ASIDE}*") if path.name not in names]


def _left_in(aside: Path) -> Removed | None:
    """What was removed: a whole folder if it is not there any more, otherwise files of it."""
    held = [] if aside.is_symlink() else list(aside.iterdir())
    if len(held) != 1 or held[0].is_symlink() or not held[0].is_dir():
        return None
    root, original = held[0], aside.with_name(held[0].name)
    parts = (path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_symlink() or not path.is_dir())
    return Removed(original, root, bytes_below(root), True, tuple(parts) if original.is_dir() else ())


def _end(removed: Removed) -> bool:
    try:
        if removed.to_trash:
            _to_trash(removed)
        else:
            shutil.rmtree(removed.aside.parent)
    except OSError as error:
        _log.warning("%s could not be removed; what is left is in %s: %s", removed.original, removed.aside, error)
        return False
    return True


def _to_trash(removed: Removed) -> None:
    """Under its own name, so that it can be found there. Where there is no trash, it goes back where it was."""
    import send2trash  # noqa: PLC0415  # only for whoever deletes

    originals = _originals(removed)
    if any(os.path.lexists(path) for path in originals):
        raise FileExistsError("something else has taken its place")
    _take_back(removed)
    for path in originals:
        send2trash.send2trash(path)


def _originals(removed: Removed) -> tuple[Path, ...]:
    return tuple(removed.original / each for each in removed.parts) or (removed.original,)


def _take_back(removed: Removed) -> None:
    _move(removed.aside, removed.original, removed.parts)
    _remove_empty(removed.aside.parent)


def _move(source: Path, target: Path, parts: tuple[Path, ...]) -> None:
    """Rename a folder, or take files from it into another one; what was moved goes back where one cannot be."""
    if not parts:
        retried(lambda: source.rename(target))
        return
    moved: list[Path] = []
    try:
        for part in parts:
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            (source / part).rename(target / part)
            moved.append(part)
    except OSError:
        for part in moved:
            (target / part).rename(source / part)
        _remove_emptied(target, parts)
        raise
    _remove_emptied(source, parts)


def _remove_emptied(folder: Path, parts: Iterable[Path]) -> None:
    """Remove a folder and those in it that hold nothing now that parts of it are gone; others stay, empty or not."""
    emptied = {parent for part in parts for parent in part.parents}
    for parent in sorted(emptied, key=lambda each: len(each.parts), reverse=True):
        with suppress(OSError):
            (folder / parent).rmdir()


def _remove_empty(folder: Path) -> None:
    """Remove the folders in a folder, and itself, as far as they hold nothing."""
    inside = [each for each in folder.rglob("*") if each.is_dir() and not each.is_symlink()]
    for path in [*sorted(inside, reverse=True), folder]:
        try:
            path.rmdir()
        except OSError:
            continue


def _with_blobs(root: Path, parts: Sequence[Path]) -> list[Path]:
    """The files, and what those of them that are links lead to in the same folder, unless others lead there too."""
    inside, taken = root.resolve(), set(parts)
    links = {path: path.resolve() for path in (root / "snapshots").rglob("*") if path.is_symlink()} if parts else {}
    kept = {blob for path, blob in links.items() if path not in taken}
    blobs = {blob for path, blob in links.items() if path in taken and blob not in kept and blob.is_relative_to(inside)}
    return [*parts, *(root / blob.relative_to(inside) for blob in sorted(blobs))]
