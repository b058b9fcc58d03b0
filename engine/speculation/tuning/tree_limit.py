"""How big trees may be as far as memory goes: they shrink when it runs out, and grow again when it seems to be back."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import OutOfMemory
from engine.protocol.sentences import joined, say
from engine.speculation.interfaces import Choice, RoundResult

PLAIN_DEPTH = 0  # whatever the budget: the root alone, and no pass of the draft
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
        if self.nodes is not None and self._is_cut:
            choice = replace(choice, budget=max(1, self.nodes))
        if self._is_plain or self.nodes == 0:
            choice = replace(choice, depth=PLAIN_DEPTH)
        self._choice = choice
        return choice

    def rescue(self, attempt: Callable[[], RoundResult], tokens: Sequence[int], room: Callable[[], int]) -> RoundResult:
        """A round that may run out of memory: as it was chosen, then with half the tree, then with none.

        Not a fourth time: `OutOfMemory` then. `tokens`: prompt and answer, up to the root. A round that has
        written to the answer, so that `room` is another, is not begun again.
        """
        before = room()
        for is_plain in (False, True):
            self._choice = None
            try:
                result = attempt()
            except OutOfMemory as error:
                if room() != before or not self._has_tree():
                    raise
                self.shortage = error.with_traceback(None)  # its frames hold what the round had built up
            else:
                self._count_round()
                return result
            if not is_plain:
                self._lose_patience()
            self._shrink(tokens)
            self._is_plain = is_plain
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

    def _has_tree(self) -> bool:
        return self._choice is not None and self._choice.budget > 0 and self._choice.depth > PLAIN_DEPTH

    def _count_round(self) -> None:
        """Raise the limit after so many rounds that say something about it; lift it where it held nothing back."""
        if self.nodes is None or self._choice is None:
            return
        if not self._is_cut and self._choice.budget * NEAR <= self.nodes:
            return  # a tree as small as that has gone well before
        self._rounds += 1
        self._was_cut |= self._is_cut
        if self._rounds < self.patience:
            return
        self.nodes = max(self.nodes + 1, int(self.nodes * NEAR)) if self._was_cut else None
        self._rounds, self._was_cut = 0, False

    def _lose_patience(self) -> None:
        """Wait twice as long as the last time if memory has run out at about this size before."""
        assert self._choice
        size = self._choice.budget
        if size > self._failed * NEAR:
            self.patience = PATIENCE
        elif size * NEAR >= self._failed:
            self.patience = min(MOST_PATIENCE, 2 * self.patience)
        self._failed = size

    def _shrink(self, tokens: Sequence[int]) -> None:
        """Half of the tree that failed, from now on; and its method as if that had never been grown."""
        assert self._choice
        self.nodes = self._choice.budget // 2
        self._rounds, self._was_cut = 0, False
        try:
            self._choice.method.prefill(tokens[:-1])
        except OutOfMemory:  # there is no memory even for the draft's way back
            self.nodes = 0
