"""Opens the comparison of two answers, and makes its window when it is first asked for."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.comparison.session import ComparisonSession
from app.engine.side_run import SideRun
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.ui.colors import Colors
from app.ui.notices import Notice, Tone

if TYPE_CHECKING:
    from app.comparison.dialog import ComparisonDialog

COMPARISON_NOTICE = "nothing-to-compare"


class ComparisonFeature(QObject):
    """The session, and its window beside the main one."""

    notice_raised = Signal(Notice)
    notice_withdrawn = Signal(str)

    def __init__(
        self, chat: ChatController, conversations: Conversations, run: SideRun, colors: Colors, window: QWidget
    ) -> None:
        super().__init__(window)
        self._window, self._colors = window, colors
        self._dialog: ComparisonDialog | None = None
        save = conversations.autosave.save
        self.session = ComparisonSession(chat, run, conversations.archive, save, self)

    @property
    def dialog(self) -> "ComparisonDialog":
        """The window; it is made, and its modules are read, when it is first asked for."""
        if self._dialog is None:
            from app.comparison.dialog import ComparisonDialog  # noqa: PLC0415

            self._dialog = ComparisonDialog(self.session, self._colors, self._window)
        return self._dialog

    def open(self, answer: int = 0) -> None:
        """Compare the answer of this id, or else the last one; or say that there is none."""
        found = self.session.answer_to_open(answer)
        if found is None:
            words = tr("There is no answer to compare yet.")
            hint = tr("Ask something, and wait for the end of the answer.")
            self.notice_raised.emit(Notice(COMPARISON_NOTICE, words, hint, tone=Tone.HINT))
            return
        self.notice_withdrawn.emit(COMPARISON_NOTICE)
        dialog = self.dialog
        self.session.open(found)
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()

    def on_engine_state(self, state: EngineState) -> None:
        """Other models may be loaded now."""
        self.session.on_engine_state(state)

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        if self._dialog is not None:
            self._dialog.set_colors(colors)

    def leave(self) -> None:
        """The window goes, and this one with it."""
        if self._dialog is not None:
            self._dialog.close()
