"""How big trees may be as far as memory goes: they shrink when it runs out, and grow again when it seems to be back."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from engine.errors import OutOfMemory
from engine.protocol.sentences import joined, say
from engine.speculation.interfaces import Choice, RoundResult

PATIENCE = 4  # rounds without a shortage before the limit is raised
MOST_PATIENCE = 4096
NEAR = 1.5  # the most between two sizes that are about the same; and the step by which the limit is raised

_log = logging.getLogger(__name__)


class TreeLimit:
    """The most nodes a tree may have; None as long as memory has set no limit, 0 for plain decoding.

    A shortage may have been another program's, and over soon. After `patience` rounds at the limit it is raised by
    half, and lifted once trees as big as anybody asked for have gone well. Each further shortage at about the same size
    doubles the patience: where memory is short for good, ever fewer rounds are spent on finding out again. Once trees
    as big as the one that failed last go well, it is what it was. `drafted`: nodes of the round's tree, once it is
    grown.
    """

    def __init__(self, nodes: int | None = None, patience: int = PATIENCE) -> None:
        self.nodes = nodes
        self.patience = patience
        self.drafted = 0
        self.shortage: OutOfMemory | None = None  # the last one of this answer that was survived
        self._was_short = False  # in a round of this answer
        self._is_plain = False
        self._choice: Choice | None = None
        self._is_cut = False
        self._rounds = 0  # with trees as big as the limit allows, since it was set
        self._was_cut = False  # in any of these
        self._failed = 0 if nodes is None else 2 * nodes or 1  # the tree that memory ran out with last

    def begin(self) -> None:
        """Another answer begins: what happened in the one before need not be told again."""
        self.shortage, self._was_short = None, False

    def cut(self, choice: Choice) -> Choice:
        """The choice, with no bigger a tree than memory allows."""
        self._is_cut = self.nodes is not None and choice.budget > self.nodes
        budget = max(1, self.nodes or 0) if self._is_cut else choice.budget
        is_plain = self._is_plain or self.nodes == 0  # the root alone, whatever the budget, and no pass of the draft
        is_short = self._is_cut or self._is_plain
        self._was_short |= is_short
        depth, is_short = 0 if is_plain else choice.depth, is_short or choice.is_short
        self._choice = replace(choice, budget=budget, depth=depth, is_short=is_short)
        return self._choice

    def rescue(self, attempt: Callable[[], RoundResult], tokens: Sequence[int], room: Callable[[], int]) -> RoundResult:
        """A round that may run out of memory: as it was chosen, then with half the tree, then with none.

        Not a fourth time: `OutOfMemory` then. `tokens`: prompt and answer, up to the root. A round that has
        written to the answer, so that `room` is another, is not begun again.
        """
        before = room()
        for is_last in (False, True):
            self._choice, self.drafted = None, 0
            try:
                result = attempt()
            except OutOfMemory as error:
                failed = cast(Choice | None, self._choice)  # which the attempt has set, if it came so far
                if room() != before or not failed or not failed.budget or not failed.depth:
                    raise
                _log.warning("%s", error)
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
        """What memory has done to the trees of this answer, and what to do, for the person; empty if nothing."""
        if not self._was_short:
            return ""
        nodes = say("1 node") if self.nodes == 1 else say("{count} nodes", count=self.nodes)
        limit = say("Trees have at most {nodes}.", nodes=nodes)
        if not self.nodes:
            limit = say("Trees were smaller for a while.") if self.nodes is None else say("No trees are grown for now.")
        if self.shortage:
            return joined((self.shortage.message, limit, self.shortage.hint))
        return joined((say("Memory ran out with bigger trees before."), limit))

    def _count_round(self) -> None:
        """Raise the limit after so many rounds that say something about it; lift it where it held nothing back."""
        if self.nodes is None or self._choice is None:
            return
        if not self._is_cut and self._choice.budget * NEAR <= self.nodes > 0:
            return  # a tree as small as that has gone well before
        self._rounds += 1
        self._was_cut |= self._is_cut
        if self._rounds >= self.patience:
            self.patience = self.patience if self.nodes < self._failed else PATIENCE
            self.nodes = max(self.nodes + 1, int(self.nodes * NEAR)) if self._was_cut else None
            self._rounds, self._was_cut = 0, False

    def _shrink(self, failed: Choice, tokens: Sequence[int], is_again: bool) -> None:
        """Half of the tree that failed, from now on; and its method as if that had never been grown.

        The patience is doubled if memory ran out at about this size before, but not by the second time in one round.
        """
        nodes = min(failed.budget, self.drafted or failed.budget)  # a tree may have ended before its limit
        if not is_again:
            if nodes > self._failed * NEAR:
                self.patience = PATIENCE
            elif nodes * NEAR >= self._failed:
                self.patience = min(MOST_PATIENCE, 2 * self.patience)
            self._failed = nodes
        self.nodes, self._rounds, self._was_cut = nodes // 2, 0, False
        try:
            failed.method.prefill(tokens[:-1])
        except OutOfMemory:  # there is no memory even for the draft's way back
            self.nodes = 0
