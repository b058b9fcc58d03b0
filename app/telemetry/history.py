"""The figures of the newest rounds, in columns; bounded, and contiguous whenever somebody looks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.telemetry.acceptance import Acceptance, count_acceptance
from app.telemetry.shape import shape_of
from engine.protocol.messages import Round, Seconds

CAPACITY = 10_000

PARTS = ("draft", "hidden_draft", "stream_wait", "compute", "other")
"""Where the time of a round goes: seconds that add up to its `seconds`."""

ROW = np.dtype(
    [
        ("begin", "f8"),  # seconds of answering before this round, reading the questions included
        ("seconds", "f8"),
        ("tokens", "f8"),
        ("nodes", "f8"),
        ("depth", "f8"),
        ("accepted", "f8"),
        ("bytes", "f8"),
        *((part, "f8") for part in PARTS),
        ("request", "i8"),
        ("index", "i8"),
    ]
)

Rows = NDArray[Any]


class History:
    """Rounds are numbered from 0 in the order they came; the oldest are forgotten beyond `CAPACITY`."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._rows = np.zeros(2 * capacity, ROW)
        self._end = 0  # of the rows in use; once all are, the newest half moves to the front
        self.clear()

    @property
    def rows(self) -> Rows:
        """The rounds that are kept, oldest first, [rounds] of `ROW`; a view that the next `add` may change."""
        return self._rows[max(0, self._end - self.capacity) : self._end]

    @property
    def first(self) -> int:
        """The number of the oldest round that is kept."""
        return self.count - len(self.rows)

    @property
    def seconds(self) -> float:
        """Of answering, reading the questions included, up to now."""
        return self._seconds

    def clear(self) -> None:
        """Forget everything."""
        self._end = 0
        self._seconds = 0.0
        self.count = 0
        self.acceptance = Acceptance()

    def wait(self, seconds: float) -> None:
        """Time passed without a round: a question was read."""
        self._seconds += seconds

    def put_before(self, older: "History") -> None:
        """Take rounds that ran before all of these; for those that there is no room for only their counts are kept."""
        newer = self.rows.copy()
        newer["begin"] += older.seconds
        rows = np.concatenate((older.rows, newer))[-self.capacity :]
        self._end = len(rows)
        self._rows[: self._end] = rows
        self._seconds += older.seconds
        self.count += older.count
        self.acceptance = older.acceptance + self.acceptance

    def add(self, round: Round) -> None:
        """Take a round. Raises `ValueError`, and changes nothing, if its tree is damaged."""
        shape = shape_of(round)
        path = np.asarray(round.accepted, np.int32)
        counts = count_acceptance(shape, path)
        if self._end == len(self._rows):
            self._rows[: self.capacity] = self._rows[self.capacity :]
            self._end = self.capacity
        row = self._rows[self._end]
        row["begin"], row["seconds"] = self._seconds, round.seconds.decode
        row["tokens"], row["nodes"], row["depth"] = round.new_tokens, len(shape.parents) - 1, shape.depths.max()
        row["accepted"], row["bytes"] = len(path) - 1, round.bytes_streamed
        for part, seconds in zip(PARTS, split(round.seconds), strict=True):
            row[part] = seconds
        row["request"], row["index"] = round.id, round.index
        self._end += 1
        self.count += 1
        self._seconds += round.seconds.decode
        self.acceptance += counts


def split(spent: Seconds) -> tuple[float, ...]:
    """`PARTS` of a round; parts that clocks made too long are cut, so that all add up to its time."""
    left, found = spent.decode, []
    wait = min(spent.stream_wait, spent.target)
    hidden = min(spent.hidden_draft, spent.target - wait)
    for part in (spent.draft, hidden, wait, spent.target - wait - hidden):
        found.append(min(max(part, 0.0), left))
        left -= found[-1]
    return (*found, max(left, 0.0))
