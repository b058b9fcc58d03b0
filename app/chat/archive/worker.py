"""A thread that reads and writes conversations, so that the window never waits for the disk."""

import logging
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, NamedTuple

from PySide6.QtCore import QObject, QThread, Signal

from app.chat.archive.conversion import conversation_of
from app.chat.archive.formats import write_conversation
from app.chat.archive.importing import Importing
from app.chat.archive.store import Store
from app.chat.history.records import ConversationRecord, MessageRecord, RoundKey, RoundPlace
from app.engine.round_packing import pack
from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.system.background import attempt, lasting, report
from engine.protocol.messages import Round

_log = logging.getLogger("coppice.archive")

Order = Literal[
    "list", "search", "open", "export", "save", "delete", "restore", "duplicate", "import", "close",
    "save rounds", "list rounds", "read rounds", "write again",
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

    `write_failed` carries what went wrong with an order, in plain words, and `write_recovered` says that all that was
    kept back since is written: an order to save, delete or restore that fails is tried again with every one that
    follows.
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
        self._marks_back: dict[int, _Job] = {}  # the same of deleting and restoring
        self._rounds_back: dict[int, list[tuple[RoundPlace, Round]]] = {}  # the same of rounds
        self._latest_search = self._latest_order = 0
        self._imports: dict[int, Importing] = {}
        self._stopped: set[int] = set()
        self._is_late = False  # with the list
        self._has_failed = False  # to write
        self._is_closing = False

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

    @lasting("archive")
    def run(self) -> None:
        """Serve orders until `close`; what could not be written until then is tried once more."""
        while not self._is_closing:
            job = self._jobs.get()
            self._is_closing = job.order == "close"
            if not self._is_closing:
                self._carry_out(job)
        for conversation in {**self._kept_back, **self._marks_back}:
            self._carry_out(_Job("write again", number=conversation))
        for conversation in list(self._rounds_back):
            self._carry_out(_Job("save rounds", number=conversation))
        for importing in self._imports.values():
            importing.stop()
        if self._store:
            attempt(self._store.close, lambda _error: None)

    def _carry_out(self, job: _Job) -> None:
        """Whatever is raised, it is told, and the next order is served."""
        self._keep(job)  # first: whatever happens now, nothing of it is lost
        try:
            store = self._opened_store()
            self._serve(store, job)
            if self._is_late:  # the list was asked for in vain
                self._is_late = False
                self.listed.emit(store.conversations())
        except (sqlite3.Error, OSError) as error:
            _log.exception("the order to %s could not be carried out", job.order)
            self._on_failed(job, error)
        except BaseException as error:  # noqa: BLE001  # a thread that ends would lose every later save
            report(error)
            self._on_failed(job, error)

    def _keep(self, job: _Job) -> None:
        """Hold what is to be written until it is written; of very many rounds the oldest are lost."""
        if job.order == "save" and job.conversation:
            before = self._kept_back.get(job.conversation.id)
            self._kept_back[job.conversation.id] = _merge(before, job)
        elif job.order in ("delete", "restore") and job.conversation:
            self._marks_back[job.conversation.id] = job
        elif job.order == "save rounds":
            rounds = [*self._rounds_back.get(job.number, ()), *job.rounds]
            self._rounds_back[job.number] = rounds[-_MOST_ROUNDS_BACK:]

    def _opened_store(self) -> Store:
        if self._store is None:
            self._store = Store(self._path)
            if self._store.set_aside:
                self.set_aside.emit(str(self._store.set_aside), self._store.reason, self._store.until)
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
            case "save" | "delete" | "restore":
                self._write(store, job.conversation.id)
                self._write_others(store)
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
            case "write again":
                self._write(store, job.number)
            case "save rounds":
                self._save_rounds(store, job)
            case "list rounds":
                self.rounds_listed.emit(job.number, store.rounds(job.number))
            case "read rounds":
                self.rounds_read.emit(list(zip(job.keys, store.read_rounds(job.keys), strict=True)))

    def _save_rounds(self, store: Store, job: _Job) -> None:
        """With those that could not be written before."""
        packed = []
        for place, each in self._rounds_back.get(job.number, ()):
            if content := attempt(partial(pack, each), lambda _error: b""):  # one that cannot be packed never will be
                packed.append((place, content))
        store.save_rounds(job.number, packed)
        self._rounds_back.pop(job.number, None)

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

    def _write(self, store: Store, conversation: int) -> None:
        """What is kept of it, also from before, so that nothing newer is overwritten; it is kept until it is there."""
        if kept := self._kept_back.get(conversation):
            assert kept.conversation
            store.save(kept.conversation, kept.messages)
            del self._kept_back[conversation]
        if mark := self._marks_back.get(conversation):
            (store.delete if mark.order == "delete" else store.restore)(conversation)
            del self._marks_back[conversation]

    def _write_others(self, store: Store) -> None:
        """What failed before is tried again; that was told then, and must not stop what went well."""
        for conversation in {**self._kept_back, **self._marks_back}:
            try:
                self._write(store, conversation)
            except BaseException as error:  # noqa: BLE001  # whatever it is, it was reported when it came first
                _log.debug("A conversation still cannot be written: %r", error)
        if self._has_failed and not (self._kept_back or self._marks_back):
            self._has_failed = False
            self.write_recovered.emit()

    def _on_failed(self, job: _Job, error: BaseException) -> None:
        """Report the failure, and give every order that waits for an answer an empty one."""
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self._is_late = self._is_late or self._store is None or job.order == "list"
        self._has_failed = self._has_failed or job.order in ("save", "delete", "restore")
        match job.order:
            case "import":
                assert job.beginning
                importing = self._imports.get(job.number) or Importing(job.paths, job.beginning)
                self._end_import(job.number, importing)
            case "export":
                self.export_failed.emit(job.paths[0], reason)
                return
            case "search":
                self.found.emit(job.number, [])
            case "read rounds":
                self.rounds_read.emit([(key, None) for key in job.keys])
            case "list rounds":
                self.rounds_listed.emit(job.number, [])
        if not job.order.endswith("rounds"):  # the conversation itself is what a person has to hear of
            self.write_failed.emit(self._failure(job, reason))

    def _failure(self, job: _Job, reason: str) -> str:
        if job.order in ("open", "search", "duplicate") and self._store is not None:
            told = tr("Conversations cannot be read from {file}: {reason}.")
            return f"{told.format(file=self._path.name, reason=reason)} {tr('Try it again; the log tells more.')}"
        told = tr("Conversations cannot be saved in {file}: {reason}.").format(file=self._path.name, reason=reason)
        full = "full" in reason.lower()
        hint = tr("Free some space; it is tried again.") if full else tr("It is tried again with the next change.")
        return f"{told} {hint}"


def _merge(before: _Job | None, job: _Job) -> _Job:
    if before is None:
        return job
    messages = {each.id: each for each in (*before.messages, *job.messages)}
    return job._replace(messages=tuple(messages.values()))
