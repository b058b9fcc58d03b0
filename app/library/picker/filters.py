"""Which lines of a list are shown: by what is written in them, by size, and by whether the model runs here."""

from dataclasses import dataclass
from enum import Enum

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.library.picker.entry import Entry
from app.library.picker.verdict import Verdict


class Size(Enum):
    """Ranges of parameters, as (title, from, below)."""

    ANY = (mark("Any size"), 0, 0)
    SMALL = (mark("Up to 4 B parameters"), 0, 4_500_000_000)
    MEDIUM = (mark("4 to 15 B"), 4_500_000_000, 15_500_000_000)
    LARGE = (mark("15 to 40 B"), 15_500_000_000, 40_500_000_000)
    HUGE = (mark("More than 40 B"), 40_500_000_000, 0)

    @property
    def title(self) -> str:
        """For people."""
        title, _, _ = self.value
        return tr(title)

    def holds(self, parameters: int) -> bool:
        """Whether a number lies in the range; one that is not known lies in all."""
        _, least, below = self.value
        return not parameters or (parameters >= least and (not below or parameters < below))


@dataclass(frozen=True, slots=True)
class Filter:
    """`words` must all be in the name; `runs_here` hides what is known not to."""

    words: str = ""
    size: Size = Size.ANY
    runs_here: bool = False

    def passes(self, entry: Entry, verdict: Verdict) -> bool:
        """Whether the line is shown."""
        name = entry.name.casefold()
        return (
            not (self.runs_here and verdict.fits is False)
            and self.size.holds(entry.parameters)
            and all(word in name for word in self.words.casefold().split())
        )
