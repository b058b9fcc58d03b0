"""Where something was found: how often in which section of which message, in the order in which they are read."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from app.chat.history.message import THOUGHT

Section = tuple[int, int, int]
"""The number of a message, that of a part of it, such as `THOUGHT` or `TEXT`, and the number of a section in that."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Hit `number`, from 0, of a section."""

    section: Section
    number: int = 0

    @property
    def message(self) -> int:
        """In which message it stands."""
        return self.section[0]


class Hits:
    """All hits by their numbers, from 0; sections are added in order."""

    def __init__(self) -> None:
        self._sections: list[Section] = []
        self._ends: list[int] = []  # hits up to the end of each section

    @property
    def count(self) -> int:
        """How many there are."""
        return self._ends[-1] if self._ends else 0

    def add(self, section: Section, count: int) -> None:
        """So many were found in a section."""
        if count:
            self._sections.append(section)
            self._ends.append(self.count + count)

    def truncate(self, message: int) -> None:
        """Forget those of this message, and of all behind it."""
        kept = bisect_left(self._sections, (message, THOUGHT, 0))
        del self._sections[kept:], self._ends[kept:]

    def place(self, number: int) -> Place:
        """Where a hit stands."""
        index = bisect_right(self._ends, number)
        return Place(self._sections[index], number - (self._ends[index - 1] if index else 0))

    def number_from(self, place: Place) -> int:
        """The number of the hit at a place, or of the first one behind it; `count` if there is none."""
        index = bisect_left(self._sections, place.section)
        before = self._ends[index - 1] if index else 0
        if index < len(self._sections) and self._sections[index] == place.section:
            return min(before + place.number, self._ends[index])
        return before
