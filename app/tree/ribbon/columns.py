"""The columns of the ribbon: one for each round, or for as many rounds as share a place on the screen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.tree.rounds.figures import KNOWN, UNKNOWN, Rows

WIDEST = 14
"""Logical pixels: a few rounds stand side by side at the beginning, and do not fill the line."""

_NARROWEST = 2


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rounds `places[i]` to `places[i + 1] - 1` stand between `edges[i]` and `edges[i + 1]` logical pixels.

    `tokens`, `accepted`, `budget` and `seconds` [columns] are means over the rounds that are known, 0 where none is;
    `most` is the most tokens of one round. `begins`: an answer begins in this column; `answers`: the number of the
    answer that its first round is from, from 0. `is_known` and `is_unread` tell whether any round is, or none yet.
    """

    places: NDArray[np.intp]
    edges: NDArray[np.intp]
    tokens: NDArray[np.float64]
    accepted: NDArray[np.float64]
    budget: NDArray[np.float64]
    seconds: NDArray[np.float64]
    most: NDArray[np.int32]
    begins: NDArray[np.bool_]
    answers: NDArray[np.intp]
    is_known: NDArray[np.bool_]
    is_unread: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def is_merged(self) -> bool:
        """Whether some columns stand for several rounds."""
        return len(self) < int(self.places[-1])

    def column_of(self, place: int) -> int:
        """The column of a round."""
        return int(np.clip(np.searchsorted(self.places, place, side="right") - 1, 0, len(self) - 1))

    def column_at(self, x: float) -> int:
        """The column nearest to a place on the screen, from the left edge of the first."""
        return int(np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self) - 1))

    def place_at(self, x: float) -> int:
        """The round nearest to a place on the screen; of several that share a column one in proportion."""
        column = self.column_at(x)
        left, right = self.edges[column : column + 2].tolist()
        first, end = self.places[column : column + 2].tolist()
        share = min(max((x - left) / max(1, right - left), 0.0), 1.0)
        return int(min(first + int(share * (end - first)), end - 1))


def answer_begins(rows: Rows) -> NDArray[np.bool_]:
    """[rounds]: whether each is the first of its answer; recordings of old have one request, and count anew."""
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows["request"][1:] != rows["request"][:-1]) | (rows["index"][1:] <= rows["index"][:-1])
    return first


def columns_of(rows: Rows, width: int) -> Columns:
    """Place rounds, at least one, in a line so many logical pixels wide."""
    assert len(rows), "there is something to show"
    count = min(len(rows), max(1, width // _NARROWEST))
    steps = np.arange(count + 1)
    places = steps * len(rows) // count
    edges = steps * min(WIDEST * count, max(count, width)) // count
    starts = places[:-1]
    known = rows["state"] == KNOWN
    begins = answer_begins(rows)
    weights = np.maximum(np.add.reduceat(known, starts, dtype=np.int64), 1)

    def mean(name: str) -> NDArray[np.float64]:
        sums: NDArray[np.float64] = np.add.reduceat(np.where(known, rows[name], 0), starts, dtype=np.float64)
        return sums / weights

    return Columns(
        places=places,
        edges=edges,
        tokens=mean("tokens"),
        accepted=mean("accepted"),
        budget=mean("budget"),
        seconds=mean("seconds"),
        most=np.maximum.reduceat(np.where(known, rows["tokens"], 0), starts),
        begins=np.logical_or.reduceat(begins, starts),
        answers=np.cumsum(begins)[starts] - 1,
        is_known=np.logical_or.reduceat(known, starts),
        is_unread=np.logical_and.reduceat(rows["state"] == UNKNOWN, starts),
    )
