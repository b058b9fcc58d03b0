"""What the palette lists, and in which order: pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.shell.command_palette.matching import match

MOST_RECENT = 30
_WHERE_FACTOR = 3  # letters that fit only what stands beside the name are worth that much less


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to do. `key` names it across sessions; `where` tells where else it is found, `keys` its shortcut."""

    key: str
    name: str
    where: str
    keys: str
    run: Callable[[], object]
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that fits, and the letters of its name that made it fit."""

    entry: Entry
    places: tuple[int, ...] = ()


def found(entries: Sequence[Entry], wanted: str, recent: Sequence[str]) -> list[Hit]:
    """The entries that fit, best first; equally good ones by when they were last used, then as they were given."""
    ages = {key: age for age, key in enumerate(recent)}
    scored = [(score, Hit(entry, places)) for entry in entries for score, places in _scores(entry, wanted)]
    scored.sort(key=lambda each: (-each[0], ages.get(each[1].entry.key, MOST_RECENT)))
    return [hit for _, hit in scored]


def used(recent: Sequence[str], key: str) -> tuple[str, ...]:
    """The keys that were used, with this one as the newest."""
    return (key, *(each for each in recent if each != key))[:MOST_RECENT]


def _scores(entry: Entry, wanted: str) -> list[tuple[int, tuple[int, ...]]]:
    """How well it fits, and by which letters of its name; empty where it does not."""
    by_name = match(wanted, entry.name)
    if by_name is not None:
        return [(by_name.score, by_name.places)]
    by_all = match(wanted, f"{entry.where} {entry.name}")
    return [] if by_all is None else [(by_all.score // _WHERE_FACTOR, ())]
