"""How big trees may be as far as memory goes: they shrink when it runs out, and grow again when it seems to be back."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from engine.errors import OutOfMemory
from engine.protocol.sentences import joined, say
from engine.speculation.interfaces import Choice, RoundResult

PATIENCE = 64  # rounds without a shortage before the limit is raised
MOST_PATIENCE = 4096
NEAR = 1.5  # the most between two sizes that are about the same; and the step by which the limit is raised


class TreeLimit:
    """The most nodes a tree may have; None as long as memory has set no limit, 0 for plain decoding.

    A shortage may have been another program's, and over soon. After `patience` rounds at the limit it is raised by
    half, and lifted once trees as big as anybody asked for have gone well. Each further shortage at about the same size
    doubles the patience: where memory is short for good, ever fewer rounds are spent on finding out again.
    """

    def __init__(self, nodes: int | None = None, patience: int = PATIENCE) -> None:
        self.nodes = nodes
        self.patience = patience
        self.shortage: OutOfMemory | None = None  # the last one of this answer that was survived
        self._is_plain = False
        self._choice: Choice | None = None
        self._is_cut = False
        self._rounds = 0  # with trees as big as the limit allows, since it was set
        self._was_cut = False  # in any of these
        self._failed = 0 if nodes is None else 2 * nodes  # the tree that memory ran out with last

    def begin(self) -> None:
        """Another answer begins: what happened in the one before need not be told again."""
        self.shortage = None

    def cut(self, choice: Choice) -> Choice:
        """The choice, with no bigger a tree than memory allows."""
        self._is_cut = self.nodes is not None and choice.budget > self.nodes
        budget = max(1, self.nodes or 0) if self._is_cut else choice.budget
        is_plain = self._is_plain or self.nodes == 0  # the root alone, whatever the budget, and no pass of the draft
        self._choice = replace(choice, budget=budget, depth=0 if is_plain else choice.depth)
        return self._choice

    def rescue(self, attempt: Callable[[], RoundResult], tokens: Sequence[int], room: Callable[[], int]) -> RoundResult:
        """A round that may run out of memory: as it was chosen, then with half the tree, then with none.

        Not a fourth time: `OutOfMemory` then. `tokens`: prompt and answer, up to the root. A round that has
        written to the answer, so that `room` is another, is not begun again.
        """
        before = room()
        for is_last in (False, True):
            self._choice = None
            try:
                result = attempt()
            except OutOfMemory as error:
                failed = cast(Choice | None, self._choice)  # which the attempt has set, if it came so far
                if room() != before or not failed or not failed.budget or not failed.depth:
                    raise
                self.shortage = error.with_traceback(None)  # its frames hold what the round had built up
                self._shrink(failed, tokens, is_again=is_last)
            else:
                self._count_round()
                return result
        self._is_plain = True
        try:
            return attempt()
        finally:
            self._is_plain = False

    @property
    def words(self) -> str:
        """What memory has done to the trees, for the person; empty if nothing."""
        if self.nodes is None:
            return ""
        limit = say("Trees have at most {count} nodes.", count=self.nodes)
        why = self.shortage.message if self.shortage else say("Memory ran out with bigger trees before.")
        return joined((why, limit if self.nodes else say("Trees are no longer grown.")))

    def _count_round(self) -> None:
        """Raise the limit after so many rounds that say something about it; lift it where it held nothing back."""
        if self.nodes is None or self._choice is None:
            return
        if not self._is_cut and self._choice.budget * NEAR <= self.nodes:
            return  # a tree as small as that has gone well before
        self._rounds += 1
        self._was_cut |= self._is_cut
        if self._rounds >= self.patience:
            self.nodes = max(self.nodes + 1, int(self.nodes * NEAR)) if self._was_cut else None
            self._rounds, self._was_cut = 0, False

    def _shrink(self, failed: Choice, tokens: Sequence[int], is_again: bool) -> None:
        """Half of the tree that failed, from now on; and its method as if that had never been grown.

        The patience is doubled if memory ran out at about this size before, but not by the second time in one round.
        """
        if not is_again:
            if failed.budget > self._failed * NEAR:
                self.patience = PATIENCE
            elif failed.budget * NEAR >= self._failed:
                self.patience = min(MOST_PATIENCE, 2 * self.patience)
            self._failed = failed.budget
        self.nodes, self._rounds, self._was_cut = failed.budget // 2, 0, False
        try:
            failed.method.prefill(tokens[:-1])
        except OutOfMemory:  # there is no memory even for the draft's way back
            self.nodes = 0
