"""What became of one fault that was provoked, and the sums over many."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """How one case ended; the first two are what is wanted."""

    SURVIVED = "survived"
    TOLD = "told"
    LOST = "lost"
    TRACEBACK = "traceback"
    OUTSIDE = "outside"
    SLOW = "slow"


GOOD = (Kind.SURVIVED, Kind.TOLD)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: its seed, with which it comes again; `words` say what was told or what is wrong."""

    seed: int
    kind: Kind
    words: str = ""


@dataclass
class Tally:
    """All cases of one fault."""

    fault: str
    wanted: int
    kinds: Counter[Kind] = field(default_factory=Counter)
    seconds: float = 0.0
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count a case."""
        self.kinds[outcome.kind] += 1
        if outcome.kind not in GOOD:
            self.failures.append(outcome)

    @property
    def count(self) -> int:
        """Cases so far."""
        return self.kinds.total()

    @property
    def as_row(self) -> dict[str, object]:
        """What the table shows."""
        counts = {kind.value: self.kinds[kind] for kind in Kind}
        return {"fault": self.fault, "count": self.count, **counts, "minutes": round(self.seconds / 60, 1)}


HEADINGS = {
    "fault": "fault",
    "count": "count",
    "survived": "survived",
    "told": "told in a sentence",
    "lost": "lost",
    "traceback": "tracebacks",
    "outside": "files outside its folder",
    "slow": "window held for more than 50 ms",
    "minutes": "minutes",
}


def table(rows: list[dict[str, object]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(HEADINGS.values()) + " |", "|---" + "|--:" * (len(HEADINGS) - 1) + "|"]
    for row in rows:
        cells = [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in HEADINGS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
