"""Keeps conversations on disk while they are written, and brings them back."""

import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat import chances
from app.chat.archive.archive import Archive
from app.chat.archive.records import ConversationRecord, MessageRecord
from app.chat.attachments.attachment import as_details, from_details
from app.chat.controller import ChatController
from app.chat.conversation import Conversation, Ending, Message, settled
from app.plain_text import unsteered
from app.settings import read_generation
from engine.messages import Seconds, Statistics

_Detail = TypeVar("_Detail", str, float)

_SAVE_MS = 400  # at most so long is text on screen that is not on disk
_TITLE_LENGTH = 60


class Keeper(QObject):
    """Saves what the controller shows, a little behind the screen; knows what the list of conversations holds.

    A conversation comes into the list with its first question.
    """

    conversations_changed = Signal(list)  # of ConversationRecord, as the list shows them
    current_changed = Signal(object)  # id of the conversation that is shown
    saved = Signal()  # what was new is on its way to the file

    def __init__(self, chat: ChatController, archive: Archive, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._chat = chat
        self._archive = archive
        self._records: dict[int, ConversationRecord] = {}
        self._current = chat.conversation
        self._timer = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._timer.timeout.connect(self.save)
        chat.conversation_replaced.connect(self._on_replaced)
        chat.turn_added.connect(self._on_changed)
        chat.path_changed.connect(self._on_changed)
        chat.answer_changed.connect(self._on_answer_changed)
        chat.settings_changed.connect(self._on_changed)
        archive.listed.connect(self._on_listed)
        archive.duplicated.connect(self._put_and_open)

    @property
    def records(self) -> list[ConversationRecord]:
        """Every conversation of the list: pinned ones first, then the newest."""
        return sorted(self._records.values(), key=lambda each: (not each.is_pinned, -each.updated, each.id))

    @property
    def current(self) -> int:
        """The id of the conversation that is shown."""
        return self._current.id

    def save(self) -> None:
        """Write what is new since the last time, now."""
        self._save()
        self.saved.emit()

    def _save(self) -> None:
        self._timer.stop()
        changes = self._current.take_changes()
        record = self._records.get(self._current.id) or ConversationRecord(self._current.id)
        kept = replace(record, leaf=self._current.leaf, settings=_settings_of(self._current))
        if self._current.is_empty or (not changes and record == kept):
            return
        if changes or record.leaf != kept.leaf:
            kept = replace(kept, updated=time.time(), auto_title=record.auto_title or _title_of(self._current))
        self._archive.save(kept, [message_record(kept.id, each) for each in changes])
        self._put(kept)

    def open(self, conversation: int) -> None:
        """Show a conversation of the list."""
        record = self._records.get(conversation)
        if record is not None and conversation != self._current.id:
            self.save()
            self._archive.open(record)

    def show(self, record: ConversationRecord, messages: Sequence[MessageRecord]) -> None:
        """Show a conversation as it was kept."""
        self._chat.show_conversation(conversation_of(record, messages))

    def add(self, conversation: Conversation, title: str) -> None:
        """Take a conversation from elsewhere into the list; without a title it gets an automatic one.

        It is shown, unless an answer would be stopped for it.
        """
        record = ConversationRecord(
            conversation.id,
            title=title,
            auto_title=_title_of(conversation),
            leaf=conversation.leaf,
            settings=_settings_of(conversation),
        )
        self._archive.save(record, [message_record(record.id, each) for each in conversation.messages])
        self._put(record)
        if not self._chat.is_answering:
            self._chat.show_conversation(conversation)

    def rename(self, conversation: int, title: str) -> None:
        """Give it a title of its own; an empty one brings the automatic title back."""
        self._edit(conversation, title=" ".join(title.split()))

    def pin(self, conversation: int, is_pinned: bool) -> None:
        """Keep it at the top of the list, or no longer."""
        self._edit(conversation, is_pinned=is_pinned)

    def move(self, conversation: int, folder: str) -> None:
        """Put it into a folder; an empty name takes it out of any."""
        self._edit(conversation, folder=unsteered(" ".join(folder.split())))

    def duplicate(self, conversation: int) -> None:
        """Add a copy to the list, and show it, unless an answer would be stopped for it."""
        self.save()
        if record := self._records.get(conversation):
            self._archive.duplicate(record)

    def delete(self, conversation: int) -> None:
        """Take it out of the list; `restore` brings it back."""
        self.save()
        record = self._records.pop(conversation, None)
        if record is None:
            return
        self._archive.delete(record)
        if conversation == self._current.id:
            self._current = Conversation()  # nothing of the deleted one is saved any more
            self._chat.show_conversation(self._current)
        self.conversations_changed.emit(self.records)

    def restore(self, record: ConversationRecord) -> None:
        """Bring back a conversation that was deleted, and show it, unless an answer would be stopped for it."""
        self._archive.restore(record)
        self._put_and_open(record)

    def record(self, conversation: int) -> ConversationRecord | None:
        """What the list knows of it."""
        return self._records.get(conversation)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _edit(self, conversation: int, **changes: Any) -> None:
        if record := self._records.get(conversation):
            record = replace(record, **changes)
            self._archive.save(record)
            self._put(record)

    def _put(self, record: ConversationRecord) -> None:
        self._records[record.id] = record
        self.conversations_changed.emit(self.records)

    def _on_changed(self, *_: object) -> None:
        self.save()

    def _on_answer_changed(self, answer: Message, _text: str) -> None:
        if answer.ending.is_final:
            self.save()
        elif not self._timer.isActive():
            self._timer.start()

    def _on_replaced(self, conversation: Conversation) -> None:
        self.save()
        self._current = conversation
        self.current_changed.emit(conversation.id)

    def _on_listed(self, records: list[ConversationRecord]) -> None:
        """What was written meanwhile is newer than the list that was read."""
        self._records = {each.id: each for each in records} | self._records
        self.conversations_changed.emit(self.records)

    def _put_and_open(self, record: ConversationRecord) -> None:
        """It is what a person wants to go on with, unless an answer would be stopped for it."""
        self._put(record)
        if not self._chat.is_answering:
            self.open(record.id)


def _title_of(conversation: Conversation) -> str:
    first = conversation.messages[0]
    return title_of(first.text or ", ".join(each.name for each in first.attachments))


def title_of(question: str) -> str:
    """A title made of the first line of a question, cut at a word."""
    line = next((" ".join(each.split()) for each in question.splitlines() if each.strip()), "")
    if len(line) <= _TITLE_LENGTH:
        return line
    cut = line[: _TITLE_LENGTH + 1].rpartition(" ")[0] or line[:_TITLE_LENGTH]
    return cut.rstrip(".,;:!?") + "…"


def message_record(conversation: int, message: Message) -> MessageRecord:
    """A message as it is kept."""
    details: dict[str, Any] = {"statistics": asdict(message.statistics)} if message.statistics else {}
    if message.beginning:
        details["beginning"] = message.beginning
    if message.thought_seconds:
        details["thought_seconds"] = round(message.thought_seconds, 3)
    if message.chances and message.ending.is_final:
        details["chances"] = chances.as_details(message.chances)
    if message.attachments:
        details["attachments"] = as_details(message.attachments)
    return MessageRecord(
        message.id, conversation, message.parent, message.role, message.text, message.ending.value, details,
        message.created,
    )  # fmt: skip


def conversation_of(record: ConversationRecord, messages: Sequence[MessageRecord]) -> Conversation:
    """A conversation as it was kept. A question whose answer never reached the disk gets an interrupted one."""
    found = [_message(each) for each in messages]
    answered = {each.parent for each in found if each.role == "assistant"}
    leaf = record.leaf
    for question in [each for each in found if each.role == "user" and each.id not in answered]:
        found.append(Message("assistant", "", Ending.INTERRUPTED, parent=question.id, created=question.created))
        leaf = found[-1].id if leaf == question.id else leaf
    generation, reads_from, summary = map(record.settings.get, ("generation", "reads_from", "summary"))
    return Conversation(
        found,
        leaf,
        record.id,
        settings=read_generation(generation) if isinstance(generation, dict) else None,
        reads_from=reads_from if isinstance(reads_from, int) else 0,
        summary=summary if isinstance(summary, str) else "",
    )


def _settings_of(conversation: Conversation) -> dict[str, Any]:
    """What is kept of a conversation besides its messages."""
    kept: dict[str, Any] = {}
    if conversation.settings is not None:
        kept["generation"] = asdict(conversation.settings)
    if conversation.reads_from:
        kept["reads_from"] = conversation.reads_from
    if conversation.summary:
        kept["summary"] = conversation.summary
    return kept


def _message(record: MessageRecord) -> Message:
    known = {each.value: each for each in Ending}
    return settled(
        Message(
            record.role,
            record.text,
            known.get(record.ending, Ending.COMPLETE),
            _statistics(record.details.get("statistics")),
            parent=record.parent,
            id=record.id,
            created=record.created,
            attachments=from_details(record.details.get("attachments")),
            beginning=_kept(record, "beginning", ""),
            thought_seconds=_kept(record, "thought_seconds", 0.0),
            chances=chances.from_details(record.details.get("chances")),
        )
    )


def _kept(record: MessageRecord, name: str, default: _Detail) -> _Detail:
    """A detail of a message, if it is of the kind that it should be."""
    value = record.details.get(name)
    return value if isinstance(value, type(default)) else default


def _statistics(kept: object) -> Statistics | None:
    """Figures of this or another version of the program: what is known of them."""
    if not isinstance(kept, dict):
        return None
    seconds = kept.get("seconds")
    known = {each.name for each in fields(Statistics)} - {"seconds"}
    parts = {each.name for each in fields(Seconds)}
    try:
        return Statistics(
            **{name: value for name, value in kept.items() if name in known},
            seconds=Seconds(**{name: float(value) for name, value in (seconds or {}).items() if name in parts}),
        )
    except (TypeError, ValueError, AttributeError):
        return None
