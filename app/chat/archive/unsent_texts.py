"""Keeps what is written and not sent with its conversation, also for the next start."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from app.chat.archive.worker import Archive
from app.chat.composer.composer import Composer
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.chat.history.unsent import Edit, Unsent

_SAVE_MS = 1000  # at most so long is what was written not on disk


class UnsentTexts(QObject):
    """The unsent texts of all conversations, which all windows share.

    A chat that was never begun stands in no list, so its text could not be found again: the next empty chat takes it
    over.
    """

    arrived = Signal()  # those of earlier days

    def __init__(self, archive: Archive, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._archive = archive
        self._texts: dict[int, Unsent] = {}
        self._homeless: list[int] = []  # chats never begun that no window shows, the last one behind
        archive.unsent_listed.connect(self._on_listed)

    def take(self, conversation: Conversation) -> Unsent:
        """What was written for a conversation that is about to be shown."""
        if conversation.id in self._homeless:
            self._homeless.remove(conversation.id)
        elif conversation.is_empty and conversation.id not in self._texts and self._homeless:
            former = self._homeless.pop()
            self.put(conversation.id, self._texts[former])
            self.put(former, Unsent())
        return self._texts.get(conversation.id, Unsent())

    def put(self, conversation: int, unsent: Unsent) -> None:
        """Keep what is written for a conversation; an empty one is forgotten."""
        if unsent == self._texts.get(conversation, Unsent()):
            return
        if unsent.is_empty:
            del self._texts[conversation]
        else:
            self._texts[conversation] = unsent
        self._archive.save_unsent(conversation, unsent)

    def give_back(self, conversation: int) -> None:
        """A chat that was never begun is not shown any more."""
        if conversation in self._texts and conversation not in self._homeless:
            self._homeless.append(conversation)

    def _on_listed(self, unsent_texts: dict[int, Unsent], unbegun: list[int]) -> None:
        """What was written meanwhile is newer."""
        self._homeless[:0] = [each for each in unbegun if each not in self._texts]
        self._texts = unsent_texts | self._texts
        self.arrived.emit()


class BegunEdits(Protocol):
    """The other wordings that were begun in the conversation that is shown."""

    changed: SignalInstance

    def begin(self, edits: Iterable[Edit]) -> None:
        """Another conversation is shown, with what was begun in it before."""

    def kept(self, conversation: Conversation) -> tuple[Edit, ...]:
        """What was begun in messages that the conversation still has."""


class UnsentAutosave(QObject):
    """Has a window show what was written for the conversation that is shown, and keeps it."""

    edits_arrived = Signal()  # those of earlier days, of a conversation that is shown already

    def __init__(
        self,
        chat: ChatController,
        unsent_texts: UnsentTexts,
        composer: Composer,
        edits: BegunEdits,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._texts, self._composer, self._edits = unsent_texts, composer, edits
        self._conversation = chat.conversation
        self._timer = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._timer.timeout.connect(self.save)
        composer.draft_changed.connect(self._on_changed)
        edits.changed.connect(self._on_changed)
        chat.conversation_replaced.connect(self._on_replaced)
        chat.turn_added.connect(self.save)  # what was sent is not kept
        unsent_texts.arrived.connect(self._show)
        self._show()

    def save(self, *_: object) -> None:
        """Keep what is written, now."""
        self._timer.stop()
        unsent = replace(self._composer.unsent, edits=self._edits.kept(self._conversation))
        self._texts.put(self._conversation.id, unsent)

    def leave(self) -> None:
        """The window goes."""
        self.save()
        if self._conversation.is_empty:
            self._texts.give_back(self._conversation.id)
        self._texts.arrived.disconnect(self._show)

    def _on_changed(self, *_: object) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _on_replaced(self, conversation: Conversation) -> None:
        self.save()
        if self._conversation.is_empty:
            self._texts.give_back(self._conversation.id)
        self._conversation = conversation
        unsent = self._texts.take(conversation)
        self._edits.begin(unsent.edits)
        self._composer.show_unsent(unsent)

    def _show(self) -> None:
        """Unless a person has begun to write."""
        if not self._conversation.is_empty and not self._edits.kept(self._conversation):
            self._edits.begin(self._texts.take(self._conversation).edits)
            self.edits_arrived.emit()
        if self._composer.unsent.is_empty:
            unsent = self._texts.take(self._conversation)
            if not unsent.is_empty:
                self._composer.show_unsent(unsent)
