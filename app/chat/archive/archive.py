"""The way to the store: a thread that reads and writes conversations, so that the window never waits for the disk."""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple

from PySide6.QtCore import QObject, QThread, Signal

from app.chat.archive.importing import Importing
from app.chat.archive.records import ConversationRecord, MessageRecord, RoundKey, RoundPlace
from app.chat.archive.store import Store
from app.chat.exchange import write_conversation
from app.chat.kept import conversation_of
from app.round_packing import pack
from app.settings import GenerationSettings
from app.translation import tr
from engine.messages import Round

_log = logging.getLogger("coppice.archive")

Order = Literal[
    "list", "search", "open", "export", "save", "delete", "restore", "duplicate", "import", "close",
    "save rounds", "list rounds", "read rounds",
]  # fmt: skip
_MOST_ROUNDS_BACK = 5_000  # that could not be written, and are tried again


class _Job(NamedTuple):
    order: Order
    conversation: ConversationRecord | None = None
    messages: tuple[MessageRecord, ...] = ()
    words: str = ""
    number: int = 0
    rounds: tuple[tuple[RoundPlace, Round], ...] = ()
    keys: tuple[RoundKey, ...] = ()
    paths: tuple[Path, ...] = ()
    beginning: GenerationSettings | None = None


class Archive(QThread):
    """Orders are carried out one after the other, in the order they were given; answers come as signals.

    `write_failed` carries what went wrong with a save, in plain words, and `write_recovered` says that all that was
    kept back since is written: an order to save that fails is tried again with every one that follows.
    """

    listed = Signal(list)  # of ConversationRecord
    found = Signal(int, list)  # number of the search, list of SearchHit
    opened = Signal(int, object, list)  # number of the order to open, ConversationRecord, list of MessageRecord
    exported = Signal(object)  # path
    export_failed = Signal(object, str)  # path, reason
    duplicated = Signal(object)  # ConversationRecord
    rounds_listed = Signal(object, list)  # id of a conversation, list of RoundPlace
    rounds_read = Signal(list)  # of (RoundKey, bytes or None)
    import_progressed = Signal(int, object)  # number of the order, Imported
    imported = Signal(int, object, list)  # number of the order, Imported, list of ConversationRecord
    set_aside = Signal(str, str, float)  # where the unusable file lies now, why, and when it is removed; 0: never
    write_failed = Signal(str)
    write_recovered = Signal()

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._store: Store | None = None
        self._kept_back: dict[int, _Job] = {}  # conversation -> what could not be written yet
        self._rounds_back: dict[int, list[tuple[RoundPlace, Round]]] = {}  # the same of rounds
        self._latest_search = self._latest_order = 0
        self._imports: dict[int, Importing] = {}
        self._stopped: set[int] = set()
        self._is_late = False

    # ---- for the window's thread ------------------------------------------------------------------------------------

    def list_all(self) -> None:
        """Ask for `listed`."""
        self._jobs.put(_Job("list"))

    def search(self, words: str) -> int:
        """Ask for `found`; returns the number it will carry. A search that a newer one overtook is not answered."""
        self._latest_search += 1
        self._jobs.put(_Job("search", words=words, number=self._latest_search))
        return self._latest_search

    def open(self, conversation: ConversationRecord) -> int:
        """Ask for `opened`, to show it; returns the number it will carry."""
        return self._put_numbered(_Job("open", conversation))

    def export(self, conversation: ConversationRecord, path: Path) -> None:
        """Write the path that was last shown into a file; ask for `exported` or `export_failed`."""
        self._jobs.put(_Job("export", conversation, paths=(path,)))

    def save(self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        """Write a conversation, and these of its messages."""
        self._jobs.put(_Job("save", conversation, tuple(messages)))

    def delete(self, conversation: ConversationRecord) -> None:
        """Take a conversation out of the list."""
        self._jobs.put(_Job("delete", conversation))

    def restore(self, conversation: ConversationRecord) -> None:
        """Bring back a conversation that was deleted."""
        self._jobs.put(_Job("restore", conversation))

    def duplicate(self, conversation: ConversationRecord) -> None:
        """Ask for a copy, and for `duplicated`."""
        self._jobs.put(_Job("duplicate", conversation))

    def save_rounds(self, conversation: int, rounds: Sequence[tuple[RoundPlace, Round]]) -> None:
        """Keep rounds of a conversation; its messages are ordered to be saved before."""
        self._jobs.put(_Job("save rounds", number=conversation, rounds=tuple(rounds)))

    def list_rounds(self, conversation: int) -> None:
        """Ask for `rounds_listed`."""
        self._jobs.put(_Job("list rounds", number=conversation))

    def read_rounds(self, keys: Sequence[RoundKey]) -> None:
        """Ask for `rounds_read`."""
        self._jobs.put(_Job("read rounds", keys=tuple(keys)))

    def import_files(self, paths: Sequence[Path], beginning: GenerationSettings) -> int:
        """Bring in the conversations of files; ask for `import_progressed` and `imported`, which carry the number.

        `beginning`: the settings of a new conversation. Other orders are carried out in between.
        """
        return self._put_numbered(_Job("import", paths=tuple(paths), beginning=beginning))

    def stop_import(self, number: int) -> None:
        """Import no more; what is in the store already stays, and `imported` tells of it."""
        self._stopped.add(number)

    def close(self) -> None:
        """Carry out what was ordered so far, then end the thread."""
        self._jobs.put(_Job("close"))

    def _put_numbered(self, job: _Job) -> int:
        self._latest_order += 1
        self._jobs.put(job._replace(number=self._latest_order))
        return self._latest_order

    # ---- in the thread ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve orders until `close`."""
        while (job := self._jobs.get()).order != "close":
            self._carry_out(job)
        for kept in list(self._kept_back.values()):
            self._carry_out(kept)
        for conversation in list(self._rounds_back):
            self._carry_out(_Job("save rounds", number=conversation))
        for importing in self._imports.values():
            importing.stop()
        if self._store:
            self._store.close()

    def _carry_out(self, job: _Job) -> None:
        try:
            self._serve(self._opened_store(), job)
        except (sqlite3.Error, OSError) as error:
            _log.exception("the order to %s could not be carried out", job.order)
            self._is_late = self._store is None
            self._on_failed(job, error)

    def _opened_store(self) -> Store:
        if self._store is None:
            self._store = Store(self._path)
            if self._store.set_aside:
                self.set_aside.emit(str(self._store.set_aside), self._store.reason, self._store.until)
            if self._is_late:  # the list was asked for in vain
                self.listed.emit(self._store.conversations())
        return self._store

    def _serve(self, store: Store, job: _Job) -> None:
        if job.conversation is None:
            self._serve_all(store, job)
            return
        match job.order:
            case "open":
                self.opened.emit(job.number, job.conversation, store.messages(job.conversation.id))
            case "export":
                record = job.conversation
                write_conversation(job.paths[0], record, conversation_of(record, store.messages(record.id)))
                self.exported.emit(job.paths[0])
            case "save":
                self._save(store, job)
            case "delete":
                store.delete(job.conversation.id)
            case "restore":
                store.restore(job.conversation.id)
            case "duplicate":
                self.duplicated.emit(store.duplicate(job.conversation))

    def _serve_all(self, store: Store, job: _Job) -> None:
        """What is asked without a conversation's record."""
        match job.order:
            case "list":
                self.listed.emit(store.conversations())
            case "search" if job.number == self._latest_search:
                self.found.emit(job.number, store.search(job.words))
            case "import":
                self._import(store, job)
            case "save rounds":
                self._save_rounds(store, job)
            case "list rounds":
                self.rounds_listed.emit(job.number, store.rounds(job.number))
            case "read rounds":
                self.rounds_read.emit(list(zip(job.keys, store.read_rounds(job.keys), strict=True)))

    def _save_rounds(self, store: Store, job: _Job) -> None:
        """What could not be written waits for the next ones, or for the end; of very many the oldest are lost."""
        rounds = [*self._rounds_back.pop(job.number, ()), *job.rounds]
        try:
            store.save_rounds(job.number, [(place, pack(each)) for place, each in rounds])
        except sqlite3.Error:
            self._rounds_back[job.number] = rounds[-_MOST_ROUNDS_BACK:]
            raise

    def _import(self, store: Store, job: _Job) -> None:
        """A step of it; the next one waits behind what was ordered meanwhile."""
        assert job.beginning
        if job.number not in self._imports:
            self._imports[job.number] = Importing(job.paths, job.beginning)
        importing = self._imports[job.number]
        if job.number in self._stopped:
            importing.stop()
        else:
            importing.step(store)
        if importing.is_over:
            self._end_import(job.number, importing)
        else:
            self.import_progressed.emit(job.number, importing.so_far)
            self._jobs.put(job)

    def _end_import(self, number: int, importing: Importing) -> None:
        self._imports.pop(number, None)
        self._stopped.discard(number)
        self.imported.emit(number, importing.so_far, importing.records)

    def _save(self, store: Store, job: _Job) -> None:
        """What was kept back goes first, so that nothing newer is overwritten by it."""
        assert job.conversation
        before = self._kept_back.pop(job.conversation.id, None)
        merged = _merge(before, job)
        try:
            store.save(job.conversation, merged.messages)
        except sqlite3.Error:
            self._kept_back[job.conversation.id] = merged
            raise
        if before and not self._kept_back:
            self.write_recovered.emit()

    def _on_failed(self, job: _Job, error: Exception) -> None:
        if job.order == "read rounds":
            self.rounds_read.emit([(key, None) for key in job.keys])
        if job.order.endswith("rounds"):
            return  # the conversation itself is what a person has to hear of
        if job.order == "save":
            assert job.conversation
            self._kept_back.setdefault(job.conversation.id, job)
        words = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if job.order == "import" and (importing := self._imports.get(job.number)):
            self._end_import(job.number, importing)
        if job.order == "export":
            self.export_failed.emit(job.paths[0], words)
            return
        full = "full" in words.lower()
        hint = tr("Free some space; it is tried again.") if full else tr("It is tried again with the next change.")
        told = tr("Conversations cannot be saved in {file}: {reason}.").format(file=self._path.name, reason=words)
        self.write_failed.emit(f"{told} {hint}")


def _merge(before: _Job | None, job: _Job) -> _Job:
    if before is None:
        return job
    messages = {each.id: each for each in (*before.messages, *job.messages)}
    return job._replace(messages=tuple(messages.values()))
