"""The strings that end an answer, found in text that arrives piece by piece."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through up to the first stop string, which is swallowed with everything behind it.

    First is the one that is complete first; of two that are complete at the same character, the longer. So the result
    does not depend on how the text was cut into pieces.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        """`stop` may be empty; none of its strings may be."""
        assert all(stop), "an empty stop string is complete before the answer begins"
        self.completed = False
        self._stop = tuple(stop)
        self._longest = max(map(len, stop), default=0)
        self._held = ""

    def let_through(self, text: str) -> str:
        """Take more text; return what of it, and of the text held before, is certainly in no stop string."""
        if self.completed:
            return ""
        text = self._held + text
        ends = [(start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0]
        if ends:
            self.completed, self._held = True, ""
            return text[: min(ends)[1]]
        cut = self._first_possible_start(text)
        self._held = text[cut:]
        return text[:cut]

    def release(self) -> str:
        """The beginning of a stop string that was held back; for the end of the text."""
        held, self._held = self._held, ""
        return held

    def _first_possible_start(self, text: str) -> int:
        """Where the longest end of the text begins that could still grow into a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stop):
                return start
        return len(text)
