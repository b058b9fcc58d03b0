"""The figures of the newest rounds, in columns; and how those of a stored conversation are read back."""

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.round_packing import DamagedRoundError, unpack
from app.telemetry.figures.acceptance import Acceptance, count_acceptance, shape_of
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

    def clear(self) -> None:
        """Forget everything."""
        self._end = 0
        self.seconds = 0.0  # of answering, reading the questions included, up to now
        self.count = 0
        self.acceptance = Acceptance()

    def wait(self, seconds: float) -> None:
        """Time passed without a round: a question was read."""
        self.seconds += seconds

    def put_before(self, older: "History") -> None:
        """Take rounds that ran before all of these; for those that there is no room for only their counts are kept."""
        newer = self.rows.copy()
        newer["begin"] += older.seconds
        rows = np.concatenate((older.rows, newer))[-self.capacity :]
        self._end = len(rows)
        self._rows[: self._end] = rows
        self.seconds += older.seconds
        self.count += older.count
        self.acceptance = older.acceptance + self.acceptance

    def add(self, round: Round) -> None:
        """Take a round. Raises `ValueError`, and changes nothing, if its tree is damaged."""
        shape = shape_of(round)
        path = np.asarray(round.accepted, np.int32)
        counts = count_acceptance(shape, path)
        row = self._new_row()
        row["begin"], row["seconds"] = self.seconds, round.seconds.decode
        row["tokens"], row["nodes"], row["depth"] = round.new_tokens, len(shape.parents) - 1, shape.depths.max()
        row["accepted"], row["bytes"] = len(path) - 1, round.bytes_streamed
        for part, seconds in zip(PARTS, split(round.seconds), strict=True):
            row[part] = seconds
        row["request"], row["index"] = round.id, round.index
        self.seconds += round.seconds.decode
        self.acceptance += counts

    def add_arrival(self, request: int, tokens: int, seconds: float) -> None:
        """Take tokens that came without a round, so long after those before them; all other figures are 0."""
        row = self._new_row()
        self._rows[self._end - 1] = np.zeros((), ROW)
        row["begin"], row["seconds"], row["tokens"] = self.seconds, seconds, tokens
        row["request"], row["index"] = request, self.count - 1
        self.seconds += seconds

    def _new_row(self) -> Any:
        """The next row, which has values of before; once there is no room, the newest half moves to the front."""
        if self._end == len(self._rows):
            self._rows[: self.capacity] = self._rows[self.capacity :]
            self._end = self.capacity
        self._end += 1
        self.count += 1
        return self._rows[self._end - 1]


def split(spent: Seconds) -> tuple[float, ...]:
    """`PARTS` of a round; parts that clocks made too long are cut, so that all add up to its time."""
    left, found = spent.decode, []
    wait = min(spent.stream_wait, spent.target)
    hidden = min(spent.hidden_draft, spent.target - wait)
    for part in (spent.draft, hidden, wait, spent.target - wait - hidden):
        found.append(min(max(part, 0.0), left))
        left -= found[-1]
    return (*found, max(left, 0.0))


_log = logging.getLogger(__name__)

Key = tuple[int, int]
"""A round's request and its number in it."""

_PORTION = 100  # rounds that are read and put before the others together
_SLICE_SECONDS = 0.006  # of a turn of the event loop
_PAUSE_MS = 6  # between two of them


class Restoring(QObject):
    """Reads nothing while the charts are hidden. Times of reading questions are not kept."""

    wanted = Signal(list)
    """Keys of rounds that are to be brought."""

    restored = Signal(int, float)
    """So many older rounds stand in the history now, before those that were there, and they took so many seconds."""

    def __init__(self, history: History, parent: QObject) -> None:
        super().__init__(parent)
        self._history = history
        self._is_wanted = False
        self._timer = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._timer.timeout.connect(self._on_timeout)
        self.clear()

    @property
    def left(self) -> int:
        """Rounds that are still to be read."""
        return len(self._keys) + len(self._asked)

    def clear(self) -> None:
        """Another conversation is shown: nothing of this one is wanted any more."""
        self._timer.stop()
        self._keys: list[Key] = []  # oldest first
        self._asked: list[Key] = []
        self._brought: deque[tuple[Key, bytes]] = deque()
        self._older = History(_PORTION)

    def begin(self, keys: Sequence[Key]) -> None:
        """The conversation has these rounds, oldest first."""
        self.clear()
        self._keys = list(keys[-self._history.capacity :])
        self._ask()

    def set_wanted(self, is_wanted: bool) -> None:
        """Whether the charts are shown."""
        self._is_wanted = is_wanted
        self._ask()

    def take(self, brought: Sequence[tuple[Key, bytes | None]]) -> None:
        """Rounds that were wanted; None for those that are lost."""
        if self._asked and [key for key, _ in brought] == self._asked and not self._brought:
            self._brought.extend((key, packed) for key, packed in brought if packed is not None)
            self._timer.start()

    def _ask(self) -> None:
        if self._is_wanted and self._keys and not self._asked:
            self._asked = self._keys[-_PORTION:]
            del self._keys[-_PORTION:]
            self._older = History(_PORTION)
            self.wanted.emit(self._asked)

    def _on_timeout(self) -> None:
        end = time.perf_counter() + _SLICE_SECONDS
        while self._brought and time.perf_counter() < end:
            key, packed = self._brought.popleft()
            try:
                self._older.add(unpack(packed, key[0]))
            except (DamagedRoundError, ValueError) as error:
                _log.warning("Round %d has no figures: %s", key[1], error)
        if self._brought:
            self._timer.start()
            return
        self._history.put_before(self._older)
        self._asked = []
        self.restored.emit(self._older.count, self._older.seconds)
        self._ask()
