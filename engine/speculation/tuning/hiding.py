"""How much of the drafting costs nothing: weights that are streamed keep coming while the draft is at work."""

import math

from engine.speculation.trees.arrays import State, figure, shortened

FADING = 0.98  # what an old round counts for when the next one is seen
SETTLED = 8.0  # rounds that the mean of a size goes by, at most
DOUBT = 8.0  # so many times the variance of what drafting does not explain is as good as drafting to no effect
SPIKE = 0.25  # a pass farther off its size's mean, by this part of it, counts only up to there


class Hiding:
    """By how much of a second the target's pass becomes shorter if the draft takes a second longer before it.

    Between 0, where the pass begins when the draft has ended, and 1, where both wait for the same stream: while the
    draft works, the next layers arrive, and the pass has as much less to wait for. Larger trees take longer to draft
    and to verify, so only trees of about the same size are compared: regression of the passes' deviations from their
    size's mean on those of the drafting before them, shrunk to 0 (ridge regression) the more, the less that explains.
    """

    def __init__(self) -> None:
        self._means: dict[int, tuple[float, float, float]] = {}  # of a size: rounds, seconds of drafting and passes
        self._rounds = 0.0
        self._drafting = self._both = self._passing = 0.0  # sums of squares and of products of deviations

    @property
    def state(self) -> State:
        """What was learnt, to be kept, but for the means: passes take another time on another day."""
        return {name: shortened(getattr(self, f"_{name}")) for name in ("rounds", "drafting", "both", "passing")}

    @classmethod
    def restored(cls, state: State) -> "Hiding":
        """As it was kept; raises for what is no state."""
        hiding = cls()
        hiding._rounds, hiding._drafting, hiding._passing = (
            figure(state[name], 0.0, 1e6) for name in ("rounds", "drafting", "passing")
        )
        hiding._both = figure(state["both"], -1e6, 1e6)
        return hiding

    def observe(self, rows: int, drafting: float, passing: float) -> None:
        """One round: rows of the pass, seconds of drafting and of the pass behind it."""
        size = round(2 * math.log2(rows))
        seen, drafts, passes = self._means.get(size, (0.0, drafting, passing))
        drafted, passed = drafting - drafts, min(max(passing - passes, -SPIKE * passes), SPIKE * passes)
        if seen:
            known = seen / (seen + 1.0)  # a mean of few rounds is off itself
            self._rounds = FADING * self._rounds + 1.0
            self._drafting = FADING * self._drafting + known * drafted**2
            self._both = FADING * self._both + known * drafted * passed
            self._passing = FADING * self._passing + known * passed**2
        self._means[size] = min(seen + 1.0, SETTLED), drafts + drafted / (seen + 1.0), passes + passed / (seen + 1.0)

    @property
    def share(self) -> float:
        """From 0 to 1; 0 as long as little is known."""
        if not (self._drafting and self._rounds):
            return 0.0
        unexplained = max(self._passing - self._both**2 / self._drafting, 0.0) / self._rounds
        return min(max(-self._both / (self._drafting + DOUBT * unexplained), 0.0), 1.0)
