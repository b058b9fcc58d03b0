"""How the text of an answer appears: evenly, though it comes in bursts."""

_LONGEST_SECONDS = 4.0  # a reader is not kept waiting longer, however slow the rounds are


class Reveal:
    """Spreads a round's text over the time to the next round: how many characters are to be shown now.

    What is not shown when the next burst comes is shown at once, so the text is never more than one burst behind.
    """

    def __init__(self, shown: int = 0) -> None:
        self._arrived = shown
        self._base = shown  # shown when the last burst came
        self._seconds = 0.0  # the last burst is spread over so long
        self._last: float | None = None

    def add(self, characters: int, now: float) -> None:
        """A burst has come; `now` in seconds of a clock that only goes forward."""
        if not characters:
            return
        if self._last is not None:
            self._seconds = min(now - self._last, _LONGEST_SECONDS)
        self._last = now
        self._base = self._arrived
        self._arrived += characters

    def shown(self, now: float) -> int:
        """How many characters are to be seen."""
        if self._last is None or self._seconds <= 0:
            return self._arrived
        share = min(1.0, (now - self._last) / self._seconds)
        return self._base + round((self._arrived - self._base) * share)

    def finish(self) -> None:
        """Show everything."""
        self._base = self._arrived
        self._seconds = 0.0
