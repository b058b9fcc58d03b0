"""Connects the generation settings, the token counter and the window's actions with the chat."""

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.chat.generation.controller import ChatController
from app.chat.generation.counter import TokenCounter
from app.chat.panel import ChatPanel
from app.chat.view.message_tools import WAITS
from app.engine.interface import Answerer
from app.i18n.translation import tr
from app.settings.store import SettingsFile
from app.ui.actions import EMPTY, Actions

if TYPE_CHECKING:
    from app.chat.generation.popover import GenerationPopover


class GenerationActions(QObject):
    """Connects the counter, the settings and the actions with the panel and its controller."""

    def __init__(
        self, link: Answerer, chat: ChatController, panel: ChatPanel, settings: SettingsFile, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._chat = chat
        self._composer = panel.composer
        self.counter = TokenCounter(link, chat, self)
        self._settings, self._window = settings, parent
        self._composer.draft_changed.connect(self.counter.follow_draft)
        self.counter.use_changed.connect(panel.show_use)
        self._composer.meter.clicked.connect(lambda: self.popover.open_below(self._composer.meter, "when_full"))
        self._composer.constraint.clicked.connect(lambda: self._open_at(chat.constraint_setting))
        chat.setting_wanted.connect(self._open_at)
        self.counter.costs_changed.connect(self._composer.tray.show_costs)

    @cached_property
    def popover(self) -> "GenerationPopover":
        """The settings; made when they are first asked for, since that takes as long as a third of a window."""
        from app.chat.generation.popover import GenerationPopover  # noqa: PLC0415
        from app.chat.generation.presets import Presets  # noqa: PLC0415

        return GenerationPopover(self._chat, Presets(self._settings), self._window)

    def connect_actions(self, actions: Actions) -> None:
        """Have the window's actions do what they say, and be off while they could not."""
        chat, composer = self._chat, self._composer
        actions.register(
            new_chat=self._start_new_chat,
            stop=chat.stop,
            regenerate=lambda _checked: chat.regenerate(),
            continue_answer=chat.continue_answer,
            begin_answer=composer.beginning.toggle,
            previous_version=lambda: self._show_version(-1),
            next_version=lambda: self._show_version(1),
            attach=composer.choose_files,
            speculate=composer.speculation.click,
            chat_tools=composer.tools.open_menu,
            save_preset=actions.generation.trigger,
        )
        actions.register(save_preset=self._name_preset)
        shown = (chat.answering_changed, chat.path_changed, chat.conversation_replaced, chat.tools.offered_changed)
        for changed in shown:
            changed.connect(lambda: self._show_what_can_be_done(actions))
        self._show_what_can_be_done(actions)

    def _start_new_chat(self) -> None:
        """One that is new already is to be written in as well."""
        self._chat.start_new_chat()
        self._composer.setFocus()

    def _open_at(self, field: str) -> None:
        """The settings above the composer, in a field of theirs."""
        self.popover.open_below(self._composer.meter, field)

    def _name_preset(self) -> None:
        """Once the settings are open."""
        self.popover.presets.names.setFocus()

    def _show_version(self, step: int) -> None:
        """Of the last message that has several."""
        conversation = self._chat.conversation
        versions = [(each.id, conversation.version(each.id)) for each in conversation.messages]
        for message, version in reversed(versions):
            if version.count > 1:
                self._chat.show_version(message, version.index + step)
                return

    def _show_what_can_be_done(self, actions: Actions) -> None:
        chat = self._chat
        waits = tr(WAITS) if chat.is_answering else ""
        lacks = tr(EMPTY) if chat.conversation.is_empty else ""
        actions.chat_tools.offer("" if chat.tools.offered else tr("There are no tools to call."))
        actions.stop.offer("" if chat.is_answering else tr("No answer is being written."))
        actions.regenerate.offer(waits or lacks)
        actions.continue_answer.offer("" if chat.can_continue else waits or lacks or tr("The last answer is complete."))
