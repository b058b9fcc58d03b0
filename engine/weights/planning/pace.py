"""How the time of a product grows with the rows that are multiplied at once, as it was measured."""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Pace:
    """`points`: (rows, seconds), rows ascending: what 1e9 weights take that are multiplied with so many rows at once.

    Few rows are bound by reading the weights, many by arithmetic, and the ones in between by both. For attention the
    weights are cache slots times the width of all heads.
    """

    points: tuple[tuple[int, float], ...]

    def seconds(self, elements: float, rows: float) -> float:
        """For so many weights and rows: linear between the points, proportional to the rows beyond the last one."""
        return elements / 1e9 * self._seconds_per_giga(rows)

    def _seconds_per_giga(self, rows: float) -> float:
        for (low, at_low), (high, at_high) in pairwise(self.points):
            if rows <= high:
                return at_low + max(0.0, rows - low) / (high - low) * (at_high - at_low)
        last, at_last = self.points[-1]
        return at_last * max(1.0, rows / last)
