"""What rounds of a pair really took: it counts more than what was computed from rates."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.forecast import Forecast
from engine.weights.planning.needs import KvForm


@dataclass(frozen=True, slots=True)
class Given:
    """What this many answers gave in the mean, however large their trees were: the mean is of `nodes` drafted ones.

    `seconds` of a round, everything included, which is `beyond` times what its pass and its levels take. `least` to
    `most`: tokens/s of nearly all of these answers.
    """

    answers: int
    tokens_per_pass: float
    seconds: float
    nodes: float
    least: float
    most: float
    beyond: float = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """Rounds with as many layers on the device, in RAM and on SSD as `tiers` says.

    `passes`: seconds of a round without its drafting against rows, at the sizes that were measured; `hidden`: by how
    many of them it is shorter for every second of drafting before it; `levels`: seconds of a level of a tree against
    the level's nodes, None where nothing drafted. `kv_form`: of the target's keys and values, which decides what
    attention takes. `given`: by answers there, None before enough of them.
    """

    tiers: tuple[int, int, int]
    passes: PassTime
    hidden: float = 0.0
    levels: PassTime | None = None
    kv_form: KvForm = "computed"
    given: Given | None = None

    def drafted(self, given: Forecast, nodes: int, levels: float, computed: Callable[[int], float]) -> Forecast:
        """With the drafting that was seen, wherever the target's layers are; `computed`: a level of so many nodes."""
        if not self.levels or not nodes or not levels:
            return given
        return replace(given, draft_seconds=given.draft_seconds * _factor(self.levels, nodes / levels, computed))

    def corrected(self, given: Forecast, rows: float, computed: Callable[[int], float]) -> Forecast:
        """With the passes that were seen of layers in the same places; `computed`: seconds for so many rows."""
        return replace(given.times(_factor(self.passes, rows, computed)), hidden=self.hidden)


def _factor(seen: PassTime, rows: float, computed: Callable[[int], float]) -> float:
    """Times what was computed: between two sizes that were seen, and beyond them, it is wrong as it was there."""
    wrong = [seconds / computed(max(1, round(size))) for size, seconds in zip(seen.rows, seen.seconds, strict=True)]
    return float(np.interp(np.log2(rows), np.log2(np.array(seen.rows)), wrong))
