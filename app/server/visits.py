"""The log of the local server: who asked what, and how it stands."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.protocol.serving import Visit

MOST_ENTRIES = 500

_UNDER_WAY = ("waiting", "answering")


@dataclass(frozen=True, slots=True)
class Entry:
    """One request: its number among those of all engines, when it came (seconds since 1970), how it stands."""

    key: tuple[int, int]
    came: float
    visit: Visit

    @property
    def is_under_way(self) -> bool:
        """Whether its client still waits for something."""
        return self.visit.state in _UNDER_WAY


@dataclass(frozen=True, slots=True)
class Traffic:
    """What goes on now: clients whose requests are under way, and how many of these wait, or are answered."""

    clients: int = 0
    waiting: int = 0
    answering: int = 0


class VisitLog:
    """The newest `MOST_ENTRIES` requests, in the order in which they came; more where more are under way.

    Each engine counts its requests anew: a new one is announced by `begin_anew`.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()
        self._engine = 0

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that is kept, oldest first."""
        return tuple(self._entries.values())

    @property
    def traffic(self) -> Traffic:
        """What goes on now."""
        open_ = [each.visit for each in self._entries.values() if each.is_under_way]
        states = Counter(each.state for each in open_)
        return Traffic(len({each.client for each in open_}), states["waiting"], states["answering"])

    def begin_anew(self) -> None:
        """Another engine tells of its requests from now on; what the one before had not ended, it never will."""
        self.cut_off()
        self._engine += 1

    def cut_off(self) -> None:
        """The server is gone, and with it every answer that was under way."""
        for key, entry in self._entries.items():
            if entry.is_under_way:
                self._entries[key] = replace(entry, visit=replace(entry.visit, state="gone", ahead=0))

    def take(self, visits: Iterable[Visit], now: float) -> None:
        """Take what was told; the oldest requests that are over give way."""
        for visit in visits:
            key = (self._engine, visit.number)
            known = self._entries.get(key)
            self._entries[key] = Entry(key, known.came if known else now, visit)
        too_many = max(0, len(self._entries) - MOST_ENTRIES)
        for key in [key for key, each in self._entries.items() if not each.is_under_way][:too_many]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget what is over."""
        for key in [key for key, entry in self._entries.items() if not entry.is_under_way]:
            del self._entries[key]
