"""How much of the drafting costs nothing: weights that are streamed keep coming while the draft is at work."""

from engine.speculation.figures import State, figure, shortened

FADING = 0.98  # what an old round counts for when the next one is seen
DOUBT = 8.0  # so many times the variance of what drafting does not explain is as good as drafting to no effect
SPIKE = 0.25  # a pass farther off than passes are on average, by this part of one, counts only up to there


class Hiding:
    """By how much of a second the target's pass becomes shorter if the draft takes a second longer before it.

    Between 0, where the pass begins when the draft has ended, and 1, where both wait for the same stream: while the
    draft works, the next layers arrive, and the pass has as much less to wait for. Regression of the passes' seconds
    on those of the drafting before them, shrunk to 0 (ridge regression): the more, the less drafting explains.
    """

    def __init__(self) -> None:
        self._rounds = 0.0
        self._drafting = self._passing = 0.0  # means: seconds, and how far passes were off
        self._variance = self._covariance = self._scatter = 0.0  # sums over the rounds, of squares and products

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        return {name: shortened(getattr(self, f"_{name}")) for name in _PARTS}

    @classmethod
    def restored(cls, state: State) -> "Hiding":
        """As it was kept; raises for what is no state."""
        hiding = cls()
        for name in _PARTS:
            setattr(hiding, f"_{name}", figure(state[name], *((-1e6, 1e6) if name in _SIGNED else (0.0, 1e6))))
        return hiding

    def observe(self, drafting: float, passing: float, expected: float) -> None:
        """One round: seconds of drafting, of the pass, and what a pass over so many rows was expected to take."""
        off, reach = passing - expected, SPIKE * expected
        if self._rounds:
            off = min(max(off, self._passing - reach), self._passing + reach)
        for name in ("rounds", "variance", "covariance", "scatter"):
            setattr(self, f"_{name}", FADING * getattr(self, f"_{name}"))
        self._rounds += 1.0
        drafted, passed = drafting - self._drafting, off - self._passing  # from the means before this round
        self._drafting += drafted / self._rounds
        self._passing += passed / self._rounds
        self._variance += drafted * (drafting - self._drafting)
        self._covariance += drafted * (off - self._passing)
        self._scatter += passed * (off - self._passing)

    @property
    def share(self) -> float:
        """From 0 to 1; 0 as long as little is known."""
        if not (self._variance and self._rounds):
            return 0.0
        unexplained = max(self._scatter - self._covariance**2 / self._variance, 0.0) / self._rounds
        return min(max(-self._covariance / (self._variance + DOUBT * unexplained), 0.0), 1.0)


_PARTS = ("rounds", "drafting", "passing", "variance", "covariance", "scatter")
_SIGNED = ("passing", "covariance")
