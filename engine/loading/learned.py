"""What the answers so far have taught an engine, for the next one."""

from collections.abc import Hashable

from engine.loading.lessons import Lessons, LessonsFiles, settings_of
from engine.protocol.options import GenerateOptions
from engine.speculation.methods.acceptance_counts import AcceptanceCounts
from engine.speculation.tuning.curve import Curve
from engine.speculation.tuning.hiding import Hiding


class Learned:
    """One engine's. How long a pass takes is the same for every way of sampling."""

    def __init__(self, files: LessonsFiles | None = None) -> None:
        """`files`: None to forget it all."""
        self.complaint = ""  # why what was learnt before cannot be used; for the answer at hand
        self._files = files
        self._passes: Curve | None = None
        self._rests: Curve | None = None
        self._hiding: Hiding | None = None
        self._lessons: dict[Hashable, tuple[GenerateOptions, Lessons]] = {}
        self._kept: dict[Hashable, int] = {}  # how much of each had been learnt when it was last written

    def lessons(self, options: GenerateOptions) -> Lessons:
        """Those of earlier answers with such settings, as a beginning."""
        key = tuple(settings_of(options).values())
        if key not in self._lessons:
            found, self.complaint = self._files.recall(options) if self._files else (None, "")
            lessons = found or Lessons()
            prospects = lessons.prospects
            self._passes, self._rests = self._passes or prospects.passes, self._rests or prospects.rests
            self._hiding = self._hiding or prospects.hiding
            prospects.passes, prospects.rests, prospects.hiding = self._passes, self._rests, self._hiding
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
