"""Saves the shown conversation while it grows, and loads others."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.archive.chat_list import ChatList
from app.chat.archive.conversion import automatic_title, message_record, settings_of
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation, Removal
from app.chat.history.message import Message
from app.chat.history.records import ConversationRecord
from app.system.plain_text import unsteered

_SAVE_MS = 400  # at most so long is text on screen that is not on disk


class Autosave(QObject):
    """Saves the controller's conversation with a short delay, and opens others of the list that all windows share.

    A conversation comes into the list with its first question. What another window shows is not opened here:
    `forward_wanted` is emitted there.
    """

    conversations_changed = Signal(list)  # of ConversationRecord, as the list shows them
    current_changed = Signal(object)  # id of the conversation that is shown
    saved = Signal()  # what was new is on its way to the file
    opening_changed = Signal(object)  # the conversation that is awaited; 0 for none
    forward_wanted = Signal()  # somebody wants to see the conversation that is shown here

    def __init__(self, chat: ChatController, chats: ChatList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._chat = chat
        self._chats = chats
        self._archive = archive = chats.archive
        self._current = chat.conversation
        self._timer = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._timer.timeout.connect(self.save)
        chat.conversation_replaced.connect(self._on_replaced)
        chat.turn_added.connect(self._on_changed)
        chat.path_changed.connect(self._on_changed)
        chat.removed.connect(self._on_removal)
        chat.restored.connect(self._on_restored)
        chat.answer_changed.connect(self._on_answer_changed)
        chat.settings_changed.connect(self._on_changed)
        self._opening = self._opened = 0  # number of the order whose conversation is to be shown, and that conversation
        self._copying = 0  # number of the order whose copy is to be shown
        chat.turn_added.connect(self._forget_opening)
        chat.path_changed.connect(self._forget_opening)
        archive.opened.connect(self._on_opened)
        archive.open_failed.connect(self._on_open_failed)
        archive.duplicated.connect(self._on_duplicated)
        chats.changed.connect(self.conversations_changed)
        chats.flush_wanted.connect(self._on_flush_wanted)
        chats.removed.connect(self._on_removed)
        chats.join(self)

    @property
    def records(self) -> list[ConversationRecord]:
        """Every conversation of the list: pinned ones first, then the newest."""
        return self._chats.records

    @property
    def current(self) -> int:
        """The id of the conversation that is shown."""
        return self._current.id

    def holds(self, conversation: int) -> bool:
        """As `Holder.holds`."""
        return conversation == self._current.id or (bool(self._opening) and conversation == self._opened)

    def come_forward(self) -> None:
        """As `Holder.come_forward`."""
        self.forward_wanted.emit()

    def leave(self) -> None:
        """The window goes: write what is new, and open nothing more."""
        self.save()
        self._forget_opening()
        self._copying = 0
        self._chats.leave(self)

    def save(self) -> None:
        """Write what is new since the last time, now."""
        self._save()
        self.saved.emit()

    def _save(self) -> None:
        self._timer.stop()
        changes = self._current.take_changes()
        record = self._chats.record(self._current.id) or ConversationRecord(self._current.id)
        kept = replace(record, leaf=self._current.leaf, settings=settings_of(self._current))
        if not changes and (record == kept or (self._current.is_empty and record.leaf == kept.leaf)):
            return
        if changes or record.leaf != kept.leaf:
            kept = replace(kept, updated=time.time(), auto_title=record.auto_title or automatic_title(self._current))
        self._archive.save(kept, [message_record(kept.id, each) for each in changes])
        self._chats.put(kept)

    def open(self, conversation: int) -> None:
        """Show a conversation of the list; one that another window shows is shown there."""
        record = self._chats.record(conversation)
        if conversation == self._current.id:
            self._forget_opening()
        if record is None or conversation == self._current.id:
            return
        if holder := self._chats.holder(conversation, (self,)):
            holder.come_forward()
            return
        self.save()
        self._opening, self._opened = self._archive.open(record), conversation
        self.opening_changed.emit(conversation)

    def stop_opening(self) -> None:
        """Stay with the conversation that is shown."""
        self._forget_opening()
        self.current_changed.emit(self._current.id)

    def show_last(self, records: Sequence[ConversationRecord]) -> None:
        """Show the last of these conversations of the list, unless an answer would be stopped for it."""
        if records and not self._chat.is_answering:
            self.open(records[-1].id)

    def rename(self, conversation: int, title: str) -> None:
        """Give it a title of its own; an empty one brings the automatic title back."""
        self._edit(conversation, title=" ".join(title.split()))

    def pin(self, conversation: int, is_pinned: bool) -> None:
        """Keep it at the top of the list, or no longer."""
        self._edit(conversation, is_pinned=is_pinned)

    def move(self, conversation: int, folder: str) -> None:
        """Put it into a folder; an empty name takes it out of any."""
        self.move_all([conversation], folder)

    def move_all(self, conversations: Iterable[int], folder: str) -> None:
        """The same for several."""
        name = unsteered(" ".join(folder.split()))
        found = (self._chats.record(each) for each in conversations)
        moved = [replace(each, folder=name) for each in found if each is not None]
        for each in moved:
            self._archive.save(each)
        self._chats.put(*moved)

    def duplicate(self, conversation: int, last: int = 0) -> None:
        """Add a copy to the list, and show it, unless an answer would be stopped for it.

        `last`: the message with which the copy ends; 0 for all of the conversation.
        """
        self._chats.flush_wanted.emit(conversation)
        if record := self._chats.record(conversation):
            self._copying = self._archive.duplicate(record, last)

    def delete(self, conversation: int) -> None:
        """Take it out of the list; `restore` brings it back."""
        self._chats.delete(conversation)

    def restore(self, *records: ConversationRecord) -> None:
        """Bring back conversations that were deleted, and show the last, unless an answer would be stopped for it."""
        self._chats.restore(*records)
        self.show_last(records)

    def record(self, conversation: int) -> ConversationRecord | None:
        """What the list knows of it."""
        return self._chats.record(conversation)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _edit(self, conversation: int, **changes: Any) -> None:
        if record := self._chats.record(conversation):
            record = replace(record, **changes)
            self._archive.save(record)
            self._chats.put(record)

    def _on_flush_wanted(self, conversation: int) -> None:
        if conversation == self._current.id:
            self.save()

    def _on_removed(self, conversation: int) -> None:
        if conversation == self._opened:
            self._forget_opening()
        if conversation == self._current.id:
            self._current = Conversation()  # nothing of the deleted one is saved any more
            self._chat.show_conversation(self._current)

    def _on_changed(self, *_: object) -> None:
        self.save()

    def _on_removal(self, removal: Removal) -> None:
        """What stays has been saved."""
        self._archive.delete_messages(self._current.id, [each.id for each in removal.messages], removal.id)
        self._name_again(removal)

    def _on_restored(self, removal: Removal) -> None:
        self._archive.restore_messages(self._current.id, removal.id)
        self._name_again(removal)

    def _name_again(self, removal: Removal) -> None:
        """The automatic title is of the first question: it must not go on telling of one that is gone."""
        if not removal.place:
            self._edit(self._current.id, auto_title=automatic_title(self._current))

    def _on_answer_changed(self, answer: Message, _text: str) -> None:
        if answer.ending.is_final:
            self.save()
        elif not self._timer.isActive():
            self._timer.start()

    def _on_replaced(self, conversation: Conversation) -> None:
        self.save()
        self._current = conversation
        self._forget_opening()
        self.current_changed.emit(conversation.id)

    def _forget_opening(self, *_: object) -> None:
        """A person went on with another conversation: one that comes only now would take its place."""
        if self._opening:
            self._opening = 0
            self.opening_changed.emit(0)

    def _on_opened(self, number: int, conversation: Conversation) -> None:
        """Show what was asked for last."""
        if number == self._opening:
            self._chat.show_conversation(conversation)

    def _on_open_failed(self, number: int) -> None:
        """Another window may try it."""
        if number == self._opening:
            self._forget_opening()

    def _on_duplicated(self, number: int, record: ConversationRecord) -> None:
        if number == self._copying:
            self.show_last([record])
