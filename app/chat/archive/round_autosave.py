"""Saves the rounds of answers with their conversation, and loads them again with the text that they gave."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from app.chat.archive.autosave import Autosave
from app.chat.archive.worker import Archive
from app.chat.generation.controller import ChatController
from app.chat.history.conversation import Conversation
from app.chat.history.records import RoundKey, RoundPlace, new_id
from app.chat.history.token_origins import TokenOrigins
from app.chat.typesetting.layout_cost import Budget
from engine.protocol.messages import Round

Run = tuple[int, int]
"""A message, and which of the requests that wrote on it."""

_SLICE_SECONDS = 0.010  # of looking through what is listed, between two turns of the event loop
_AT_ONCE = 250  # rounds, between two looks at the clock


class RoundAutosave(QObject):
    """Maps requests to stored runs: rounds of this session have their request's id, loaded ones get ids below 0."""

    listed = Signal(list)  # of (request, number), all that are kept of the conversation that is shown, oldest first
    origins_found = Signal(object)  # dict: id of a message -> TokenOrigins
    brought = Signal(list)  # of ((request, number), bytes or None)
    figures_brought = Signal(list)  # the same, for those who want their figures only

    def __init__(
        self, chat: ChatController, archive: Archive, autosave: Autosave, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._chat = chat
        self._archive = archive
        self._runs: dict[int, Run] = {}  # by request
        self._requests: dict[Run, int] = {}
        self._next = -2  # for a run of another day; -1 stands for no request elsewhere
        self._origins: dict[int, TokenOrigins] = {}
        self._readers: dict[int, SignalInstance] = {}  # who gets what was ordered to be read, by the order
        self._new: list[tuple[RoundPlace, Round]] = []
        self._listing: Iterator[None] = iter(())
        self._turn = QTimer(self, singleShot=True, interval=0)
        self._turn.timeout.connect(self._list_on)
        self._conversation = chat.conversation.id  # of those that are new
        chat.rounds_arrived.connect(self._on_rounds_arrived)
        chat.conversation_replaced.connect(self._on_replaced)
        autosave.saved.connect(self._save)
        archive.rounds_listed.connect(self._on_listed)
        archive.rounds_read.connect(self._on_read)

    def bring(self, keys: Sequence[tuple[int, int]]) -> None:
        """Read these rounds from the file; `brought` tells of them."""
        self._read(keys, self.brought)

    def bring_figures(self, keys: Sequence[tuple[int, int]]) -> None:
        """The same, and `figures_brought` tells of them."""
        self._read(keys, self.figures_brought)

    def _read(self, keys: Sequence[tuple[int, int]], reader: SignalInstance) -> None:
        order = self._archive.read_rounds([(*self._runs[request], number) for request, number in keys])
        self._readers[order] = reader

    def _on_rounds_arrived(self, rounds: list[Round]) -> None:
        answer = self._chat.conversation.last_answer
        assert answer is not None, "rounds come for an answer"
        origins = self._origins.setdefault(answer.id, TokenOrigins(len(answer.text)))
        for each in rounds:
            if each.id not in self._runs:
                self._know(each.id, (answer.id, new_id()))
            begin = origins.end
            origins.add(each)
            message, run = self._runs[each.id]
            self._new.append((RoundPlace(message, run, each.index, begin, origins.bonus, origins.end), each))

    def _save(self) -> None:
        if self._new:
            self._archive.save_rounds(self._conversation, self._new)
            self._new = []

    def _on_replaced(self, conversation: Conversation) -> None:
        self._save()
        self._origins.clear()
        self._listing = iter(())
        self._conversation = conversation.id
        if not conversation.is_empty:
            self._archive.list_rounds(conversation.id)

    def _on_listed(self, conversation: int, places: list[RoundPlace]) -> None:
        if conversation == self._chat.conversation.id and places:
            self._listing = self._list(places)
            self._list_on()

    def _list_on(self) -> None:
        """A long chat has tens of thousands of rounds."""
        budget = Budget(_SLICE_SECONDS)
        for _ in self._listing:
            if budget.is_spent:
                self._turn.start()
                return

    def _list(self, places: list[RoundPlace]) -> Iterator[None]:
        """Tell of them at the end; yields now and then."""
        found: dict[int, TokenOrigins] = {}
        for count, each in enumerate(places, 1):
            if (each.message, each.run) not in self._requests:
                self._know(self._next, (each.message, each.run))
                self._next -= 1
            request = self._requests[each.message, each.run]
            if each.message not in found:
                found[each.message] = TokenOrigins(each.begin)
            found[each.message].extend(request, each.number, each.bonus, each.end)
            if not count % _AT_ONCE:
                yield
        for message, origins in found.items():
            self._origins.setdefault(message, origins.copy())
        yield
        self.origins_found.emit(found)
        yield
        self.listed.emit([(self._requests[each.message, each.run], each.number) for each in places])

    def _on_read(self, order: int, read: list[tuple[RoundKey, bytes | None]]) -> None:
        if reader := self._readers.pop(order, None):  # else another window has asked
            reader.emit([((self._requests[message, run], number), packed) for (message, run, number), packed in read])

    def _know(self, request: int, run: Run) -> None:
        self._runs[request] = run
        self._requests[run] = request
