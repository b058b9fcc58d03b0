"""A few numbers of every round, in memory also when the round itself is not: what the ribbon of an answer shows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.tree.rounds.snapshot import ends_with_a_guess
from engine.protocol.messages import Round

UNKNOWN, KNOWN, LOST = range(3)
"""The states of a row: a round that was not read yet, one that was, one that is not kept any more."""

ROW = np.dtype(
    [
        ("request", "i8"),
        ("index", "i4"),
        ("tokens", "i4"),  # that the answer grew by
        ("accepted", "i4"),  # of these the draft's
        ("nodes", "i4"),
        ("budget", "i4"),  # what the tree was allowed; its nodes where nothing is said of that
        ("seconds", "f4"),
        ("method", "u1"),  # a place in `Figures.methods`
        ("state", "u1"),
    ]
)

Rows = NDArray[Any]

_FIRST_ROOM = 256  # rows
_TOKEN_BYTES = 4
_MOST_METHODS = 255
_LARGEST, _LARGEST_ID = 2**31 - 1, 2**63 - 1  # recordings come from anywhere, and may have any numbers
_LONGEST_SECONDS = 1e9


class Figures:
    """A row a round, in the order of the rounds: 34 bytes each. `version` changes whenever a row does."""

    def __init__(self) -> None:
        self.version = 0
        self.methods: list[str] = [""]
        self._rows = np.zeros(_FIRST_ROOM, ROW)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Rows:
        """[rounds] of `ROW`, a view that the next change may replace."""
        return self._rows[: self._count]

    def append(self, newest: Round) -> None:
        """A round behind all others."""
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.zeros_like(self._rows)))
        self._count += 1
        self._write(self._count - 1, newest)

    def put_before(self, keys: Sequence[tuple[int, int]]) -> None:
        """Rounds before all others of which only request and number are known."""
        older = np.zeros(len(keys), ROW)
        if keys:
            older["request"], older["index"] = np.array(keys, np.int64).T
        self._rows = np.concatenate((older, self._rows))
        self._count += len(keys)
        self.version += 1

    def learn(self, place: int, of: Round) -> None:
        """The round at this place was read."""
        if self._rows[place]["state"] != KNOWN:
            self._write(place, of)

    def lose(self, place: int) -> None:
        """The round at this place cannot be read any more; what is known of it stays."""
        if self._rows[place]["state"] == UNKNOWN:
            self._rows[place]["state"] = LOST
            self.version += 1

    def clear(self) -> None:
        """Forget everything."""
        self._count = 0
        self.version += 1

    def _write(self, place: int, of: Round) -> None:
        nodes = len(of.tree.tokens) // _TOKEN_BYTES - 1
        row = self._rows[place]
        row["request"] = min(max(of.id, -_LARGEST_ID), _LARGEST_ID)
        row["index"], row["tokens"], row["nodes"] = _count(of.index), _count(of.new_tokens), _count(nodes)
        row["accepted"] = _count(min(len(of.accepted) - 1 + ends_with_a_guess(of), of.new_tokens))
        row["budget"] = _count(of.budget or nodes)
        row["seconds"] = min(of.seconds.decode, _LONGEST_SECONDS) if of.seconds.decode > 0 else 0.0
        row["method"], row["state"] = self._method(of.method), KNOWN
        self.version += 1

    def _method(self, name: str) -> int:
        """There are about ten; a recording that has made up hundreds of them loses the names of some."""
        if name not in self.methods:
            if len(self.methods) >= _MOST_METHODS:
                return 0
            self.methods.append(name)
        return self.methods.index(name)


def _count(value: int) -> int:
    return min(max(value, 0), _LARGEST)
