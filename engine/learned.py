"""What the answers so far have taught an engine, and the strategy for the next one that builds on it."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from engine.options import GenerateOptions
from engine.planning import AUTO_BUDGET
from engine.speculation.auto import Auto
from engine.speculation.autoregression import Autoregression
from engine.speculation.calibration import Calibration
from engine.speculation.curve import Curve
from engine.speculation.lookup import Lookup
from engine.speculation.method import Method, Sampling
from engine.speculation.prospect import Prospects
from engine.speculation.strategy import Fixed, Strategy

SAME_TEXT = ("specexec", "lookup")
"""Methods whose text is the target's own for the same seed, so that one can take over from another unnoticed."""
LARGEST = 1024  # nodes of a tree that is chosen automatically, where there is memory for so many


@dataclass(frozen=True, slots=True)
class Lessons:
    """What holds for one way of sampling: how the draft's word is to be taken, and what trees give and cost."""

    calibration: Calibration
    prospects: Prospects


@dataclass(slots=True)
class Learned:
    """One engine's. How long a pass takes is the same for every way of sampling.

    `largest_tree`: the drafted nodes that the plan has kept memory for.
    """

    largest_tree: int = LARGEST
    passes: Curve = field(default_factory=Curve)
    rests: Curve = field(default_factory=Curve)
    _lessons: dict[Hashable, Lessons] = field(default_factory=dict)

    def lessons(self, options: GenerateOptions) -> Lessons:
        """Those of earlier answers with such settings, as a beginning."""
        sampling = replace(options.sampling, seed=0)
        key = (sampling, replace(options.speculation, method="", budget=0))
        if key not in self._lessons:
            prospects = Prospects(passes=self.passes, rests=self.rests)
            self._lessons[key] = Lessons(Calibration(), prospects)
        return self._lessons[key]

    def strategy(self, method: Method, options: GenerateOptions, sampling: Sampling) -> Strategy:
        """`Auto` where nothing is prescribed that it would choose, else the method with the budget that was asked for.

        `method`: the one for these options. Only `method="auto"` may end in another one, or in no tree.
        """
        speculation = options.speculation
        if speculation.budget or method.name not in SAME_TEXT:
            return Fixed(method, 0 if method.name == "none" else speculation.budget or AUTO_BUDGET)
        methods, plain = [method], None
        if speculation.method == "auto":
            plain = Autoregression(sampling)
            if speculation.lookup and method.name != "lookup":
                methods.append(Lookup(plain, "lookup"))
        return Auto(methods, plain, self.lessons(options).prospects, min(LARGEST, self.largest_tree), speculation.depth)
