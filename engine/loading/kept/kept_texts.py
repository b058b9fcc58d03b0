"""Keeps in RAM what a pair has read of other texts: clients that take turns do not pay for each other's prompts.

A context holds one text. Before it reads another one, what would be lost is copied to host memory, and what was kept of
the new text is brought back, where a copy is cheaper than reading again. Clients of the server never find what was read
for a window: how soon they are answered, and how many tokens were known, would tell them of its chats. Compare the host
cache of SGLang's HiCache (LMSYS, 2025): here a whole text is the unit, as one engine answers one request at a time.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from engine.errors import Cancelled
from engine.loading.kept.texts_on_disk import TextsOnDisk
from engine.model.context import same_tokens
from engine.model.passes.kept_text import KeptText
from engine.protocol.keeping import SERVED
from engine.weights.planning.machine import memory_now
from engine.weights.planning.placement import Plan

SHARE = 1 / 4  # of the RAM that a plan leaves free: the rest is for whatever else is begun on this machine
MOST_TEXTS = 64  # more are not worth the search among them
LEAST_TOKENS = 64  # fewer are read again in one short pass
COPIES_PER_READ = 16  # a token is copied at least so many times faster than it is read, in RAM and over any link


class TextHolder(Protocol):
    """Reads one text at a time; `engine.model.context.Context` is one."""

    tokens: list[int]

    def common(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` it would not have to read."""

    def common_with(self, kept: KeptText, tokens: Sequence[int]) -> int:
        """The same with `kept` in place of what it holds."""

    @property
    def text_bytes(self) -> int:
        """What `copied_text` takes."""

    def copied_text(self) -> KeptText:
        """All that it holds."""

    def text_in_place(self) -> KeptText:
        """The same where it lies, until it reads on."""

    def rewind(self, length: int) -> None:
        """Hold no more than so many tokens."""

    def restore(self, kept: KeptText, length: int) -> None:
        """Hold the first `length` tokens of `kept`."""


@dataclass(slots=True, eq=False)
class _Entry:
    """`turn`: of the answer that it was last of use to; `conversation`: which that belonged to."""

    holder: TextHolder
    text: KeptText
    turn: int
    conversation: str


class KeptTexts:
    """Texts of a target and its drafts within one bound of bytes. What was not asked for longest goes first."""

    def __init__(
        self,
        most_bytes: int,
        free_bytes: Callable[[], int] = lambda: 1 << 62,
        on_disk: TextsOnDisk | None = None,
    ) -> None:
        """`free_bytes`: what may be taken of RAM now, beside what is taken; less than 0 where it runs short.

        `on_disk`: keeps them in files too, where there is one; see `rest`.
        """
        self.most_bytes = most_bytes
        self.on_disk = on_disk
        self._free_bytes = free_bytes
        self._entries: list[_Entry] = []  # in the order of keeping
        self._turn = 0
        self._conversation = ""
        self._read_for: dict[TextHolder, str] = {}  # the conversation that its present text belongs to
        self._orders: SimpleQueue[Collection[str]] = SimpleQueue()
        self._forgotten: set[str] = set()  # since somebody waits: what is asked for them still may have waited, too

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """What all texts take."""
        return sum(entry.text.nbytes for entry in self._entries)

    def begin(self, conversation: str = "") -> None:
        """An answer begins: give memory back that others need by now. `conversation`: what it belongs to."""
        self._turn += 1
        self._obey()
        self._conversation = "" if conversation in self._forgotten else conversation
        if self._entries:
            self._shrink(self._bound())

    def clear(self) -> bool:
        """Give all memory back; whether there was any."""
        had = bool(self._entries)
        self._entries.clear()
        return had

    def forget(self, conversations: Collection[str]) -> None:
        """Drop what was read for these, for all where none is named, before anything else is done; from any thread."""
        self._orders.put(conversations)

    def exchange(self, holder: TextHolder, tokens: Sequence[int]) -> None:
        """Before `holder` reads `tokens`: keep what it would forget, and bring back what it knew of them once."""
        try:
            if self.most_bytes:
                self._exchange_in_ram(holder, tokens)
            self._take_over(holder)
            if self.on_disk:
                self.on_disk.bring(holder, tokens, self._conversation)
        except Cancelled:
            raise  # it reads no further: what it holds belongs to whom it did
        except BaseException:
            self._take_over(holder)
            raise

    def rest(self, check: Callable[[], None]) -> bool:
        """Nobody asks: keep in files what belongs to conversations; whether there was something new.

        `check` is called often, and may raise to end it; then nothing half written is left. Raises `Cancelled` where
        something is to be forgotten meanwhile.
        """

        def go_on() -> None:
            check()
            if not self._orders.empty():
                raise Cancelled

        self._obey()
        self._forgotten.clear()
        try:
            return self.on_disk is not None and self._write(self.on_disk, go_on)
        finally:
            self._obey()  # at once, as this may end for good before it rests again

    def _write(self, on_disk: TextsOnDisk, go_on: Callable[[], None]) -> bool:
        """Keep in files what belongs to conversations; whether there was something new."""
        has_written = False
        for holder, conversation in self._read_for.items():
            go_on()
            if conversation:
                has_written |= on_disk.keep(holder, holder.text_in_place(), conversation, go_on)
        for entry in self._entries:
            go_on()
            has_written |= on_disk.keep(entry.holder, entry.text, entry.conversation, go_on)
        return has_written

    def _obey(self) -> None:
        """Forget what is to be forgotten."""
        while True:
            try:
                conversations = self._orders.get_nowait()
            except Empty:
                return
            self._forgotten.update(conversations)
            for holder, conversation in self._read_for.items():
                if not conversations or conversation in conversations:
                    self._read_for[holder] = ""
            self._entries = [e for e in self._entries if conversations and e.conversation not in conversations]
            if self.on_disk:
                self.on_disk.forget(conversations)  # what was being written when this was ordered

    def _exchange_in_ram(self, holder: TextHolder, tokens: Sequence[int]) -> None:
        goes_on = self._may_go_on(holder)
        held = holder.common(tokens) if goes_on else 0
        found = self._longest(holder, tokens) if len(tokens) - held >= LEAST_TOKENS else None
        length = holder.common_with(found.text, tokens) if found else 0
        if found and _pays(length - held, length):
            found.turn = self._turn  # it stays until it is brought back
        else:
            found = None
        stays = same_tokens(holder.tokens, tokens) if goes_on else 0
        if _pays(len(holder.tokens) - stays, len(holder.tokens)):
            self._keep(holder)
        self._take_over(holder)
        if found:
            holder.restore(found.text, length)
            self._entries.remove(found)

    def _may_go_on(self, holder: TextHolder) -> bool:
        """Whether what it holds may be known in the present conversation."""
        return _is_open(self._conversation, self._read_for.get(holder, self._conversation))

    def _take_over(self, holder: TextHolder) -> None:
        """What it holds, and reads from now on, belongs to the present conversation."""
        if not self._may_go_on(holder):
            holder.rewind(0)
        self._read_for[holder] = self._conversation

    def _longest(self, holder: TextHolder, tokens: Sequence[int]) -> _Entry | None:
        of_holder = (entry for entry in self._entries if entry.holder is holder)
        own = (entry for entry in of_holder if _is_open(self._conversation, entry.conversation))
        return max(own, key=lambda entry: holder.common_with(entry.text, tokens), default=None)

    def _keep(self, holder: TextHolder) -> None:
        """Copy what it holds, if there is room, and no text that is kept has it already."""
        tokens, conversation = tuple(holder.tokens), self._read_for.get(holder, "")
        for entry in [each for each in self._entries if each.holder is holder]:
            if (entry.conversation == SERVED) != (conversation == SERVED):
                continue
            same = same_tokens(entry.text.tokens, tokens)
            if same == len(tokens):
                entry.turn = self._turn
                return
            if same == len(entry.text.tokens) and entry.turn < self._turn:
                self._entries.remove(entry)  # a part of this one
        if self._has_room(holder.text_bytes):
            self._entries.append(_Entry(holder, holder.copied_text(), self._turn, conversation))

    def _has_room(self, new: int) -> bool:
        """Whether `new` bytes fit, once older texts have made way for them; else all stay."""
        bound, staying = self._bound(), sum(entry.text.nbytes for entry in self._of_this_turn())
        if staying + new > bound:
            return False
        self._shrink(bound - new)
        if len(self._entries) >= MOST_TEXTS:
            self._entries.remove(self._first_to_go())
        return True

    def _bound(self) -> int:
        return min(self.most_bytes, self.nbytes + self._free_bytes())

    def _shrink(self, most: int) -> None:
        while self._entries and self.nbytes > most:
            self._entries.remove(self._first_to_go())

    def _first_to_go(self) -> _Entry:
        """The one kept last of the oldest turn: a draft's, if there is one, which is read again sooner."""
        oldest = min(entry.turn for entry in self._entries)
        return next(entry for entry in reversed(self._entries) if entry.turn == oldest)

    def _of_this_turn(self) -> list[_Entry]:
        return [entry for entry in self._entries if entry.turn == self._turn]


def texts_of(plan: Plan, device: str) -> KeptTexts:
    """As much as there is room for beside what is planned; none where that is all of the memory."""
    room, taken = plan.room, plan.bytes

    def free_bytes() -> int:
        memory = memory_now(device)
        return memory.ram_free - memory.ram_reserve

    return KeptTexts(max(0, int(SHARE * (room.ram - room.ram_taken(taken.device, taken.ram)))), free_bytes)


def _pays(tokens: int, copied: int) -> bool:
    """Whether not reading so many tokens is worth a copy of so many."""
    return tokens >= LEAST_TOKENS and tokens * COPIES_PER_READ >= copied


def _is_open(to: str, conversation: str) -> bool:
    """Whether what was read for one conversation may be used in another: what clients can time is theirs alone."""
    return to != SERVED or conversation == SERVED
