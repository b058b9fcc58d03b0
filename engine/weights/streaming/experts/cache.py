"""Which experts are in which slots of the compute device."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

Expert = tuple[int, int]
"""(layer, number in the layer)"""

HALF_LIFE = 32  # passes after which a use counts half of one now: a conversation stays on its subject for hundreds
LARGEST = 2.0**500  # of a score, before all are scaled down
STALE = 4  # entries of the heap for each slot, before those that are outdated are removed


@dataclass(frozen=True, slots=True)
class Taken:
    """The slots of the requested experts, in their order, and those experts that must be fetched."""

    slots: tuple[int, ...]
    missing: tuple[Expert, ...]


class ExpertCache:
    """Which expert is in which slot. The caller of `take` fetches what is missing, or calls `forget`.

    The expert with the lowest score is evicted: the sum of its uses, each of which counts the less the longer ago it
    was. Of experts that were used equally often that is the least recently used one; one that is used often stays when
    others are used once. Lee et al. 2001, "LRFU", IEEE Transactions on Computers 50 (12). The score also counts uses
    from before an expert was evicted.
    """

    def __init__(self, slots: int, layers: int = 1) -> None:
        """`layers`: how many share the slots; each asks once in a pass."""
        self.slots = slots
        self.hits = 0
        self.misses = 0
        self._slot_of: dict[Expert, int] = {}
        self._free = list(range(slots - 1, -1, -1))
        self._scores: dict[Expert, float] = {}
        self._use = 1.0  # what a use counts now: instead of all scores getting smaller, this one grows
        self._growth = 2 ** (1 / (HALF_LIFE * layers))
        self._lowest: list[tuple[float, Expert]] = []  # a heap; entries with a score of the past are outdated

    @property
    def is_full(self) -> bool:
        """Whether the next missing expert evicts another."""
        return not self._free

    def take(self, experts: Sequence[Expert], kept: Collection[Expert] = ()) -> Taken:
        """Slots for these experts, all different; none of them evicts another, or one of those `kept`.

        There are slots for all of these together.
        """
        assert len(set(experts)) == len(experts), "an expert twice"
        assert len({*experts, *kept}) <= self.slots, "more experts than slots"
        missing = self.note(experts)
        self.admit(experts, kept)
        return Taken(tuple(self._slot_of[expert] for expert in experts), missing)

    def admit(self, experts: Sequence[Expert], kept: Collection[Expert] = ()) -> tuple[int, ...]:
        """Slots for experts, used or not; see `take`."""
        asked = frozenset((*experts, *kept))
        for expert in experts:
            if expert not in self._slot_of:
                self._slot_of[expert] = self._free.pop() if self._free else self._evict(asked)
                heappush(self._lowest, (self._scores.setdefault(expert, 0.0), expert))
        return tuple(self._slot_of[expert] for expert in experts)

    def note(self, experts: Sequence[Expert]) -> tuple[Expert, ...]:
        """These experts are used by a layer's pass, wherever they are computed; returns those without a slot."""
        missing = tuple(expert for expert in experts if expert not in self._slot_of)
        self.misses += len(missing)
        self.hits += len(experts) - len(missing)
        self._use *= self._growth
        for expert in experts:
            self._scores[expert] = self._scores.get(expert, 0.0) + self._use
            if expert in self._slot_of:
                heappush(self._lowest, (self._scores[expert], expert))
        if self._use > LARGEST:
            self._scores = {expert: score / LARGEST for expert, score in self._scores.items()}
            self._use /= LARGEST
            self._renew()
        elif len(self._lowest) > STALE * self.slots + len(self._slot_of):
            self._renew()
        return missing

    def worthy(self, experts: Iterable[Expert], most: int) -> list[Expert]:
        """Of experts without a slot, `most` at most that are worth one more than those that would be evicted."""
        best = sorted((e for e in experts if e not in self._slot_of), key=lambda e: (-self._scores.get(e, 0.0), e))
        found = best[: min(most, len(self._free))]
        held = sorted(self._scores[expert] for expert in self._slot_of) if len(found) < min(most, len(best)) else []
        for expert, lowest in zip(best[len(found) : most], held, strict=False):
            if self._scores.get(expert, 0.0) <= lowest:
                break
            found.append(expert)
        return found

    def forget(self, experts: Iterable[Expert]) -> None:
        """They were not fetched: their slots are free."""
        for expert in experts:
            slot = self._slot_of.pop(expert, None)
            if slot is not None:
                self._free.append(slot)

    def slot_of(self, expert: Expert) -> int | None:
        """Where it is; None if it has no slot."""
        return self._slot_of.get(expert)

    def __contains__(self, expert: Expert) -> bool:
        return expert in self._slot_of

    def _evict(self, kept: frozenset[Expert]) -> int:
        """The slot of the expert with the lowest score, which are not these."""
        aside = []
        while True:
            score, expert = heappop(self._lowest)
            if expert not in self._slot_of or self._scores[expert] != score:
                continue
            if expert not in kept:
                break
            aside.append((score, expert))
        for entry in aside:
            heappush(self._lowest, entry)
        return self._slot_of.pop(expert)

    def _renew(self) -> None:
        self._lowest = [(self._scores[expert], expert) for expert in self._slot_of]
        heapify(self._lowest)
