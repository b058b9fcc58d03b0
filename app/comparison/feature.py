"""Opens the comparison of two answers; session and window are made when they are first of use."""

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.engine.side_run import SideRun
from app.engine.state import EngineState
from app.i18n.translation import tr
from app.ui.colors import Colors
from app.ui.notices import Notice, Tone
from engine.protocol.messages import ChatMessage
from engine.protocol.options import GenerateOptions

if TYPE_CHECKING:
    from app.comparison.dialog import ComparisonDialog
    from app.comparison.session import ComparisonSession

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
        self._chat, self._conversations, self._run = chat, conversations, run
        self._state = EngineState()
        self._dialog: ComparisonDialog | None = None
        chat.asked.connect(self._on_asked)

    @cached_property
    def session(self) -> "ComparisonSession":
        """What is compared; made with the first question, whose options it keeps, or to compare an older answer."""
        from app.comparison.session import ComparisonSession  # noqa: PLC0415

        chats = self._conversations
        made = ComparisonSession(self._chat, self._run, chats.archive, chats.autosave.save, self)
        made.on_engine_state(self._state)
        return made

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
        self._state = state
        if "session" in vars(self):
            self.session.on_engine_state(state)

    def _on_asked(self, _request: int, chat: tuple[ChatMessage, ...], options: GenerateOptions) -> None:
        self.session.on_asked(chat, options)

    def set_theme(self, colors: Colors) -> None:
        """Change the colours."""
        self._colors = colors
        if self._dialog is not None:
            self._dialog.set_colors(colors)

    def leave(self) -> None:
        """The window goes, and this one with it."""
        if self._dialog is not None:
            self._dialog.close()
