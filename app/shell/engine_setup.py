"""Offers the installation of the engine in the window: at the first start, while it goes on, and when it failed."""

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.chat.view.welcome import EXAMPLES
from app.engine.state import EngineState, Phase
from app.i18n.translation import tr
from app.installation.link import RuntimeLink
from app.installation.runtime.progress import InstallProgress, Stage
from app.shell.program import Program
from app.shell.window import ENGINE_NOTICE
from app.ui.notices import Notice, Tone
from app.ui.widgets import adopt
from engine.protocol.options import EMBEDDED, LoadOptions

if TYPE_CHECKING:
    from app.installation.assistant.dialog import EngineAssistant

RUNTIME_NOTICE = "engine-runtime"


class EngineSetup(QObject):
    """Only there where Coppice provisions its engine; from a checkout with torch nothing of this exists."""

    def __init__(self, program: Program, link: RuntimeLink) -> None:
        super().__init__(program)
        self._program, self._link = program, link
        self._question = ""
        self._is_told = False  # that an installation goes on
        link.changed.connect(self._on_changed)
        link.ended.connect(self._on_ended)
        link.removed.connect(program.library.restart)
        program.link.engine_stopped.connect(self._on_engine_stopped)
        program.library.state_changed.connect(self._on_state)
        program.closing.connect(self.close)
        program.closed.connect(self._on_closed)
        program.preferences.add_runtime(link, self.open_assistant)

    @cached_property
    def assistant(self) -> "EngineAssistant":
        """The dialog; it is made, and its modules are read, when it is first asked for."""
        from app.installation.assistant.dialog import EngineAssistant  # noqa: PLC0415

        made = EngineAssistant(self._link, self._program.front)
        made.proposal.set_offline(self._program.settings.current.offline)
        made.try_requested.connect(self._on_try)
        made.models_requested.connect(self._program.models.open)
        return made

    def begin(self) -> None:
        """The window is on the screen: go on with what was interrupted, or offer what is missing."""
        had_begun = self._link.restore(may_download=not self._program.settings.current.offline)
        if self._link.installed is None:
            self.assistant.show()
        elif not had_begun and self._link.manager.is_outdated():
            words = tr("This version of Coppice was made for a newer engine.")
            self._tell(words, tr("Update…"), tr("The present one is used until that is done."))

    def open_assistant(self, asks: bool = False) -> None:
        """Show it; with `asks`, at the choice of an engine."""
        adopt(self.assistant, self._program.front)
        self.assistant.show()
        self.assistant.raise_()
        self.assistant.activateWindow()
        if asks or not (self._link.is_busy or self._link.can_resume):
            self.assistant.choose()

    def close(self) -> None:
        """Pause for the end of the application."""
        if "assistant" in self.__dict__:
            self.assistant.close()
        self._link.close()

    def _on_closed(self) -> None:
        """A window has gone; the assistant goes on over another one, if there is one."""
        if "assistant" in self.__dict__ and self.assistant.parentWidget() is not self._program.front:
            was_shown = self.assistant.isVisible()
            adopt(self.assistant, self._program.front)
            self.assistant.setVisible(was_shown)

    def _tell(self, words: str, action: str, hint: str = "", tone: Tone = Tone.HINT) -> None:
        self._program.tell(Notice(RUNTIME_NOTICE, words, hint, action, tone, on_action=self.open_assistant))

    def _on_changed(self, progress: InstallProgress) -> None:
        """One bar for the whole installation: it changes when it has begun and when it is over, not with every byte."""
        is_running, was_told = progress.stage.is_running, self._is_told
        self._is_told = is_running
        if is_running and not was_told:
            words = tr("The engine is being installed. Chats can be read, and models downloaded.")
            self._tell(words, tr("Show…"))

    def _on_ended(self, progress: InstallProgress) -> None:
        if progress.stage is Stage.DONE:
            self._program.withdraw(RUNTIME_NOTICE)
            self._program.library.restart()
        elif progress.stage is Stage.CANCELLED:
            self._show_missing()
        else:
            words = progress.message or tr("The installation of the engine is paused.")
            is_failed = progress.stage is Stage.FAILED
            self._tell(words, tr("Show…"), progress.hint, Tone.ERROR if is_failed else Tone.HINT)

    def _on_engine_stopped(self) -> None:
        """Without a runtime, restarting an engine does not help: another bar takes the place of the window's."""
        if self._link.installed is None:
            self._program.withdraw(ENGINE_NOTICE)
            if not self._link.is_busy:
                self._show_missing()

    def _show_missing(self) -> None:
        if self._link.can_resume:
            self._tell(tr("The installation of the engine is paused."), tr("Show…"))
        elif self._link.installed is None:
            words = tr("The engine is not installed yet. Chats can be read, and models downloaded.")
            self._tell(words, tr("Install…"))
        else:
            self._program.withdraw(RUNTIME_NOTICE)

    def _on_try(self) -> None:
        """Ask the embedded pair as soon as it is there."""
        library = self._program.library
        self._question = EXAMPLES[0]
        if library.wanted.target != EMBEDDED:
            library.load(LoadOptions(EMBEDDED))
        self._on_state(library.state)

    def _on_state(self, state: EngineState) -> None:
        pair = state.pair
        if self._question and state.phase is Phase.READY and pair is not None and pair.target.source == EMBEDDED:
            question, self._question = self._question, ""
            self._program.front.chat.ask(question)
