"""Reads and writes conversations in SQLite; used by the archive's thread alone, never by the window's."""

import logging
import sqlite3
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from app.chat.archive import database_files, text_index
from app.chat.archive.picture_table import pictures_of_messages, save_message_pictures
from app.chat.archive.schema import open_database
from app.chat.archive.tables import (
    RoundTable,
    conversation_in,
    message_in,
    row_of_conversation,
    row_of_message,
    unsent_in,
    write_unsent,
)
from app.chat.archive.text_index import ERRORS
from app.chat.history.records import (
    HIT_BEGIN,
    HIT_END,
    ConversationRecord,
    MessageRecord,
    RoundKey,
    RoundPlace,
    SearchHit,
    new_id,
)
from app.chat.history.unsent import Unsent
from app.i18n.translation import tr
from app.system import json_text as json
from app.system.plain_text import well_formed

_Result = TypeVar("_Result")
_Rows = tuple[tuple[Any, ...], list[tuple[Any, ...]], dict[int, tuple[bytes, ...]]]
"""Of a conversation, and of its messages; and the pictures of these."""
_log = logging.getLogger("coppice.archive")

_FIELDS = "SELECT id, title, auto_title, folder, is_pinned, leaf, settings, created, updated FROM conversations"
_LIST = _FIELDS + " WHERE deleted IS NULL ORDER BY is_pinned DESC, updated DESC, id"
# What was deleted of a conversation waits in one without a leaf: that is no chat.
_DELETED = _FIELDS.replace(" FROM", ", deleted FROM") + " WHERE deleted IS NOT NULL AND leaf ORDER BY deleted DESC, id"
_SOME = _FIELDS + " WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608  # all of it is ours
_CHANGES = """
    SELECT id, iif(deleted IS NULL, updated, 0) FROM conversations WHERE id IN (SELECT value FROM json_each(?))
"""
_TITLES = """
    SELECT id, title, auto_title FROM conversations
    WHERE deleted IS NULL ORDER BY is_pinned DESC, updated DESC, id
"""
# The best message of every conversation. A word that is in thousands of messages tells nothing: of those, so many are
# compared, and the rest is not looked at.
_RANKED = """
    SELECT messages.conversation, hits.id, min(hits.score) AS best FROM (
        SELECT rowid AS id, bm25(texts) AS score FROM texts WHERE texts MATCH ? LIMIT ?
    ) AS hits
    JOIN messages ON messages.id = hits.id
    JOIN conversations ON conversations.id = messages.conversation AND conversations.deleted IS NULL
    GROUP BY messages.conversation ORDER BY best LIMIT ?
"""
# The + keeps SQLite from asking the index anew for every row.
_EXCERPTS = """
    SELECT rowid, snippet(texts, 0, ?, ?, '…', ?) FROM texts
    WHERE texts MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
"""
_MESSAGES = """
    SELECT id, conversation, parent, role, text, ending, details, created FROM messages
    WHERE conversation = ? ORDER BY created, id
"""
_SAVE_CONVERSATION = """
    INSERT INTO conversations (id, title, auto_title, folder, is_pinned, leaf, settings, created, updated)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET title = excluded.title, auto_title = excluded.auto_title, folder = excluded.folder,
        is_pinned = excluded.is_pinned, leaf = excluded.leaf, settings = excluded.settings, updated = excluded.updated
"""
_SAVE_MESSAGE = """
    INSERT INTO messages (id, conversation, parent, role, text, ending, details, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, text = excluded.text,
        ending = excluded.ending, details = excluded.details
"""
# What is deleted of a conversation waits in one of its own, which counts as deleted.
_BURY = """
    UPDATE messages SET conversation = ? WHERE conversation = ? AND id IN (SELECT value FROM json_each(?))
"""
_GRAVE = "INSERT OR IGNORE INTO conversations (id, created, updated, deleted) VALUES (?, ?, ?, ?)"
_PURGE = (
    """DELETE FROM unsent_texts WHERE conversation IN
        (SELECT id FROM conversations WHERE deleted IS NOT NULL AND deleted < ?)""",
    "DELETE FROM conversations WHERE deleted IS NOT NULL AND deleted < ?",
)
_ERASE = (
    """DELETE FROM unsent_texts WHERE conversation IN
        (SELECT id FROM conversations WHERE deleted IS NOT NULL AND id IN (SELECT value FROM json_each(?)))""",
    "DELETE FROM conversations WHERE deleted IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
)
_KEPT_SECONDS = 30 * 24 * 3600  # what was deleted can be brought back for so long
_EXCERPT_WORDS = 14
_MOST_COMPARED = 2000


class Store:
    """Every call is one transaction: after a crash it is there as a whole, or not at all.

    Where the full-text index turns out to be damaged it is made again, and what failed is done again.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file; raises `OSError` or one of `ERRORS` where that cannot be.

        Answers that were growing when the program ended are marked so; what was deleted long ago goes.
        """
        opened = open_database(path)
        self._path = path
        self._connection = opened.connection
        self._rounds = RoundTable(opened.connection)
        self._is_sound = True
        self._rebuilds_index = True
        self.set_aside, self.reason, self.until = opened.set_aside, opened.reason, opened.until
        try:
            self._repairing(self._settle)
            self._repairing(self._purge)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Remove what was deleted long ago by now, write everything into the one file, and close it."""
        try:
            self._noting(self._purge)
        except ERRORS as error:
            _log.warning("deleted conversations are removed at the next start: %s", error)
        with closing(self._connection):
            (is_busy, *_) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if self._is_sound and not is_busy:
            database_files.leave_clean_mark(self._path)

    def _settle(self) -> None:
        self._connection.execute("UPDATE messages SET ending = 'closed' WHERE ending IN ('open', 'waiting')")

    def _purge(self) -> None:
        """Remove what was deleted long ago."""
        self._remove(_PURGE, time.time() - _KEPT_SECONDS)

    def _remove(self, statements: tuple[str, str], which: float | str) -> None:
        """Remove deleted conversations from the tables, from the index, and from the log."""
        of_unsent, of_conversations = statements
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(of_unsent, (which,))
            removed = self._connection.execute(of_conversations, (which,)).rowcount
            if removed:
                text_index.compact(self._connection)
        if removed:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _repairing(self, work: Callable[[], _Result]) -> _Result:
        """Do what uses the full-text index; if that is damaged, make it again and do it once more."""
        try:
            return work()
        except ERRORS as error:
            self._note(error)
            if not (self._rebuilds_index and text_index.may_be_damage(error)):
                raise
            _log.warning("an order failed: %s", error)
        self._is_sound = False  # what did this may have done more
        text_index.rebuild(self._connection)
        self._rebuilds_index = False  # unless it helps now, it was not the index
        result = work()
        self._rebuilds_index = True
        return result

    def _noting(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except ERRORS as error:
            self._note(error)
            raise

    def _note(self, error: sqlite3.Error | MemoryError | UnicodeDecodeError) -> None:
        """A file in which damage was met, or may have been, is checked at the next start."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) or sqlite3.SQLITE_OK
        if isinstance(error, MemoryError | UnicodeDecodeError) or code & 0xFF in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        ):
            self._is_sound = False

    # ---- the list ---------------------------------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """All that are not deleted: pinned ones first, then the newest."""
        return self._noting(lambda: [conversation_in(row) for row in self._connection.execute(_LIST)])

    def deleted(self) -> list[tuple[ConversationRecord, float]]:
        """What was deleted and can be restored, and when, in seconds since 1970; the last first."""
        rows = self._noting(lambda: self._connection.execute(_DELETED).fetchall())
        return [(conversation_in(row[:-1]), row[-1]) for row in rows]

    def changes(self, conversations: Iterable[int]) -> dict[int, float]:
        """When those of these that are in the file were last changed; 0 for those that are deleted."""
        wanted = (json.dumps(list(conversations)),)
        return dict(self._noting(lambda: self._connection.execute(_CHANGES, wanted).fetchall()))

    def search(self, words: str, limit: int = 200) -> list[SearchHit]:
        """Conversations with all these words in their title, then those with a message that has words beginning so.

        At most `limit` of either; of the second the best first, each with its best message.
        """
        wanted = well_formed(words).replace("\0", " ").split()
        if not wanted:
            return []
        return self._repairing(lambda: self._search(wanted, limit))

    def _search(self, wanted: Sequence[str], limit: int) -> list[SearchHit]:
        folded = [word.casefold() for word in wanted]
        titles = self._connection.execute(_TITLES)
        titled = [identity for identity, *names in titles if _has_all(next(filter(None, names), ""), folded)][:limit]
        ranked = self._connection.execute(_RANKED, (_match(wanted), _MOST_COMPARED, limit)).fetchall()
        excerpts = self._excerpts(wanted, [message for _, message, _ in ranked])
        known = self._some({*titled, *(conversation for conversation, _, _ in ranked)})
        found = [SearchHit(known[where], message, excerpts.get(message, "")) for where, message, _ in ranked]
        return [*(SearchHit(known[identity]) for identity in titled), *found]

    def _excerpts(self, wanted: Sequence[str], messages: Sequence[int]) -> dict[int, str]:
        values = (HIT_BEGIN, HIT_END, _EXCERPT_WORDS, _match(wanted), json.dumps(messages))
        return dict(self._connection.execute(_EXCERPTS, values).fetchall())

    def _some(self, conversations: Iterable[int]) -> dict[int, ConversationRecord]:
        rows = self._connection.execute(_SOME, (json.dumps(list(conversations)),))
        return {record.id: record for record in map(conversation_in, rows)}

    # ---- one conversation -------------------------------------------------------------------------------------------

    def messages(self, conversation: int) -> list[MessageRecord]:
        """All messages of its tree, a parent before its children."""
        rows = self._noting(lambda: self._connection.execute(_MESSAGES, (conversation,)).fetchall())
        pictures = self._noting(lambda: pictures_of_messages(self._connection, conversation))
        return parents_first(message_in(row, pictures) for row in rows)

    def save(self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        """Add a conversation, or bring it up to date, and these of its messages; others stay as they are."""
        self.save_all([(conversation, messages)])

    def save_all(self, conversations: Sequence[tuple[ConversationRecord, Sequence[MessageRecord]]]) -> None:
        """The same for several, all of them or none."""
        rows = [_rows_of(each, messages) for each, messages in conversations]

        def write() -> None:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._write_rows(rows)

        self._repairing(write)

    def _write_rows(self, rows: Iterable[_Rows]) -> None:
        for conversation, messages, pictures in rows:
            self._connection.execute(_SAVE_CONVERSATION, conversation)
            self._connection.executemany(_SAVE_MESSAGE, messages)
            for message, shown in pictures.items():
                save_message_pictures(self._connection, message, shown)

    def delete(self, conversation: int) -> None:
        """Take it out of the list; `restore` brings it back as long as it is kept."""
        with self._connection:
            self._connection.execute("UPDATE conversations SET deleted = ? WHERE id = ?", (time.time(), conversation))

    def restore(self, conversation: int) -> None:
        """Bring back what was deleted."""
        with self._connection:
            self._connection.execute("UPDATE conversations SET deleted = NULL WHERE id = ?", (conversation,))

    def erase(self, conversations: Iterable[int]) -> None:
        """Remove those of these that were deleted: nothing of them stays in the file, and nothing brings them back."""
        which = json.dumps(list(conversations))
        self._repairing(lambda: self._remove(_ERASE, which))

    def delete_messages(self, conversation: int, messages: Sequence[int], removal: int) -> None:
        """Take messages out of a conversation, with their rounds; kept under this id for as long as conversations."""
        now = time.time()
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(_GRAVE, (removal, now, now, now))
            self._connection.execute(_BURY, (removal, conversation, json.dumps(list(messages))))
        self._rounds.forget_sizes()

    def restore_messages(self, conversation: int, removal: int) -> None:
        """Bring back what was taken out under this id."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(
                "UPDATE messages SET conversation = ? WHERE conversation = ?", (conversation, removal)
            )
            self._connection.execute("DELETE FROM conversations WHERE id = ?", (removal,))
        self._rounds.forget_sizes()

    def duplicate(self, conversation: ConversationRecord, last: int = 0) -> ConversationRecord:
        """A copy with all branches, named as one; returns it.

        `last`: the message with which the copy ends, without what follows it; its other versions are copied whole.
        """
        originals = self.messages(conversation.id)
        if last:
            originals = _without_what_follows(originals, last)
        number = {each.id: new_id() for each in originals}
        settings = dict(conversation.settings)
        if isinstance(first := settings.get("reads_from"), int):
            settings["reads_from"] = number.get(first, 0)
        copy = replace(
            conversation,
            id=new_id(),
            settings=settings,
            title=(tr("{title} (branch)") if last else tr("{title} (copy)")).format(title=conversation.shown_title),
            leaf=number.get(last or conversation.leaf, 0),
            is_pinned=False,
            created=time.time(),
            updated=time.time(),
        )
        copies = [
            replace(
                each,
                id=number[each.id],
                conversation=copy.id,
                parent=number.get(each.parent, 0),
                ending="stopped" if each.ending in ("open", "waiting") else each.ending,
            )
            for each in originals
        ]
        self._save_copy(copy, copies, number)
        return copy

    def _save_copy(
        self, copy: ConversationRecord, messages: Sequence[MessageRecord], number: Mapping[int, int]
    ) -> None:
        """Save a copy with its rounds: the disk may be full before all of them are there."""
        rows = _rows_of(copy, messages)

        def write() -> None:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._write_rows([rows])
                self._rounds.copy(number)

        self._repairing(write)

    # ---- unsent texts -----------------------------------------------------------------------------------------------

    def unsent_texts(self) -> tuple[dict[int, Unsent], list[int]]:
        """What was written and not sent, by conversation; and which of these were never begun, oldest first."""
        return self._noting(lambda: unsent_in(self._connection))

    def save_unsent(self, conversation: int, unsent: Unsent) -> None:
        """Keep what is written for a conversation, which need not be there; an empty one is forgotten."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            write_unsent(self._connection, conversation, unsent)

    # ---- its rounds -------------------------------------------------------------------------------------------------

    def save_rounds(self, conversation: int, rounds: Sequence[tuple[RoundPlace, bytes]]) -> None:
        """Add rounds, packed, of messages that are there; beyond a limit the conversation's oldest ones go."""
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._rounds.save(conversation, rounds)
        except ERRORS as error:
            self._rounds.forget_sizes()
            self._note(error)
            raise

    def rounds(self, conversation: int) -> list[RoundPlace]:
        """Every round of a conversation, with all its branches, oldest first."""
        return self._noting(lambda: self._rounds.places(conversation))

    def read_rounds(self, keys: Sequence[RoundKey]) -> list[bytes | None]:
        """The rounds as they were packed; None for one that is not kept."""
        return self._noting(lambda: self._rounds.read(keys))


def _without_what_follows(messages: Sequence[MessageRecord], last: int) -> list[MessageRecord]:
    """The same, parents first, without those behind a message."""
    behind = {last}
    kept = []
    for each in messages:
        if each.parent in behind:
            behind.add(each.id)
        else:
            kept.append(each)
    return kept


def _rows_of(conversation: ConversationRecord, messages: Sequence[MessageRecord]) -> _Rows:
    pictures = {each.id: each.pictures for each in messages if each.pictures}
    return row_of_conversation(conversation), [row_of_message(conversation.id, each) for each in messages], pictures


def _match(words: Sequence[str]) -> str:
    """A query for the index: every word as it is, whatever it means to the index's own language."""
    return " ".join('"' + word.replace('"', '""') + '"*' for word in words)


def _has_all(title: str, folded: Sequence[str]) -> bool:
    own = str(title).casefold()  # which a damaged page may have as bytes
    return all(word in own for word in folded)


def parents_first(records: Iterable[MessageRecord]) -> list[MessageRecord]:
    """Clocks are set back, and imports come in any order; the tree decides. What has lost its parent is a first one."""
    found = {each.id: each for each in records}
    children: dict[int, list[int]] = defaultdict(list)
    for each in found.values():
        children[each.parent if each.parent in found else 0].append(each.id)
    order: dict[int, MessageRecord] = {}
    waiting = deque(children[0])
    while found:
        if not waiting:  # what is left goes round in a circle, which only a damaged file can hold
            waiting.append(next(iter(found)))
        record = found.pop(waiting.popleft(), None)
        if record is not None:
            order[record.id] = record if record.parent in order else replace(record, parent=0)
            waiting.extend(children[record.id])
    return list(order.values())
