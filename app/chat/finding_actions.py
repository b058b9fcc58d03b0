"""Connects finding in the chat with the window's actions, and with what a search through all chats has found."""

from functools import cached_property
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.conversations import Conversations
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.chat.panel import ChatPanel
from app.i18n.translation import tr
from app.ui.actions import EMPTY, Actions

if TYPE_CHECKING:
    from app.chat.finding.finder import Finder

_LONGEST_SELECTION = 200  # letters that are taken for what is looked for


class FindingActions(QObject):
    """The finder is made when something is first looked for: all of Markdown comes with it."""

    def __init__(self, panel: ChatPanel, chat: ChatController, chats: Conversations, parent: QObject) -> None:
        super().__init__(parent)
        self._panel = panel
        self._chat = chat
        self._before: QWidget | None = None  # had the focus when the bar was opened
        self._expected: tuple[int, str, int] | None = None  # a conversation, words and a message: to be shown there
        self._soon = QTimer(self, singleShot=True, interval=0)  # when everybody knows the conversation
        self._soon.timeout.connect(self._show_expected)
        chats.hit_wanted.connect(self._on_hit_wanted)
        chat.conversation_replaced.connect(self._on_replaced)

    @cached_property
    def finder(self) -> "Finder":
        """What looks for it."""
        from app.chat.finding.finder import Finder  # noqa: PLC0415

        self._panel.find_bar.closed.connect(self._on_closed)
        return Finder(self._chat, self._panel.view, self._panel.find_bar)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say."""
        actions.register(find=self.find, find_next=lambda: self._step(1), find_previous=lambda: self._step(-1))

        def show_what_can_be_done() -> None:
            for action in (actions.find, actions.find_next, actions.find_previous):
                action.offer(tr(EMPTY) if self._chat.conversation.is_empty else "")

        for changed in (self._chat.conversation_replaced, self._chat.turn_added):
            changed.connect(lambda *_: show_what_can_be_done())
        show_what_can_be_done()

    def find(self) -> None:
        """Open the bar, with what is selected in a line of the conversation, if anything is."""
        bar, focus = self._panel.find_bar, QApplication.focusWidget()
        if focus is not None and not bar.isAncestorOf(focus):
            self._before = focus
        selected = self._panel.view.selection.text
        self.finder.begin(selected if "\n" not in selected and len(selected) <= _LONGEST_SELECTION else "")

    def set_theme(self) -> None:
        """Mark in other colours, if anything is marked."""
        if "finder" in vars(self):
            self.finder.set_theme()

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _step(self, step: int) -> None:
        if "finder" not in vars(self) or not self._panel.find_bar.is_open:
            self.find()
        else:
            self.finder.step(step)

    def _on_closed(self) -> None:
        """The focus goes back to where it was, unless a person has taken it elsewhere."""
        bar, focus, before = self._panel.find_bar, QApplication.focusWidget(), self._before
        self._before = None
        if focus is None or bar.isAncestorOf(focus):
            # A text that had the focus goes when it is scrolled far away.
            is_there = before is not None and shiboken6.isValid(before) and before.isVisible()
            (before if before is not None and is_there else self._panel).setFocus()

    def _on_hit_wanted(self, conversation: int, words: str, message: int) -> None:
        self._expected = conversation, words, message
        if conversation == self._chat.conversation.id:
            self._show_expected()

    def _on_replaced(self, conversation: Conversation) -> None:
        if self._expected is not None and self._expected[0] == conversation.id:
            self._soon.start()
        else:
            self._expected = None

    def _show_expected(self) -> None:
        if self._expected is not None:
            _, words, message = self._expected
            self._expected = None
            self.finder.begin_at(words, message)
