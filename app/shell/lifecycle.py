"""Tells in the window of a crash and of newer versions, and brings it to the front at a later start."""

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QUrl, Signal
from PySide6.QtGui import QDesktopServices

from app.i18n.translation import tr
from app.shell.instance import Instance
from app.shell.program import Program
from app.ui.jobs import Jobs
from app.ui.notices import Notice, Tone
from engine import __version__

if TYPE_CHECKING:
    from app.shell.updates import Release

CRASH_NOTICE = "crash-report"
NEWS_NOTICE = "newer-version"


class Lifecycle(QObject):
    """What concerns the program, said in the window in front. `asked_for_news` comes when there was an answer."""

    asked_for_news = Signal()

    def __init__(self, program: Program, instance: Instance) -> None:
        super().__init__(program)
        self._program = program
        self._report: Path | None = None
        self._page = ""
        instance.asked.connect(self.on_asked)

    def on_asked(self, file: str) -> None:
        """The program was started again: come to the front, and open what it was given."""
        self._program.front.come_forward()
        if file:
            self._program.front.open_recording(Path(file))

    def tell_of_crash(self, report: Path) -> None:
        """Offer the report of the crash that ended the program last time."""
        self._report = report
        words = tr("Coppice crashed the last time. Your chats are there; a report was written.")
        self._program.tell(
            Notice(CRASH_NOTICE, words, action=tr("Show report…"), tone=Tone.HINT, on_action=self.show_report)
        )

    def show_report(self) -> None:
        """Open the report of the crash."""
        if self._report is not None:
            from app.shell.dialogs import ReportDialog  # noqa: PLC0415  # few programs crash

            ReportDialog(self._report, self._program.front).open()
        self._program.withdraw(CRASH_NOTICE)

    def ask_for_news(self, address: str) -> None:
        """Find out, beside the window, whether there is a newer version. What goes wrong is only logged."""
        from app.shell.updates import newest_release  # noqa: PLC0415

        jobs = Jobs(1, "news", self)
        self._program.closing.connect(jobs.close)
        job = jobs.start(lambda _stop: newest_release(address))
        job.done.connect(self._on_news)

    def open_page(self) -> None:
        """Show the page of the newer version in a browser."""
        QDesktopServices.openUrl(QUrl(self._page))
        self._program.withdraw(NEWS_NOTICE)

    def _on_news(self, release: "Release") -> None:
        from app.shell.updates import is_newer  # noqa: PLC0415

        if is_newer(release.version, __version__):
            self._tell_of(release)
        self.asked_for_news.emit()

    def _tell_of(self, release: "Release") -> None:
        self._page = release.page
        words = tr("Coppice {version} is there; this is {own}.").format(version=release.version, own=__version__)
        self._program.tell(
            Notice(NEWS_NOTICE, words, release.notes, tr("Open its page"), Tone.HINT, on_action=self.open_page)
        )
