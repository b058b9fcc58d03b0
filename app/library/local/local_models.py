"""The models on this computer as the dialog sees them: found, deleted, put back and verified, beside the window."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.hub.place import hub_place
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.library.local.models import Home, LocalModel, PreparedCopy, find_prepared
from app.library.local.other_apps import stores_here
from app.library.local.removal import Removals, Removed, put_back_leftovers, settle_leftovers
from app.library.local.scan import find_models, folders_to_search
from app.library.local.verification import Verifying, verify_model, verify_prepared
from app.system.background import Stop
from app.ui.jobs import Job, Jobs
from engine.errors import CoppiceError

_SECONDS_BETWEEN_REPORTS = 0.1


@dataclass(frozen=True, slots=True)
class Found:
    """What there is on this computer."""

    models: tuple[LocalModel, ...] = ()
    prepared: tuple[PreparedCopy, ...] = ()


class LocalModels(QObject):
    """`key` is whatever the caller calls a model by. Nothing here touches the disk in the window's thread."""

    changed = Signal(Found)
    removed = Signal(str, Removed)
    failed = Signal(CoppiceError)
    verifying = Signal(str, Verifying)
    verified = Signal(str, Verifying)
    verification_failed = Signal(str, CoppiceError)

    def __init__(self, cache: Path, folders: Callable[[], Sequence[str]], parent: QObject | None = None) -> None:
        """`cache`: the application's own, for prepared copies; `folders`: those that a person has added."""
        super().__init__(parent)
        self._cache = cache
        self._folders = folders
        self._jobs = Jobs(2, "models", self)
        self._removals = Removals()
        self._removing = threading.Lock()  # they are made in one thread, and may be ended in another
        self._scan: Job | None = None
        self._verifications: dict[str, Job] = {}
        self._is_first = True
        self.found = Found()
        self.is_known = False

    def look(self) -> None:
        """Look what there is; `changed` tells."""
        if self._scan is not None:
            self._scan.cancel()
        folders, first = tuple(map(Path, self._folders())), self._is_first
        self._scan = self._jobs.start(lambda stop: self._find(folders, stop, first))
        self._scan.done.connect(self._on_found)
        self._scan.failed.connect(self.failed)

    def model(self, source: str) -> LocalModel | None:
        """A model that is here and can be loaded, by what the engine loads it as."""
        here = (each for each in self.found.models if not each.problem)
        return next((each for each in here if source in (each.source, each.alias)), None)

    def remove(self, key: str, root: Path, to_trash: bool, parts: Sequence[Path] = ()) -> None:
        """Set a folder, or some files of it, aside; `removed` tells, with what `undo` needs."""
        job = self._jobs.start(lambda _stop: self._guarded(lambda: self._removals.remove(root, to_trash, parts)))
        job.done.connect(lambda removed: self._on_removed(key, removed))
        job.failed.connect(self.failed)

    def undo(self, removed: Removed) -> None:
        """Put it back."""
        job = self._jobs.start(lambda _stop: self._guarded(lambda: self._removals.undo(removed)))
        job.done.connect(self.look)
        job.failed.connect(self.failed)

    def settle(self) -> None:
        """Make every removal final, for there is nobody left who would undo it."""
        if self._removals.waiting:
            self._jobs.start(lambda _stop: self._guarded(self._removals.settle))

    def verify(self, key: str, what: LocalModel | PreparedCopy) -> None:
        """Read all of it and compare; `verifying` comes on the way, `verified` or `verification_failed` at the end."""
        if key not in self._verifications:
            job = self._jobs.start(lambda stop: self._verify(key, what, stop))
            self._verifications[key] = job
            job.done.connect(lambda result: self._on_verified(key, result))
            job.failed.connect(lambda error: self._on_verification_failed(key, error))

    def stop_verifying(self, key: str) -> None:
        """Give up; nothing more is told of it."""
        if job := self._verifications.pop(key, None):
            job.cancel()

    def discard_damaged(self, model: LocalModel, names: Sequence[str]) -> Job:
        """Remove files of a cached model that are not what they should be, so that a download fetches just these."""
        return self._jobs.start(lambda _stop: _discard(model, names))

    def close(self) -> None:
        """Make removals final and end the threads."""
        for key in list(self._verifications):
            self.stop_verifying(key)
        self._guarded(self._removals.settle)
        self._jobs.close()

    def _guarded(self, work: Callable[[], object]) -> object:
        with self._removing:
            return work()

    def _find(self, folders: Sequence[Path], stop: Stop, first: bool) -> Found:
        if first:
            self._end_leftovers(folders, stop)
        return Found(tuple(find_models(hub_place().cache, folders, stop, stores_here())), find_prepared(self._cache))

    def _end_leftovers(self, folders: Sequence[Path], stop: Stop) -> None:
        """End what an earlier session had set aside when it was killed; the removals of this one are not over yet."""
        for cache in (hub_place().cache, self._cache / "prepared"):
            with self._removing:
                settle_leftovers(cache, self._removals.waiting)
        for folder in folders_to_search(folders, stop):
            with self._removing:
                put_back_leftovers(folder, self._removals.waiting)

    def _verify(self, key: str, what: LocalModel | PreparedCopy, stop: Stop) -> Verifying:
        steps: Iterator[Verifying] = (
            verify_model(what, stop) if isinstance(what, LocalModel) else verify_prepared(what, stop)
        )
        latest, told = Verifying(0, 0), 0.0
        try:
            for latest in steps:
                if time.monotonic() - told > _SECONDS_BETWEEN_REPORTS:
                    told = time.monotonic()
                    self.verifying.emit(key, latest)
        except OSError as error:
            why = reason_text(error)
            raise CoppiceError(tr("'{name}' cannot be read: {reason}.").format(name=what.name, reason=why)) from None
        return latest

    def _on_found(self, found: Found) -> None:
        self._scan, self._is_first = None, False  # not before: a look that is overtaken may not have come so far
        self.found, self.is_known = found, True
        self.changed.emit(found)

    def _on_removed(self, key: str, removed: Removed) -> None:
        self.removed.emit(key, removed)
        self.look()

    def _on_verified(self, key: str, result: Verifying) -> None:
        self._verifications.pop(key, None)
        self.verified.emit(key, result)

    def _on_verification_failed(self, key: str, error: CoppiceError) -> None:
        self._verifications.pop(key, None)
        self.verification_failed.emit(key, error)


def _discard(model: LocalModel, names: Sequence[str]) -> None:
    if model.home is not Home.HUB_CACHE:
        words = tr("{name} is not from the hub's cache.").format(name=model.name)
        raise CoppiceError(words, tr("Copy its files again."))
    known = {path.name: path for path in model.files}
    for name in names:
        path = known.get(name, model.folder / name)
        blob = path.resolve()
        path.unlink(missing_ok=True)
        if blob.is_relative_to(model.root.resolve()):  # the cache may lie behind a link
            blob.unlink(missing_ok=True)
