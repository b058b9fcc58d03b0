"""What the engine keeps of chats on disk: as much as a person wants, and of no chat that was deleted."""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine.link import EngineLink
from app.engine.listener import EventListener, takes
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.settings.store import SettingsFile
from app.ui.jobs import Job, Jobs
from app.ui.notices import Notice
from engine.errors import CoppiceError
from engine.kept_files import AUTOMATIC, forget, kept_bytes, kept_folder, make_room, planned_bytes
from engine.protocol.keeping import ForgetTexts, KeepTexts, Kept
from engine.protocol.messages import Ready

KEPT_NOTICE = "texts-not-kept"


class KeptConversations(QObject, EventListener):
    """`measured` tells how many bytes are kept, after every change and whenever it was asked for.

    Files are removed here, also while no engine runs; an engine is told, so that it does not write them anew.
    """

    measured = Signal(object)  # int; a signal's own has 32 bits
    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(self, link: EngineLink, settings: SettingsFile, cache: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self._settings = settings
        self._cache = cache
        self._told: KeepTexts | None = None
        self._forgetting: list[Collection[str]] = []  # what its files are still to be removed of

    @cached_property
    def _jobs(self) -> Jobs:
        """The thread begins with the first piece of work: few windows have any."""
        return Jobs(1, "kept texts", self)

    @takes(Ready)
    def _on_ready(self, _event: Ready) -> None:
        """A new engine is told what to keep."""
        self._told = self._wanted
        self._link.keep(self._told)

    def follow_settings(self) -> None:
        """What is wanted may be something else now; what is no longer wanted, or is too much, is deleted."""
        former, wanted = self._told, self._wanted
        if former is None or wanted == former:
            return
        self._told = wanted
        self._link.keep(wanted)
        if not wanted.most_bytes:
            self.forget_all()
        else:
            self._work(lambda root: make_room(root, 0, planned_bytes(root, wanted.most_bytes)))

    def forget_chat(self, conversation: int) -> None:
        """The chat is deleted: what was kept of it goes too."""
        self._forget((str(conversation),))

    def forget_all(self) -> None:
        """Delete all that is kept."""
        self._forget(())

    def measure(self) -> None:
        """Have `measured` tell."""
        self._work(lambda _root: None)

    def close(self) -> None:
        """The program ends: what was deleted goes before it, as nobody would remove it later."""
        if "_jobs" in self.__dict__:
            self._jobs.close()
        for conversations in self._forgetting:
            forget(kept_folder(self._cache), conversations or None)

    @property
    def _wanted(self) -> KeepTexts:
        settings = self._settings.current
        limit = int(settings.keep_limit_gb * 1e9) or AUTOMATIC
        return KeepTexts(limit if settings.keep_texts else 0, str(self._cache))

    def _forget(self, conversations: Collection[str]) -> None:
        self._link.keep(ForgetTexts(tuple(conversations)))
        self._forgetting.append(conversations)
        job = self._work(lambda root: forget(root, conversations or None))
        job.done.connect(lambda _nbytes: self._forgetting.remove(conversations))

    def _work(self, act: Callable[[Path], object]) -> Job:
        """Do something with the folder, beside the window, and tell what is left."""
        root = kept_folder(self._cache)

        def work(_stop: object) -> int:
            with suppress(OSError):  # a disk that does not answer: what the engine writes next tells of it
                act(root)
            return kept_bytes(root)

        job = self._jobs.start(work)
        job.done.connect(self.measured)
        job.failed.connect(self._on_failed)
        return job

    @takes(Kept)
    def _on_kept(self, kept: Kept) -> None:
        self.measured.emit(kept.nbytes)
        if kept.note:
            hint = tr("Answers are not affected: such a chat is read again when it is opened the next time.")
            self.notice_raised.emit(Notice(KEPT_NOTICE, translated(kept.note), hint))
        else:
            self.notice_withdrawn.emit(KEPT_NOTICE)

    def _on_failed(self, error: CoppiceError) -> None:
        self.notice_raised.emit(Notice(KEPT_NOTICE, error.message, error.hint))
