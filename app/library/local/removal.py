"""Deleting models so that a slip of the hand costs nothing: set aside at once, removed only when it is settled."""

import logging
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from app.i18n.translation import tr
from app.library.local.models import bytes_below
from engine.errors import CoppiceError

_log = logging.getLogger(__name__)

ASIDE = ".coppice-removed-"


@dataclass(frozen=True, slots=True)
class Removed:
    """A folder that was set aside. `to_trash`: it belongs to the person, and ends in the trash, not in nothing."""

    original: Path
    aside: Path
    bytes: int
    to_trash: bool


@dataclass
class Removals:
    """What was deleted since the dialog opened; `settle` when it closes. Every method blocks on the disk."""

    waiting: list[Removed] = field(default_factory=list)

    def remove(self, root: Path, to_trash: bool) -> Removed:
        """Set a folder aside, beside itself, where that costs nothing. `CoppiceError` if that is not possible."""
        if root.is_symlink() or not root.is_dir() or root == root.parent:
            words = tr("{folder} is not a folder that can be deleted.").format(folder=root)
            raise CoppiceError(words, tr("Nothing was deleted."))
        removed = Removed(root, root.with_name(f"{ASIDE}{uuid.uuid4().hex}"), bytes_below(root), to_trash)
        try:
            root.rename(removed.aside)
        except OSError as error:
            why = error.strerror or type(error).__name__
            words = tr("{folder} cannot be deleted: {reason}.").format(folder=root, reason=why)
            raise CoppiceError(words, tr("If it is loaded, load another model first.")) from None
        self.waiting.append(removed)
        return removed

    def undo(self, removed: Removed) -> None:
        """Put it back where it was. `CoppiceError` if something else has taken its place."""
        hint = tr("What was deleted is in {folder}.").format(folder=removed.aside)
        if removed.original.exists():
            raise CoppiceError(tr("{folder} is there again.").format(folder=removed.original), hint)
        try:
            removed.aside.rename(removed.original)
        except OSError as error:
            why = error.strerror or type(error).__name__
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


def settle_leftovers(cache: Path) -> None:
    """Finish removals that a crash interrupted, in a cache whose content can be had again."""
    for aside in cache.glob(f"{ASIDE}*") if cache.is_dir() else ():
        if not aside.is_symlink():
            shutil.rmtree(aside, ignore_errors=True)


def _end(removed: Removed) -> bool:
    try:
        if removed.to_trash:
            _to_trash(removed)
        else:
            shutil.rmtree(removed.aside)
    except OSError as error:
        _log.warning("%s could not be removed; what is left is in %s: %s", removed.original, removed.aside, error)
        return False
    return True


def _to_trash(removed: Removed) -> None:
    """Under its own name, so that it can be found there. Where there is no trash, it goes back where it was."""
    import send2trash  # noqa: PLC0415  # only for whoever deletes

    if removed.original.exists():
        raise FileExistsError("something else has taken its place")
    removed.aside.rename(removed.original)
    send2trash.send2trash(removed.original)
