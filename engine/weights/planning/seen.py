"""What rounds of a pair really took: it counts more than what was computed from rates."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.forecast import Forecast


@dataclass(frozen=True, slots=True)
class Seen:
    """Rounds with as many layers on the device, in RAM and on SSD as `tiers` says.

    `passes`: seconds of a round without its drafting against rows, at the sizes that were measured; `hidden`: by how
    many of them it is shorter for every second of drafting before it; `levels`: seconds of a level of a tree against
    the level's nodes, None where nothing drafted.
    """

    tiers: tuple[int, int, int]
    passes: PassTime
    hidden: float = 0.0
    levels: PassTime | None = None

    def drafted(self, given: Forecast, nodes: int, levels: float) -> Forecast:
        """With the drafting that was seen, wherever the target's layers are."""
        if not self.levels or not nodes or not levels:
            return given
        return replace(given, draft_seconds=levels * self.levels(nodes / levels))

    def corrected(self, given: Forecast, rows: float, computed: Callable[[int], Forecast]) -> Forecast:
        """With the passes that were seen of layers in the same places; `computed`: the forecast for so many rows.

        Between two sizes that were seen, and beyond them, it goes on as computed, times what that was wrong by there.
        """
        at = np.array(self.passes.rows)
        wrong = [
            seconds / _of_target(computed(round(size)))
            for size, seconds in zip(self.passes.rows, self.passes.seconds, strict=True)
        ]
        factor = float(np.interp(np.log2(rows), np.log2(at), wrong))
        return replace(given.times(factor), hidden=self.hidden)


def _of_target(given: Forecast) -> float:
    return given.seconds_per_pass + given.host_seconds
