"""Imports conversations from files in small steps, so that other orders are served in between."""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.chat.archive.conversion import records_of
from app.chat.archive.exchange.formats import chat_files, read_conversations
from app.chat.archive.exchange.reading import ExchangeError, ReadChat
from app.chat.archive.store import Store
from app.chat.history.conversation import Conversation
from app.chat.history.records import ConversationRecord, MessageRecord, id_of, new_id
from app.settings.generation import GenerationSettings
from app.system.plain_text import unsteered

_STEP_SECONDS = 0.1
_STEP_CHATS = 50

_Chat = tuple[ConversationRecord, list[MessageRecord]]


@dataclass(frozen=True, slots=True)
class Imported:
    """What has become of an import so far: `count` conversations are saved, and `share` of the file `name` is read.

    `empty` counts chats in which nothing was said, and `known` those that are there as they are in the file, of which
    `last_known` is the last: both are left out. `unusable` counts what was in the files and no conversation. `problems`
    are the names of files with that in them, or that could not be read to their end, each with the first reason.
    """

    count: int = 0
    name: str = ""
    share: float = 0.0
    empty: int = 0
    known: int = 0
    last_known: int = 0
    unusable: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    is_stopped: bool = False


class Importing:
    """One import. What a step has saved stays, whatever becomes of the rest."""

    def __init__(self, paths: Sequence[Path], beginning: GenerationSettings) -> None:
        """`beginning`: the settings of a new conversation, which one with a system prompt of its own gets as well."""
        self._beginning = beginning
        self._found = self._read(paths)
        self._problems: dict[str, str] = {}
        self.so_far = Imported()
        self.records: list[ConversationRecord] = []  # what was saved
        self.is_over = False

    def step(self, store: Store) -> None:
        """Save some more. Raises `sqlite3.Error`; then the import is over."""
        until = time.monotonic() + _STEP_SECONDS
        chats: list[_Chat] = []
        self.is_over = True
        has_more = False
        for chat in self._found:
            chats += [chat] if chat else []
            has_more = len(chats) >= _STEP_CHATS or time.monotonic() >= until
            if has_more:
                break
        chats = self._new(store, chats)
        store.save_all(chats)
        self.is_over = not has_more
        self.records += [record for record, _ in chats]
        self.so_far = replace(self.so_far, count=len(self.records), problems=tuple(self._problems.items()))

    def _new(self, store: Store, chats: Sequence[_Chat]) -> list[_Chat]:
        """Those that are not there yet; one that was changed since becomes a second one beside what is there."""
        changes = store.changes(each.id for each, _ in chats)
        found: list[_Chat] = []
        for record, messages in chats:
            if changes.get(record.id) == record.updated:
                self.so_far = replace(self.so_far, known=self.so_far.known + 1, last_known=record.id)
                continue
            own = replace(record, id=new_id()) if record.id in changes else record
            changes[own.id] = own.updated
            found.append((own, messages))
        return found

    def stop(self) -> None:
        """Read no more."""
        self._found.close()
        self.so_far = replace(self.so_far, is_stopped=True)
        self.is_over = True

    def fail(self, _reason: str) -> None:
        """A step could not be done, which is told elsewhere."""
        self._found.close()
        self.is_over = True

    def _read(self, paths: Sequence[Path]) -> Generator[_Chat | None]:
        """The conversations of all files, and of those in folders; None for something that is none."""
        for path in paths:
            if path.is_dir():
                for file in chat_files(path):
                    if file is None:
                        yield None
                    else:
                        yield from self._read_file(file, "/".join(file.parent.relative_to(path).parts))
            else:
                yield from self._read_file(path)

    def _read_file(self, path: Path, folder: str = "") -> Generator[_Chat | None]:
        """`folder`: where the chats belong in the list."""
        self.so_far = replace(self.so_far, name=path.name, share=0.0)
        try:
            for read in read_conversations(path):
                self.so_far = replace(self.so_far, share=read.share)
                yield self._taken(read, path.name, folder)
        except ExchangeError as error:
            self._problems[path.name] = str(error)
            yield None

    def _taken(self, read: ReadChat, name: str, folder: str) -> _Chat | None:
        """What is saved of it; where there is nothing, it is counted."""
        if read.is_empty:
            self.so_far = replace(self.so_far, empty=self.so_far.empty + 1)
            return None
        if read.conversation is None:
            self._problems.setdefault(name, read.reason)
            self.so_far = replace(self.so_far, unusable=self.so_far.unusable + 1)
            return None
        conversation = read.conversation if read.is_whole else self._settled(read.conversation)
        record, messages = records_of(conversation, read.title)
        created = read.about.created or record.created
        updated = read.about.updated or record.updated
        folder = unsteered(read.about.folder or folder)
        kept = replace(record, created=created, updated=updated, is_pinned=read.about.is_pinned, folder=folder)
        if read.about.name:
            kept = replace(kept, id=id_of(read.about.name))
        return kept, messages

    def _settled(self, conversation: Conversation) -> Conversation:
        """A system prompt comes with the file, the other settings are the person's."""
        if conversation.settings is not None:
            prompt = conversation.settings.system_prompt
            conversation.settings = replace(self._beginning, system_prompt=prompt)
        return conversation
