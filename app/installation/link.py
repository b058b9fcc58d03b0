"""The engine's runtime as the window sees it: what is being made of it, in signals, at most ten times a second."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.downloads.control import StopKind
from app.i18n.sentences import error_text
from app.i18n.translation import tr
from app.installation.runtime.manager import RuntimeManager
from app.installation.runtime.place import Installed, Wanted
from app.installation.runtime.progress import InstallProgress, Stage
from app.system.background import start
from app.ui.jobs import Task
from engine.errors import CoppiceError

if TYPE_CHECKING:
    from app.installation.runtime.installation import Installation

_log = logging.getLogger(__name__)

INTERVAL_MS = 100
_SECONDS_TO_PART = 5.0


class RuntimeLink(QObject):
    """Belongs to the window's thread. `changed` carries what is being done; `ended` comes when that is over or pauses.

    `proposed` answers `look`; `removed` tells that the runtime is gone; `failed` that it could not be removed.
    """

    changed = Signal(InstallProgress)
    ended = Signal(InstallProgress)
    proposed = Signal(object)  # a Proposal
    removed = Signal()
    failed = Signal(str)

    def __init__(self, manager: RuntimeManager, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.manager = manager
        self._installation: Installation | None = None
        self._thread: threading.Thread | None = None
        self.progress = InstallProgress()  # what `changed` carried last
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self._look)
        self._proposing = Task("hardware look-up", manager.propose, self, _no_proposal)
        self._proposing.done.connect(self.proposed)
        self._tidying = Task("clean-up", manager.tidy, self)
        self._removing = Task("removal", self._remove, self, _not_removed)
        self._removing.done.connect(self._on_removed)

    @property
    def installed(self) -> Installed | None:
        """The runtime that engines are started from."""
        return self.manager.installed()

    @property
    def is_busy(self) -> bool:
        """Whether a runtime is being made."""
        return self._thread is not None

    @property
    def is_removing(self) -> bool:
        """Whether the runtime is being taken away."""
        return self._removing.is_running

    @property
    def can_resume(self) -> bool:
        """Whether something is paused, or has failed, and can go on."""
        return self._installation is not None and self._thread is None

    def look(self) -> None:
        """Ask the computer what suits it, beside the window."""
        self._proposing.start()

    def restore(self, may_download: bool = True) -> bool:
        """Go on with what an earlier start has not finished, unless its owner paused it; whether there was anything."""
        wanted = self.manager.to_resume()
        if wanted is None:
            self._tidying.start()
            return False
        if not wanted.paused and (may_download or wanted.wheels):
            self.install(wanted)
            return True
        try:
            self._installation = self.manager.install(wanted)
        except CoppiceError as error:
            _log.warning("An installation cannot be taken up: %s", error)
            return False
        self._installation.rest()
        self._show(self._installation.progress)
        return True

    def install(self, wanted: Wanted) -> None:
        """Make a runtime, beside the one that may be there."""
        self._begin(lambda: self.manager.install(wanted))

    def repair(self) -> None:
        """Make the same runtime anew."""
        self._begin(self.manager.repair)

    def pause(self) -> None:
        """Stop it and keep what has arrived."""
        self._stop(StopKind.PAUSE)

    def cancel(self) -> None:
        """Stop it and forget that it was wanted."""
        if self._thread is None and self._installation is not None:
            self._installation.discard()
            self._show(self._installation.progress)
            self._installation = None
        else:
            self._stop(StopKind.CANCEL)

    def resume(self) -> None:
        """Go on after a pause or a failure."""
        if self._installation is not None and self._thread is None:
            self._installation.forget_stop()  # a cancel would take away what has arrived
            self._run()

    def remove(self) -> None:
        """Take the runtime away; a moment later `removed` or `failed`."""
        self._removing.start()

    def close(self) -> None:
        """Pause for the end of the application; the next start goes on by itself."""
        self._timer.stop()
        if self._installation is not None and self._thread is not None:
            self._installation.leave()
            self._thread.join(_SECONDS_TO_PART)

    def _begin(self, make: "Callable[[], Installation]") -> None:
        if self._thread is not None:
            return
        try:
            self._installation = make()
        except CoppiceError as error:
            self._installation = None
            self._show(InstallProgress(Stage.FAILED, message=error.message, hint=error.hint, error=error))
            self.ended.emit(self.progress)
            return
        self._run()

    def _run(self) -> None:
        assert self._installation is not None
        self._thread = start("installation", self._installation.run)
        self._timer.start()

    def _stop(self, kind: StopKind) -> None:
        if self._installation is not None and self._thread is not None:
            self._installation.stop(kind)

    def _look(self) -> None:
        assert self._installation is not None
        is_over = self._thread is None or not self._thread.is_alive()
        progress = self._installation.progress
        if is_over:
            self._timer.stop()
            self._thread = None
        if progress != self.progress:
            self._show(progress)
        if is_over:
            if progress.stage in (Stage.DONE, Stage.CANCELLED):
                self._installation = None
            self.ended.emit(progress)

    def _show(self, progress: InstallProgress) -> None:
        self.progress = progress
        self.changed.emit(progress)

    def _remove(self) -> object:
        try:
            self.manager.remove()
        except (CoppiceError, OSError) as error:
            return _not_removed(error)
        return ""

    def _on_removed(self, words: str) -> None:
        if words:
            self.failed.emit(words)
        else:
            self._show(InstallProgress())
            self.removed.emit()


def _no_proposal(_error: BaseException) -> object:
    from app.installation.runtime.builds import UNKNOWN  # noqa: PLC0415  # most starts only use an engine that is there

    return UNKNOWN


def _not_removed(error: BaseException) -> str:
    return tr("The engine could not be removed: {reason}").format(reason=error_text(error))
