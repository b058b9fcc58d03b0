"""Writes many conversations into one file in small steps, so that other orders are served in between."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.chat.archive.conversion import conversation_of
from app.chat.archive.exchange.whole_chat import written_parts
from app.chat.archive.store import Store
from app.chat.archive.text_index import ERRORS
from app.chat.history.records import ConversationRecord, MessageRecord
from app.i18n.sentences import reason_text
from app.system.files import chosen_replacement
from engine.files import Replacement

_STEP_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Exported:
    """What has become of an export so far: `count` of `total` conversations are written.

    `unread` are the titles of those that could not be read, and `why_unread` the first reason. With a `reason` there is
    no file.
    """

    path: Path
    total: int
    count: int = 0
    unread: tuple[str, ...] = ()
    why_unread: str = ""
    reason: str = ""
    is_stopped: bool = False


class Exporting:
    """One export: a list of whole chats. Whatever was at its place stays until all of them are written."""

    def __init__(
        self,
        path: Path,
        records: Sequence[ConversationRecord],
        messages: Callable[[Store, int], Sequence[MessageRecord]],
    ) -> None:
        """`messages`: all those of a conversation."""
        self._waiting = deque(records)
        self._messages = messages
        self._file: Replacement | None = None
        self.so_far = Exported(path, len(records))
        self.is_over = False

    def step(self, store: Store) -> None:
        """Write some more; where the place cannot be written to, `so_far` says why."""
        try:
            self._write_some(store)
        except OSError as error:
            self.fail(reason_text(error))

    def stop(self) -> None:
        """Write no more, and leave what was at the place."""
        self._end(replace(self.so_far, is_stopped=True))

    def fail(self, reason: str) -> None:
        """The same, for this reason."""
        self._end(replace(self.so_far, reason=reason))

    def _write_some(self, store: Store) -> None:
        until = time.monotonic() + _STEP_SECONDS
        if self._file is None:
            self._file = chosen_replacement(self.so_far.path)
        while self._waiting:
            self._write(store, self._file, self._waiting.popleft())
            if time.monotonic() >= until:
                break
        if not self._waiting:
            if self.so_far.count:
                self._file.write(b"\n]\n")
                self._file.commit()
                self._end(self.so_far)
            else:
                self.fail(self.so_far.why_unread)

    def _write(self, store: Store, file: Replacement, record: ConversationRecord) -> None:
        try:
            messages = self._messages(store, record.id)
        except ERRORS as error:
            unread = (*self.so_far.unread, record.shown_title)
            self.so_far = replace(self.so_far, unread=unread, why_unread=self.so_far.why_unread or str(error))
            return
        begin = "[\n" if not self.so_far.count else ",\n"
        for part in written_parts(record, conversation_of(record, messages)):
            file.write((begin + part).encode("utf-8", "replace"))
            begin = ",\n"
        self.so_far = replace(self.so_far, count=self.so_far.count + 1)

    def _end(self, result: Exported) -> None:
        """What is not in its place by now is left out."""
        self.so_far, self.is_over = result, True
        self._waiting.clear()
        if self._file is not None:
            self._file.discard()
