"""The list of all conversations, which every window shows; and which window shows which of them."""

from collections.abc import Iterable
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from app.chat.archive.unsent_texts import UnsentTexts
from app.chat.archive.worker import Archive
from app.chat.history.records import ConversationRecord


class Holder(Protocol):
    """A window, as the list knows it: the one that may write the conversation that it shows."""

    def holds(self, conversation: int) -> bool:
        """Whether it shows this conversation, or is about to."""

    def come_forward(self) -> None:
        """Somebody wanted to open what it shows."""


class ChatList(QObject):
    """Holds the records of all conversations, and starts and ends the archive's thread.

    A conversation has one writer: `holder` tells who shows it. `flush_wanted` asks that one to write what is new, as
    something is about to be done with what is in the file; `removed` tells it that the conversation was deleted, and
    `hit_opened` that words of it were found in another window.
    """

    changed = Signal(list)  # of ConversationRecord, as the list shows them
    flush_wanted = Signal(object)  # the id of a conversation
    removed = Signal(object)  # the same
    erased = Signal(object)  # ids of conversations that nothing brings back
    hit_opened = Signal(object, str, object)  # the same, words, and in which message
    copies_wanted = Signal()  # of chats that cannot be saved

    def __init__(self, archive: Archive, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.archive = archive
        self.unsent_texts = UnsentTexts(archive, self)
        self._records: dict[int, ConversationRecord] = {}
        self._holders: list[Holder] = []
        archive.listed.connect(self._on_listed)
        archive.duplicated.connect(lambda _number, copy: self.put(copy))  # whoever asked for them, or is gone
        archive.imported.connect(lambda _number, _so_far, records: self.put(*records))

    def start(self) -> None:
        """Open the file and fill the list."""
        if not self.archive.isRunning():
            self.archive.start()
            self.archive.list_all()

    def close(self) -> None:
        """End the thread; returns when all that was ordered is done."""
        if self.archive.isRunning():
            self.archive.close()
            self.archive.wait()

    # ---- records ----------------------------------------------------------------------------------------------------

    @property
    def records(self) -> list[ConversationRecord]:
        """Every conversation of the list: pinned ones first, then the newest."""
        return sorted(self._records.values(), key=lambda each: (not each.is_pinned, -each.updated, each.id))

    def record(self, conversation: int) -> ConversationRecord | None:
        """What the list knows of it."""
        return self._records.get(conversation)

    def put(self, *records: ConversationRecord) -> None:
        """Add these, or bring them up to date."""
        self._records |= {each.id: each for each in records}
        self.changed.emit(self.records)

    def delete(self, conversation: int) -> None:
        """Take it out of the list, with what is new of it written before; `put` brings it back."""
        self.flush_wanted.emit(conversation)
        record = self._records.pop(conversation, None)
        if record is not None:
            self.archive.delete(record)
            self.archive.list_deleted()
            self.removed.emit(conversation)
            self.changed.emit(self.records)

    def restore(self, *records: ConversationRecord) -> None:
        """Bring back what was deleted; what is in the list stays as it is."""
        for each in records:
            if each.id not in self._records:
                self.archive.restore(each)
                self._records[each.id] = each
        self.archive.list_deleted()
        self.changed.emit(self.records)

    def erase(self, records: Iterable[ConversationRecord]) -> None:
        """Remove what was deleted for good; what is in the list stays."""
        gone = frozenset(each.id for each in records) - self._records.keys()
        self.archive.erase(sorted(gone))
        self.archive.list_deleted()
        self.erased.emit(gone)

    def _on_listed(self, records: list[ConversationRecord]) -> None:
        """What was written meanwhile is newer than the list that was read."""
        self._records = {each.id: each for each in records} | self._records
        self.changed.emit(self.records)

    # ---- who shows what ---------------------------------------------------------------------------------------------

    def join(self, holder: Holder) -> None:
        """Another window shows conversations."""
        self._holders.append(holder)

    def leave(self, holder: Holder) -> None:
        """It shows none any more."""
        if holder in self._holders:
            self._holders.remove(holder)

    def holder(self, conversation: int, besides: Iterable[Holder] = ()) -> Holder | None:
        """Who shows this conversation, or is about to; but for `besides`."""
        others = (each for each in self._holders if each not in besides)
        return next((each for each in others if each.holds(conversation)), None)
