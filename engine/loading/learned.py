"""What the answers so far have taught an engine, and the strategy for the next one that builds on it."""

from collections.abc import Hashable

from engine.loading.lessons import Lessons, LessonsFiles, settings_of
from engine.loading.planning import AUTO_BUDGET
from engine.protocol.options import GenerateOptions
from engine.speculation.method import Method, Sampling
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.methods.autoregression import Autoregression
from engine.speculation.methods.lookup import Lookup
from engine.speculation.strategy import Fixed, Strategy
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.pass_time import MeasuredPasses

SAME_TEXT = ("specexec", "lookup")
"""Methods whose text is the target's own for the same seed, so that one can take over from another unnoticed."""
LARGEST = 1024  # nodes of a tree that is chosen automatically, where there is memory for so many


class Learned:
    """One engine's. How long a pass takes is the same for every way of sampling."""

    def __init__(self, largest_tree: int = LARGEST, files: LessonsFiles | None = None) -> None:
        """`largest_tree`: the drafted nodes that the plan has kept memory for. `files`: None to forget it all."""
        self.complaint = ""  # why what was learnt before cannot be used; for the answer at hand
        self._largest_tree = min(LARGEST, largest_tree)
        self._files = files
        self._passes: MeasuredPasses | None = None
        self._lessons: dict[Hashable, tuple[GenerateOptions, Lessons]] = {}
        self._kept: dict[Hashable, int] = {}  # how much of each had been learnt when it was last written

    def lessons(self, options: GenerateOptions) -> Lessons:
        """Those of earlier answers with such settings, as a beginning."""
        key = tuple(settings_of(options).values())
        if key not in self._lessons:
            found, self.complaint = self._files.recall(options) if self._files else (None, "")
            lessons = found or Lessons()
            prospects = lessons.prospects
            self._passes = prospects.passes = self._passes or prospects.passes
            self._lessons[key], self._kept[key] = (options, lessons), lessons.size
        return self._lessons[key][1]

    def acceptance(self, options: GenerateOptions) -> AcceptanceCounts:
        """How the draft's children are accepted, for Sequoia's shapes.

        Kept from answer to answer when greedy. Where tokens are drawn, other shapes draw other text: there every
        answer begins with the prior, so that the same seed gives the same text again.
        """
        return AcceptanceCounts() if options.sampling.temperature else self.lessons(options).acceptance

    def keep(self) -> None:
        """Write down what was learnt since the last time, for the next start."""
        self.complaint = ""
        for key, (options, lessons) in self._lessons.items():
            if self._files and lessons.size > self._kept[key]:
                self._files.remember(options, lessons)
                self._kept[key] = lessons.size

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
        return Auto(methods, plain, self.lessons(options).prospects, self._largest_tree, speculation.depth)
