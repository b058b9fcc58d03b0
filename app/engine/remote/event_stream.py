"""Server-sent events as they arrive, within limits (WHATWG HTML, "Server-sent events")."""

from collections.abc import Iterator
from dataclasses import dataclass

COMMENT = ":"
"""The name of comments, which keep a connection alive and may say why; no event can be called so."""

LONGEST_BYTES = 16 << 20  # of one event: a round over the largest tree has about 2 MB


class TooLongError(ValueError):
    """One event has no end."""


@dataclass(frozen=True, slots=True)
class SentEvent:
    """`name` is empty for those without one."""

    name: str
    data: bytes


class EventStream:
    """Cuts bytes into events; comments are some too."""

    def __init__(self, longest: int = LONGEST_BYTES) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._searched = 0
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def push(self, arrived: bytes) -> Iterator[SentEvent]:
        """The events that are whole now. Raises `TooLongError` for one that is longer than allowed."""
        self._rest += arrived
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            event = self._take(bytes(self._rest[begin:end]).removesuffix(b"\r"))
            begin = end + 1
            if event:
                yield event
        del self._rest[:begin]
        self._searched = len(self._rest)
        if self._size + len(self._rest) > self._longest:
            raise TooLongError

    def flush(self) -> SentEvent | None:
        """The end of the stream: an event that no empty line follows, if there is one."""
        comment = self._take(bytes(self._rest))
        self._rest.clear()
        return self._take(b"") or comment

    def _take(self, line: bytes) -> SentEvent | None:
        if not line:
            event = SentEvent(self._name, b"\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not field:
            return SentEvent(COMMENT, value)
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1  # with the end of the line: empty ones take memory too
        elif field == b"event":
            self._name = value[:100].decode("utf-8", "replace")
        return None
