"""What trees of every size would have given over all answers of a pair, so that a plan foretells the mean of them.

The automatic choice cannot tell that: it adapts to the text at hand, and where its trees are small it sees little of
larger ones. So the draft alone reads an answer once more when it is finished, and grows at each place the tree that
would have been grown there: the answer says what the target would have accepted of it.
"""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from engine.speculation.interfaces import Method, TreeBounds
from engine.speculation.trees.arrays import Numbers, State, figures, shortened
from engine.speculation.trees.tree import Path, Tree
from engine.speculation.tuning.pass_time import PassTime
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, PRIOR_TOKENS, AcceptanceModel

FADING = 0.998  # what a tree counts for when the next one is seen: 500 trees are some dozens of answers
NODES = (16, 64)  # of the trees that are grown: they tell of smaller ones within 6 %, of twice as large ones within 10
FEW = 100  # trees, up to which it takes up to so many
SEGMENT = 64  # tokens that are read at a stretch
GOLDEN = 0.618
RECENT = 8  # answers that say how long drafting takes
SECONDS = 0.5  # for an answer; later on no more than this
PART = 0.02  # of what the answer took


def size_of_replay(drafted: int, passes: int) -> int:
    """Nodes of the trees to grow along an answer that had so many: about as large, as they tell most of such ones.

    Trees begin where the one before was wrong, and larger ones are wrong in harder places.
    """
    least, most = NODES
    return max(least, min(round(drafted / max(1, passes)), most))


class TreeRecord:
    """Tokens per pass against budget and depth, as in an `AcceptanceModel`, of answers instead of the last trees.

    Every tree counts, also the one that an answer ends in: its tokens are what comes, too.
    """

    def __init__(self) -> None:
        self._sums = np.zeros((len(BUDGETS), len(DEPTHS)))  # of the probabilities of drafted nodes
        self.levels = np.zeros_like(self._sums)
        self._trees = self._accepted = self._promised = 0.0
        self._drafting: list[tuple[float, float]] = []  # of the last answers: nodes and seconds of a level

    @property
    def state(self) -> State:
        """What was learnt, to be kept."""
        sizes = {"sums": shortened(self._sums), "levels": shortened(self.levels)}
        counts = {"counts": shortened([self._trees, self._accepted, self._promised])}
        return {**sizes, **counts, "drafting": [shortened(list(each)) for each in self._drafting]}

    @classmethod
    def restored(cls, state: State) -> "TreeRecord":
        """As it was kept; raises for what is no state."""
        record, shape = cls(), (len(BUDGETS), len(DEPTHS))
        record._sums, record.levels = figures(state["sums"], shape, 0.0), figures(state["levels"], shape, 0.0)
        record._trees, record._accepted, record._promised = figures(state["counts"], (3,), 0.0).tolist()
        for each in state["drafting"]:
            nodes, seconds = figures(each, (2,), 1e-9).tolist()
            record._drafting.append((nodes, seconds))
        return record

    @property
    def trees(self) -> float:
        """How many it rests on, less what faded."""
        return self._trees

    @property
    def tokens(self) -> Numbers:
        """[len(BUDGETS), len(DEPTHS)]: tokens of a pass, the bonus token included."""
        honesty = (PRIOR_TOKENS + self._accepted) / (PRIOR_TOKENS + self._promised)
        return 1.0 + honesty * self._sums

    @property
    def drafting(self) -> PassTime | None:
        """Seconds of a level against its nodes, of trees that go on with what was found before; None before any."""
        if not self._drafting:
            return None
        nodes, seconds = (median(column) for column in zip(*self._drafting, strict=True))
        return PassTime((max(1.0, nodes),), (seconds,))

    def add(self, tree: Tree, path: Path, budget: int, depth: int) -> None:
        """A tree that was grown with these limits, and what was accepted of it."""
        alone = AcceptanceModel()
        alone.observe(tree, path, budget, depth)
        self._trees = self._trees * FADING + 1.0
        self._sums += ((alone.tokens - 1.0) / alone.honesty - self._sums) / self._trees
        self.levels += (alone.levels - self.levels) / self._trees
        self._accepted = self._accepted * FADING + len(path.nodes) - 1
        promised = float(np.exp(tree.scores or tree.log_probs)[1:].sum())
        self._promised = self._promised * FADING + promised

    def replay(
        self,
        method: Method,
        prompt: Sequence[int],
        answer: Sequence[int],
        bounds: TreeBounds,
        seconds: float,
        context_tokens: int = sys.maxsize,
    ) -> None:
        """Grow trees behind the prompt and along its answer, as long as there is time; what the method read is lost.

        All parts of the answer are as likely to be read: the beginning is not like the rest. `seconds` that writing the
        answer took; `context_tokens`: no tree goes beyond so many tokens, as none of the answer's did.
        """
        most = SECONDS if self._trees < FEW else min(SECONDS, PART * seconds)
        spent = _Drafting(time.perf_counter() + most)
        for begin in _in_turns(range(0, len(answer), SEGMENT), int(self._trees)):
            if not spent.has_time:
                break
            self._replay(method, prompt, answer, begin, bounds, spent, context_tokens)
        if spent.levels:
            self._drafting = [*self._drafting, (spent.nodes / spent.levels, spent.seconds / spent.levels)][-RECENT:]

    def _replay(
        self,
        method: Method,
        prompt: Sequence[int],
        answer: Sequence[int],
        begin: int,
        bounds: TreeBounds,
        spent: "_Drafting",
        context_tokens: int,
    ) -> None:
        """The same from one place of the answer, for a segment.

        Its first tree counts at the very beginning alone: elsewhere it stands at any token, while trees of answers
        begin where the draft had just been wrong, and so in hard parts more often than in easy ones.
        """
        text = [*prompt, *answer]
        first, end = len(prompt) + begin, min(len(prompt) + begin + SEGMENT, len(text))
        method.prefill(text[: first - 1])
        done = first
        while done < end and spent.has_time:
            start, limits = time.perf_counter(), replace(bounds, depth=min(bounds.depth, context_tokens - done))
            tree = method.grow(text[:done], limits)
            seconds = time.perf_counter() - start
            path = _followed(tree, text[done:])
            method.keep(path)
            if tree.drafted and (done > first or begin == 0):
                self.add(tree, path, limits.budget, limits.depth)
            if tree.drafted and done > first:  # the first one reads what is before it, too
                spent.add(tree, seconds)
            done += len(path.nodes)


@dataclass(slots=True)
class _Drafting:
    """Nodes, levels and seconds of some trees, and until when there may be more."""

    until: float
    nodes: int = 0
    levels: int = 0
    seconds: float = 0.0

    @property
    def has_time(self) -> bool:
        """Whether there may be another tree."""
        return time.perf_counter() < self.until

    def add(self, tree: Tree, seconds: float) -> None:
        """One that took so long."""
        self.nodes, self.levels = self.nodes + tree.drafted, self.levels + max(tree.depths)
        self.seconds += seconds


def _in_turns(places: Sequence[int], first: int) -> Iterator[int]:
    """Every place once, in steps of about the golden ratio, and each time from another one on."""
    count = len(places)
    step = next((one for one in range(round(GOLDEN * count), count) if math.gcd(one, count) == 1), 1)
    for number in range(count):
        yield places[(first + number * step) % count]


def _followed(tree: Tree, answer: Sequence[int]) -> Path:
    """The path that an answer takes through a tree; its last token is no node, even where there is one."""
    nodes = [0]
    for token in answer[:-1]:
        child = tree.child(nodes[-1], token)
        if child is None:
            break
        nodes.append(child)
    return Path(tuple(nodes), answer[len(nodes) - 1])
