"""A thread that reads and writes conversations, so that the window never waits for the disk."""

import errno
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from PySide6.QtCore import QObject, QThread, Signal

from app.chat.archive.conversion import conversation_of
from app.chat.archive.orders import Failure, Mark, Order, Steps
from app.chat.archive.round_times import times_of
from app.chat.archive.store import Store, parents_first
from app.chat.archive.text_index import ERRORS
from app.chat.history.conversation import Conversation
from app.chat.history.records import ConversationRecord, MessageRecord, RoundKey, RoundPlace
from app.chat.history.unsent import Unsent
from app.engine.round_packing import pack
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.settings.generation import GenerationSettings
from app.system.background import attempt, lasting, report
from engine.protocol.messages import Round

_log = logging.getLogger("coppice.archive")

_FULL = "disk is full"  # as SQLite says it
_MOST_ROUNDS_BACK = 5_000  # that could not be written, and are tried again


class Archive(QThread):
    """Orders are carried out one after the other, in the order they were given; answers come as signals.

    `write_failed` carries what went wrong with an order, in plain words, and `write_recovered` says that all that was
    kept back since is written: an order to save, delete or restore that fails is tried again with every one that
    follows.
    """

    listed = Signal(list)  # of ConversationRecord
    unsent_listed = Signal(object, list)  # dict: id of a conversation -> Unsent; ids of those that were never begun
    deleted_listed = Signal(list)  # of (ConversationRecord, when it was deleted)
    found = Signal(int, list)  # number of the search, list of SearchHit
    opened = Signal(int, Conversation)  # number of the order to open
    open_failed = Signal(int)  # number of the order to open
    exported = Signal(object)  # path
    export_failed = Signal(object, str)  # path, reason
    duplicated = Signal(int, object)  # number of the order, ConversationRecord
    rounds_listed = Signal(object, list)  # id of a conversation, list of RoundPlace
    rounds_read = Signal(int, list)  # number of the order, list of (RoundKey, bytes or None)
    times_read = Signal(object, object)  # id of a message, TokenTimes, or None where its rounds are not all kept
    import_progressed = Signal(int, object)  # number of the order, Imported
    imported = Signal(int, object, list)  # number of the order, Imported, list of ConversationRecord
    export_progressed = Signal(int, object)  # number of the order, Exported
    all_exported = Signal(int, object)  # the same
    set_aside = Signal(str, str, float)  # where the unusable file lies now, why, and when it is removed; 0: never
    write_failed = Signal(str)
    write_recovered = Signal()
    copies_saved = Signal(int, str)  # how many files, and why not all; empty: all

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._orders: SimpleQueue[Order | None] = SimpleQueue()  # None: the end
        self._store: Store | None = None
        # What could not be written yet, by conversation: its messages, that it was deleted or restored, its rounds. Of
        # messages that were deleted or restored it is by their removal, of an unsent text by minus the conversation.
        self._kept_back: dict[int, tuple[ConversationRecord, dict[int, MessageRecord]]] = {}
        self._marks_back: dict[int, Mark] = {}
        self._rounds_back: dict[int, list[tuple[RoundPlace, Round]]] = {}
        self._latest_order = 0
        self._latest_search: dict[int, int] = {}  # by who searches
        self._steps: dict[int, Steps] = {}  # what is under way, by the numbers of the orders
        self._stopped: set[int] = set()
        self._is_list_wanted = False
        self._has_failed = False  # to write
        self._last_failure = ""  # as a person was told

    # ---- for the window's thread ------------------------------------------------------------------------------------

    def list_all(self) -> None:
        """Ask for `listed` and `unsent_listed`."""
        self._orders.put(Order("list", self._want_list))

    def list_deleted(self) -> None:
        """Ask for `deleted_listed`."""
        self._orders.put(
            Order("list deleted", lambda store: self.deleted_listed.emit(store.deleted()), failure=Failure.SILENT)
        )

    def search(self, words: str, searcher: int = 0) -> int:
        """Ask for `found`; returns the number it will carry.

        A search that a newer one of the same searcher overtook is not answered.
        """
        self._latest_search[searcher] = number = self._next_number()

        def work(store: Store) -> None:
            if number == self._latest_search[searcher]:
                self.found.emit(number, store.search(words))

        self._orders.put(Order("search", work, lambda _: self.found.emit(number, []), failure=Failure.NOT_READ))
        return number

    def open(self, conversation: ConversationRecord) -> int:
        """Ask for `opened` or `open_failed`, to show it; returns the number they will carry."""
        number = self._next_number()
        self._orders.put(
            Order(
                "open",
                lambda store: self.opened.emit(
                    number, conversation_of(conversation, self._messages(store, conversation.id))
                ),
                lambda _: self.open_failed.emit(number),
                failure=Failure.NOT_READ,
            )
        )
        return number

    def export(self, conversation: ConversationRecord, path: Path) -> None:
        """Write it into a file; ask for `exported` or `export_failed`."""

        def work(store: Store) -> None:
            from app.chat.archive.exchange.formats import write_conversation  # noqa: PLC0415

            messages = self._messages(store, conversation.id)
            write_conversation(path, conversation, conversation_of(conversation, messages))
            self.exported.emit(path)

        self._orders.put(
            Order("export", work, lambda reason: self.export_failed.emit(path, reason), failure=Failure.SILENT)
        )

    def save(self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = ()) -> None:
        """Write a conversation, and these of its messages."""
        self._put_write("save", conversation.id, partial(self._keep_messages, conversation, tuple(messages)))

    def save_unsent(self, conversation: int, unsent: Unsent) -> None:
        """Keep what is written for a conversation; an empty one is forgotten."""
        mark = Mark(conversation, lambda store: store.save_unsent(conversation, unsent), unsent)
        self._put_mark("save an unsent text", -conversation, mark)

    def delete(self, conversation: ConversationRecord) -> None:
        """Take a conversation out of the list."""
        mark = Mark(conversation.id, lambda store: store.delete(conversation.id))
        self._put_mark("delete", conversation.id, mark)

    def restore(self, conversation: ConversationRecord) -> None:
        """Bring back a conversation that was deleted."""
        mark = Mark(conversation.id, lambda store: store.restore(conversation.id))
        self._put_mark("restore", conversation.id, mark)

    def erase(self, conversations: Sequence[int]) -> None:
        """Remove conversations that were deleted, for good; where that fails they can still be brought back."""
        self._orders.put(Order("erase", lambda store: store.erase(conversations)))

    def delete_messages(self, conversation: int, messages: Sequence[int], removal: int) -> None:
        """Take messages out of a conversation; its others are ordered to be saved before. `removal` names this."""

        def keep() -> None:
            _, kept_back = self._kept_back.get(conversation, (None, {}))
            for each in messages:
                kept_back.pop(each, None)
            mark = Mark(conversation, lambda store: store.delete_messages(conversation, messages, removal))
            self._marks_back[removal] = mark

        self._put_write("delete messages", removal, keep)

    def restore_messages(self, conversation: int, removal: int) -> None:
        """Bring them back; they are ordered to be saved before, in case that they never were."""
        mark = Mark(conversation, lambda store: store.restore_messages(conversation, removal))
        self._put_mark("restore messages", removal, mark)

    def duplicate(self, conversation: ConversationRecord, last: int = 0) -> int:
        """Ask for a copy, and for `duplicated`; returns the number it will carry. `last`: the message that ends it."""
        number = self._next_number()

        def work(store: Store) -> None:
            self._write(conversation.id, store)  # a copy of a part of it would be none
            self.duplicated.emit(number, store.duplicate(conversation, last))

        self._orders.put(Order("duplicate", work, failure=Failure.NOT_READ))
        return number

    def save_rounds(self, conversation: int, rounds: Sequence[tuple[RoundPlace, Round]]) -> None:
        """Keep rounds of a conversation; its messages are ordered to be saved before."""
        self._orders.put(self._rounds_order(conversation, tuple(rounds)))

    def list_rounds(self, conversation: int) -> None:
        """Ask for `rounds_listed`."""
        self._orders.put(
            Order(
                "list rounds",
                lambda store: self.rounds_listed.emit(conversation, store.rounds(conversation)),
                lambda _: self.rounds_listed.emit(conversation, []),
                failure=Failure.SILENT,
            )
        )

    def read_rounds(self, keys: Sequence[RoundKey]) -> int:
        """Ask for `rounds_read`; returns the number it will carry."""
        wanted, number = tuple(keys), self._next_number()
        self._orders.put(
            Order(
                "read rounds",
                lambda store: self.rounds_read.emit(number, list(zip(wanted, store.read_rounds(wanted), strict=True))),
                lambda _: self.rounds_read.emit(number, [(key, None) for key in wanted]),
                failure=Failure.SILENT,
            )
        )
        return number

    def read_times(self, conversation: int, message: int, length: int) -> None:
        """Ask for `times_read` of an answer of so many characters."""

        def work(store: Store) -> None:
            places = [each for each in store.rounds(conversation) if each.message == message]
            read = store.read_rounds([each.key for each in places])
            self.times_read.emit(message, times_of(list(zip(places, read, strict=True)), length))

        answer = partial(self.times_read.emit, message, None)
        self._orders.put(Order("read times", work, lambda _: answer(), failure=Failure.SILENT))

    def import_files(self, paths: Sequence[Path], beginning: GenerationSettings) -> int:
        """Bring in the conversations of files and folders; ask for `import_progressed` and `imported`.

        Both carry the number that is returned. `beginning`: the settings of a new conversation. Other orders come in
        between.
        """
        from app.chat.archive.exchange.importing import Importing  # noqa: PLC0415

        number, work = self._next_number(), Importing(tuple(paths), beginning)
        self._put_step(
            number,
            Steps(
                "import",
                work,
                lambda: self.import_progressed.emit(number, work.so_far),
                lambda: self.imported.emit(number, work.so_far, work.records),
                Failure.NOT_SAVED,
            ),
        )
        return number

    def export_all(self, conversations: Sequence[ConversationRecord], path: Path) -> int:
        """Write these with all their versions into one file; ask for `export_progressed` and `all_exported`.

        Both carry the number that is returned. Other orders come in between.
        """
        from app.chat.archive.exchange.exporting import Exporting  # noqa: PLC0415

        number, work = self._next_number(), Exporting(path, conversations, self._messages)
        self._put_step(
            number,
            Steps(
                "export all",
                work,
                lambda: self.export_progressed.emit(number, work.so_far),
                lambda: self.all_exported.emit(number, work.so_far),
                Failure.SILENT,
            ),
        )
        return number

    def stop_order(self, number: int) -> None:
        """End an import or an export; what was imported stays, and what was to be exported is not written."""
        self._stopped.add(number)

    @property
    def is_exchanging(self) -> bool:
        """Whether an import or an export is under way."""
        return bool(self._steps)

    @property
    def has_unsaved(self) -> bool:
        """Whether something could not be written, or is still to be."""
        return bool(self._kept_back or self._marks_back)

    def settle(self) -> tuple[int, str]:
        """Carry out what was ordered so far, and what failed before; waits for the disk, as the program's end does.

        Returns how many chats still cannot be written, and what went wrong last, in plain words.
        """
        if not self.isRunning():
            return 0, ""
        answers: SimpleQueue[tuple[int, str]] = SimpleQueue()

        def answer(_reason: str = "") -> None:
            answers.put((self._unsaved, self._last_failure))

        def work(store: Store) -> None:
            self._write_kept(store)
            answer()

        self._orders.put(Order("settle", work, answer, failure=Failure.SILENT))
        return answers.get()

    def save_copies(self, folder: Path) -> None:
        """Write chats that could not be written into files of a folder, unsent texts too; ask for `copies_saved`."""

        def messages(store: Store | None, conversation: int) -> list[MessageRecord]:
            """All of them, or where they cannot be read those that could not be written."""
            if store is not None:
                with suppress(*ERRORS):
                    return self._messages(store, conversation)
            return parents_first(self._kept_back[conversation][1].values())

        def copy(store: Store | None) -> None:
            from app.chat.archive.exchange.formats import write_copies  # noqa: PLC0415

            chats = [
                (record, conversation_of(record, messages(store, record.id))) for record, _ in self._kept_back.values()
            ]
            unsent = [each.unsent for each in self._marks_back.values()]
            self.copies_saved.emit(*write_copies(folder, chats, unsent))

        self._orders.put(Order("save copies", copy, lambda _: copy(None), failure=Failure.SILENT))

    def close(self) -> None:
        """Carry out what was ordered so far, then end the thread."""
        self._orders.put(None)

    def _next_number(self) -> int:
        self._latest_order += 1
        return self._latest_order

    def _put_write(self, name: str, conversation: int, keep: Callable[[], object]) -> None:
        self._orders.put(Order(name, partial(self._write_all, conversation), self._on_write_failed, keep))

    def _put_mark(self, name: str, key: int, mark: Mark) -> None:
        self._put_write(name, key, lambda: self._marks_back.update({key: mark}))

    def _put_step(self, number: int, steps: Steps) -> None:
        def answer(reason: str) -> None:
            steps.work.fail(reason)
            self._end_steps(number, steps)

        self._orders.put(Order(steps.name, partial(self._step, number, steps), answer, failure=steps.failure))

    def _rounds_order(self, conversation: int, rounds: Sequence[tuple[RoundPlace, Round]]) -> Order:
        keep = partial(self._keep_rounds, conversation, rounds)
        return Order("save rounds", partial(self._save_rounds, conversation), keep=keep, failure=Failure.SILENT)

    # ---- in the thread ----------------------------------------------------------------------------------------------

    @lasting("archive")
    def run(self) -> None:
        """Serve orders until `close`; what could not be written until then is tried once more."""
        while (order := self._orders.get()) is not None:
            self._carry_out(order)
        for conversation in {**self._kept_back, **self._marks_back}:
            self._carry_out(Order("write again", partial(self._write, conversation)))
        for conversation in list(self._rounds_back):
            self._carry_out(self._rounds_order(conversation, ()))
        for steps in self._steps.values():
            steps.work.stop()
        if self._store:
            attempt(self._store.close, lambda _error: None)

    def _carry_out(self, order: Order) -> None:
        """Whatever is raised, it is told, and the next order is served."""
        if order.keep is not None:
            order.keep()  # first: whatever happens now, nothing of it is lost
        try:
            store = self._opened_store()
            order.work(store)
            if self._is_list_wanted:  # asked for now, or earlier in vain
                self.listed.emit(store.conversations())
                self.unsent_listed.emit(*store.unsent_texts())
                self._is_list_wanted = False
        except (*ERRORS, OSError) as error:
            is_explained = getattr(error, "errno", None) == errno.ENAMETOOLONG
            _log.error("the order to %s could not be carried out: %s", order.name, error, exc_info=not is_explained)
            self._on_failed(order, error)
        except BaseException as error:  # noqa: BLE001  # a thread that ends would lose every later save
            report(error)
            self._on_failed(order, error)

    def _opened_store(self) -> Store:
        if self._store is None:
            self._store = Store(self._path)
            if self._store.set_aside:
                self.set_aside.emit(str(self._store.set_aside), self._store.reason, self._store.until)
        return self._store

    def _want_list(self, _store: Store) -> None:
        self._is_list_wanted = True

    def _keep_messages(self, conversation: ConversationRecord, messages: Sequence[MessageRecord]) -> None:
        _, before = self._kept_back.get(conversation.id, (conversation, {}))
        self._kept_back[conversation.id] = (conversation, before | {each.id: each for each in messages})

    def _keep_rounds(self, conversation: int, rounds: Sequence[tuple[RoundPlace, Round]]) -> None:
        """Of very many rounds the oldest are lost."""
        kept = [*self._rounds_back.get(conversation, ()), *rounds]
        self._rounds_back[conversation] = kept[-_MOST_ROUNDS_BACK:]

    def _save_rounds(self, conversation: int, store: Store) -> None:
        """With those that could not be written before."""
        packed = []
        for place, each in self._rounds_back.get(conversation, ()):
            if content := attempt(partial(pack, each), lambda _error: b""):  # one that cannot be packed never will be
                packed.append((place, content))
        store.save_rounds(conversation, packed)
        self._rounds_back.pop(conversation, None)

    def _step(self, number: int, steps: Steps, store: Store) -> None:
        """A step; the next one waits behind what was ordered meanwhile."""
        self._steps[number] = steps
        if number in self._stopped:
            steps.work.stop()
        else:
            steps.work.step(store)
        if steps.work.is_over:
            self._end_steps(number, steps)
        else:
            steps.tell_progress()
            self._put_step(number, steps)

    def _end_steps(self, number: int, steps: Steps) -> None:
        self._steps.pop(number, None)
        self._stopped.discard(number)
        steps.tell_end()

    def _messages(self, store: Store, conversation: int) -> list[MessageRecord]:
        """All of its messages, those too that could not be written yet."""
        _, kept_back = self._kept_back.get(conversation, (None, {}))
        found = {each.id: each for each in store.messages(conversation)}
        return parents_first([*(found | kept_back).values()])

    def _write(self, conversation: int, store: Store) -> None:
        """What is kept of it, also from before, so that nothing newer is overwritten; it is kept until it is there."""
        if kept := self._kept_back.get(conversation):
            record, messages = kept
            store.save(record, tuple(messages.values()))
            del self._kept_back[conversation]
        if mark := self._marks_back.get(conversation):
            mark.write(store)
            del self._marks_back[conversation]

    def _write_all(self, conversation: int, store: Store) -> None:
        """Write a conversation, and try again what failed before.

        That failure was told when it came first, and must not stop what goes well now.
        """
        self._write(conversation, store)
        self._write_kept(store)

    @property
    def _unsaved(self) -> int:
        """How many chats something is kept back of."""
        return len(self._kept_back.keys() | {each.conversation for each in self._marks_back.values()})

    def _write_kept(self, store: Store) -> None:
        for other in {**self._kept_back, **self._marks_back}:
            try:
                self._write(other, store)
            except BaseException as error:  # noqa: BLE001  # whatever it is, it was reported when it came first
                _log.debug("A conversation still cannot be written: %r", error)
        if self._has_failed and not (self._kept_back or self._marks_back):
            self._has_failed = False
            self.write_recovered.emit()

    def _on_write_failed(self, _reason: str) -> None:
        self._has_failed = True

    def _on_failed(self, order: Order, error: BaseException) -> None:
        """Report the failure, and give every order that waits for an answer an empty one."""
        reason = reason_text(error)
        if isinstance(error, MemoryError) and not str(error):
            reason = tr("there is not enough memory")
        if _FULL in reason or getattr(error, "errno", None) == errno.ENOSPC:
            reason = tr("the disk is full")
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            reason = tr("the path of its folder is too long")
        self._is_list_wanted = self._is_list_wanted or self._store is None
        if order.answer is not None:
            order.answer(reason)
        if order.failure is not Failure.SILENT:
            self._last_failure = self._words_of(order.failure, reason)
            self.write_failed.emit(self._last_failure)

    def _words_of(self, failure: Failure, reason: str) -> str:
        if failure is Failure.NOT_READ and self._store is not None:
            told = tr("Conversations cannot be read from {file}: {reason}.")
            return f"{told.format(file=self._path.name, reason=reason)} {tr('Try it again; the log tells more.')}"
        told = tr("Conversations cannot be saved in {file}: {reason}.").format(file=self._path.name, reason=reason)
        hints = {
            tr("the disk is full"): tr("Free some space; it is tried again."),
            tr("the path of its folder is too long"): tr("Start Coppice with a folder of a shorter path (--data-dir)."),
        }
        return f"{told} {hints.get(reason) or tr('It is tried again with the next change.')}"
