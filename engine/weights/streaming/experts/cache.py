"""Which expert is in which slot, and which gives way to another: the least recently used."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Expert = tuple[int, int]
"""(layer, number in the layer)"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The slots of the experts that were asked for, in their order, and those of them that must be brought there."""

    slots: tuple[int, ...]
    missing: tuple[Expert, ...]


class ExpertCache:
    """Slots of one expert each. It knows no bytes: whoever takes a missing expert brings it, or forgets it again."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.hits = 0
        self.misses = 0
        self._slot_of: OrderedDict[Expert, int] = OrderedDict()  # the least recently used first
        self._free = list(range(slots - 1, -1, -1))

    @property
    def is_full(self) -> bool:
        """Whether the next expert that is missing takes the place of another."""
        return not self._free

    def take(self, experts: Sequence[Expert]) -> Taken:
        """Slots for these experts, all different and no more than there are slots; none of them displaces another."""
        assert len(set(experts)) == len(experts) <= self.slots, "more experts than slots, or one twice"
        missing = tuple(expert for expert in experts if expert not in self._slot_of)
        for expert in experts:
            if expert in self._slot_of:
                self._slot_of.move_to_end(expert)
        for expert in missing:  # what is needed now stands behind everything else, so it is never what goes
            slot = self._free.pop() if self._free else self._slot_of.popitem(last=False)[1]
            self._slot_of[expert] = slot
        self.misses += len(missing)
        self.hits += len(experts) - len(missing)
        return Taken(tuple(self._slot_of[expert] for expert in experts), missing)

    def forget(self, experts: Iterable[Expert]) -> None:
        """They never came: their slots are free."""
        for expert in experts:
            slot = self._slot_of.pop(expert, None)
            if slot is not None:
                self._free.append(slot)

    def __contains__(self, expert: Expert) -> bool:
        return expert in self._slot_of
