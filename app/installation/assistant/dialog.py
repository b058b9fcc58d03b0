"""The assistant: proposes an engine for this computer, installs it, and says what can be done with it."""

from collections.abc import Callable

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QDialog, QPushButton, QStackedWidget, QWidget

from app.i18n.translation import tr
from app.installation.assistant.pages import ProgressPage, ProposalPage, ReadyPage
from app.installation.link import RuntimeLink
from app.installation.runtime.progress import InstallProgress, Stage
from app.ui.widgets import fill, fit_screen, label, make_room, row_of

_SIZE = QSize(620, 520)


class EngineAssistant(QDialog):
    """Not modal: the window behind it stays usable. Closing it stops nothing."""

    try_requested = Signal()
    models_requested = Signal()

    def __init__(self, link: RuntimeLink, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._link = link
        self.setWindowTitle(tr("Engine"))
        fit_screen(self, _SIZE)
        self.pages = QStackedWidget(self)
        self.proposal = ProposalPage(self)
        self.progress = ProgressPage(self)
        self.ready = ReadyPage(self)
        for page in (self.proposal, self.progress, self.ready):
            self.pages.addWidget(page)
        self._build_buttons()
        self._lay_out()
        self._connect()
        self._show_page(self.proposal)

    def _build_buttons(self) -> None:
        self.install = QPushButton(tr("&Install"), self)
        self.pause = QPushButton(tr("&Pause"), self)
        self.resume = QPushButton(tr("&Resume"), self)
        self.cancel = QPushButton(tr("C&ancel installation"), self)
        self.other = QPushButton(tr("Choose &another…"), self)
        self.later = QPushButton(tr("&Close"), self)

        for button in (self.cancel, self.other, self.later):
            button.setAutoDefault(False)  # Return is never to cancel
        make_room(self.install, self.pause, self.resume)

    def _lay_out(self) -> None:
        self.heading = label("page-title", "", self)
        foot = row_of((self.cancel, self.other, None, self.later, self.pause, self.resume, self.install))
        fill(self, (self.heading, self.pages, foot), 16, 26, 20, 26, 18, high=self.pages)

    def _connect(self) -> None:
        self.proposal.chosen_changed.connect(self._show_buttons)
        self.install.clicked.connect(self._on_install)
        self.pause.clicked.connect(self._on_pause)
        self.resume.clicked.connect(self._link.resume)
        self.cancel.clicked.connect(self._on_cancel)
        self.other.clicked.connect(self.choose)
        self.later.clicked.connect(self.close)
        self.ready.try_requested.connect(self._on_try)
        self.ready.models_requested.connect(self._on_models)
        self._link.proposed.connect(self.proposal.show_proposal)
        self._link.changed.connect(self._on_changed)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Begin with what is going on, or with what suits this computer."""
        super().showEvent(event)
        stage = self._link.progress.stage
        if self._link.is_busy or stage in (Stage.PAUSED, Stage.FAILED):
            self._show_page(self.progress)
            self.progress.show_progress(self._link.progress)
        elif self._link.installed is None:
            self.choose()

    def choose(self) -> None:
        """Ask which engine is to be installed."""
        self._show_page(self.proposal)
        self._link.look()

    def _show_page(self, page: QWidget) -> None:
        self.pages.setCurrentWidget(page)
        titles = {
            self.proposal: tr("Install the engine"),
            self.progress: tr("Installing the engine"),
            self.ready: tr("Welcome to Coppice"),
        }
        self.heading.setText(titles[page])
        self._show_buttons()
        going = self.pause if self._link.progress.stage.is_running else self.resume
        first = {self.proposal: self.install, self.progress: going, self.ready: self.ready.try_}[page]
        first.setDefault(True)
        if first.isEnabled():
            first.setFocus()

    def _show_buttons(self) -> None:
        page, stage = self.pages.currentWidget(), self._link.progress.stage
        at_work = page is self.progress
        is_stopped = stage in (Stage.PAUSED, Stage.FAILED)
        self.install.setVisible(page is self.proposal)
        self.install.setEnabled(self.proposal.wanted is not None and not self._link.is_busy)
        self.pause.setVisible(at_work and not is_stopped)
        self.pause.setEnabled(stage.is_running and not self.progress.is_stopping)
        self.cancel.setEnabled(not self.progress.is_stopping)
        self.resume.setVisible(at_work and is_stopped)
        self.resume.setText(tr("&Try again") if stage is Stage.FAILED else tr("&Resume"))
        make_room(self.resume)
        self.resume.setEnabled(self._link.can_resume)
        self.cancel.setVisible(at_work)
        self.other.setVisible(at_work and is_stopped)

    def _on_install(self) -> None:
        wanted = self.proposal.wanted
        if wanted is not None:
            self._show_page(self.progress)
            self._link.install(wanted)

    def _on_pause(self) -> None:
        self._stop(self._link.pause)

    def _on_cancel(self) -> None:
        self._stop(self._link.cancel)

    def _stop(self, stop: Callable[[], None]) -> None:
        if self._link.is_busy:
            self.progress.show_stopping()
            self._show_buttons()
        stop()

    def _on_changed(self, progress: InstallProgress) -> None:
        self.progress.show_progress(progress)
        if progress.stage is Stage.DONE:
            here = self._link.installed
            self.ready.show_engine(here is not None and here.misses_card)
            self._show_page(self.ready)
        elif progress.stage in (Stage.CANCELLED, Stage.IDLE):
            if self.pages.currentWidget() is not self.proposal:
                self.choose()
        elif progress.stage.is_running and self.pages.currentWidget() is not self.progress:
            self._show_page(self.progress)
        self._show_buttons()
        if self.pages.currentWidget() is self.progress:
            button = self.pause if progress.stage.is_running else self.resume
            button.setDefault(True)
            if not self.progress.isAncestorOf(self.focusWidget()) and self.focusWidget() is not self.later:
                button.setFocus()

    def _on_try(self) -> None:
        self.close()
        self.try_requested.emit()

    def _on_models(self) -> None:
        self.close()
        self.models_requested.emit()
