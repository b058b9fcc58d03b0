"""Methods that need no draft model: plain decoding, and prompt lookup, alone or on top of another method."""

import heapq
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from torch import Tensor

from engine.picture_tokens import is_row
from engine.speculation.interfaces import Method, Sampling, TreeBounds
from engine.speculation.methods.verification import accept
from engine.speculation.trees.arrays import Numbers
from engine.speculation.trees.tree import Merged, Path, Tree, merge, root_only

LEAST = math.log(0.02)  # branches less likely than this are not worth a row of the target's pass
INDEXED = 4  # the index holds n-grams of 1 to 4 tokens
LONGEST = 8  # matches longer than this count alike
LOOKED_AT = 64  # earlier places per lookup: the longest matches first, the most recent of them first
# How often the next token is one that came next before, by the length of the agreement in tokens: a careful guess, as
# long as the answer at hand has not shown it.
TRUST = (0.0, 0.05, 0.15, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65)
TRUST_TRIALS = 6.0  # what that counts for against what the answer shows

Place = tuple[int, int]
"""(the position in the text that comes next, how many tokens before it agree, at most `LONGEST`)"""


class Autoregression:
    """Plain decoding, as a method like the others."""

    name = "none"

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling

    def prefill(self, tokens: Sequence[int]) -> None:
        """Nothing to read for."""

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The root alone, whatever the bounds."""
        del bounds
        return root_only(tokens[-1])

    def keep_drafting(self) -> bool:
        """Nothing to guess."""
        return False

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """The token that the target draws is the bonus token."""
        return accept(tree, logits, self._sampling, answer)

    def keep(self, path: Path) -> None:
        """Nothing to keep."""


@dataclass(frozen=True, slots=True)
class _Guess:
    """A candidate node: its parent, its token, and the places in the text that suggest it."""

    parent: int
    token: int
    depth: int
    places: list[Place]


class NgramIndex:
    """An index over a text that grows, and its record: how often one of its suggestions was right.

    Prompt lookup with several branches; no model is asked. A guess's probability is the record of agreements as long
    as its own, shared among the tokens that came next before. A place has twice the weight of one whose match is a
    token shorter, so that tokens behind long matches are likely, and among them the frequent ones.
    """

    def __init__(self, end_tokens: Set[int] = frozenset(), predicted: Sequence[int] = ()) -> None:
        """`end_tokens` end the answer: nothing is suggested behind them, whatever came there in the text.

        `predicted`: what somebody expects the answer to be; it suggests like a text before the text.
        """
        self._end_tokens = end_tokens
        self._predicted = len(predicted)
        self._text: list[int] = []
        self._behind: list[dict[tuple[int, ...], list[int]]] = [{} for _ in range(INDEXED)]
        self._right = [trust * TRUST_TRIALS for trust in TRUST]
        self._tried = [TRUST_TRIALS for _ in TRUST]
        for token in predicted:
            self._append(token)

    def read(self, text: Sequence[int]) -> None:
        """Read on in a text whose beginning is known. What comes behind the first reading goes into the record."""
        is_judged = len(self._text) > self._predicted
        for token in text[len(self._text) - self._predicted :]:
            if is_judged:
                self._judge(token)
            self._append(token)

    def branches(self, budget: int, depth: int, least: float) -> Tree:
        """The likeliest continuations behind the last token: at most `budget` nodes, at most `depth` deep.

        None is less likely than `least`, a cumulative log-probability.
        """
        tokens, parents, log_probs = list[int](), list[int](), list[float]()
        order = count()  # among equals the first found goes first, which is the most recent
        frontier = [(0.0, next(order), _Guess(-1, self._text[-1], 0, self._places()))]
        while frontier and len(tokens) <= budget:
            cost, _, guess = heapq.heappop(frontier)
            node = len(tokens)
            tokens.append(guess.token)
            parents.append(guess.parent)
            log_probs.append(-cost)
            goes_on = guess.depth < depth and (node == 0 or guess.token not in self._end_tokens)
            for token, probability, places in self._next(guess.places) if goes_on else ():
                if (longer := cost - math.log(probability)) <= -least:
                    heapq.heappush(frontier, (longer, next(order), _Guess(node, token, guess.depth + 1, places)))
        return Tree(tuple(tokens), tuple(parents), tuple(log_probs))

    def _next(self, places: Sequence[Place]) -> Iterator[tuple[int, float, list[Place]]]:
        """The tokens that came next: each with its probability, and the places behind it."""
        behind: dict[int, list[Place]] = {}
        say: dict[int, int] = {}
        for position, agreed in places:
            if position < len(self._text) and not is_row(self._text[position]):
                token = self._text[position]
                behind.setdefault(token, []).append((position + 1, min(agreed + 1, LONGEST)))
                say[token] = say.get(token, 0) + (1 << agreed)
        if behind:
            longest = max(agreed for _, agreed in places)
            trust = self._right[longest] / self._tried[longest] / sum(say.values())
            yield from ((token, trust * say[token], behind[token]) for token in behind)

    def _places(self) -> list[Place]:
        """Where the text was as it is at its end: the longest agreements first, the most recent of them first."""
        found: dict[int, int] = {}
        for length in range(INDEXED, 0, -1):
            for position in reversed(self._behind[length - 1].get(tuple(self._text[-length:]), ())):
                if position < len(self._text) and position not in found:
                    found[position] = length if length < INDEXED else self._agreed(position)
                if len(found) == LOOKED_AT:
                    return list(found.items())
        return list(found.items())

    def _agreed(self, position: int) -> int:
        length = INDEXED
        while length < min(LONGEST, position) and self._text[position - length - 1] == self._text[-length - 1]:
            length += 1
        return length

    def _judge(self, token: int) -> None:
        """Record whether this token would have been suggested."""
        if places := self._places():
            longest = max(agreed for _, agreed in places)
            self._tried[longest] += 1
            self._right[longest] += any(self._text[position] == token for position, _ in places)

    def _append(self, token: int) -> None:
        self._text.append(token)
        for length in range(1, min(INDEXED, len(self._text)) + 1):
            self._behind[length - 1].setdefault(tuple(self._text[-length:]), []).append(len(self._text))


class Lookup:
    """Another method's trees, with the text's own continuations among their nodes.

    They compete for the budget with the drafted nodes. The other method must accept paths of any tree, as SpecExec and
    plain decoding do; with plain decoding the text alone drafts (prompt lookup decoding).
    """

    def __init__(
        self, method: Method, name: str, end_tokens: Set[int] = frozenset(), predicted: Sequence[int] = ()
    ) -> None:
        """`name`: what the two together are called; `end_tokens`, `predicted`: see `NgramIndex`."""
        self.name = name
        self._method = method
        self._index = NgramIndex(end_tokens, predicted)
        self._merged: Merged | None = None

    def prefill(self, tokens: Sequence[int]) -> None:
        """Have read exactly `tokens`."""
        self._index.read(tokens)
        self._method.prefill(tokens)

    def grow(self, tokens: Sequence[int], bounds: TreeBounds) -> Tree:
        """The likeliest nodes of what is drafted and what was said before."""
        self._index.read(tokens)
        drafted = self._method.grow(tokens, bounds)
        is_full = drafted.drafted == bounds.budget
        least = min(drafted.scores or drafted.log_probs) if is_full else LEAST
        branches = self._index.branches(bounds.budget, bounds.depth, least)
        merged = self._merged = merge(drafted, branches, bounds.budget)
        if bounds.price:
            chosen = bounds.worthwhile(lambda: merged.tree)
            if chosen is None:
                chosen = merged.tree.best(bounds.size(partial(_probabilities, merged.tree)))
            self._merged = merged.cut(chosen)
        return self._merged.tree

    def keep_drafting(self) -> bool:
        """Let the method draft."""
        return self._method.keep_drafting()

    def accept(self, tree: Tree, logits: Tensor, answer: Sequence[int]) -> Path:
        """As the method accepts."""
        return self._method.accept(tree, logits, answer)

    def keep(self, path: Path) -> None:
        """Give the method the part of the path that is in its own tree; the token behind it is the bonus token."""
        assert self._merged, "a tree is grown before a path of it is kept"
        own: list[int] = []
        for node in path.nodes:
            origin = self._merged.origins[node]
            if origin is None:
                self._method.keep(Path(tuple(own), bonus=self._merged.tree.tokens[node]))
                return
            own.append(origin)
        self._method.keep(Path(tuple(own), path.bonus))


def _probabilities(tree: Tree) -> Numbers:
    """float64 [drafted]: of its nodes, the likeliest first."""
    probabilities: Numbers = np.exp(-np.sort(-np.array((tree.scores or tree.log_probs)[1:], dtype=np.float64)))
    return probabilities
