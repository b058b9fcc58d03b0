"""An n-gram index over the text: what followed the same tokens before, and how often that was right."""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from engine.speculation.trees.tree import Tree

INDEXED = 4  # the index holds n-grams of 1 to 4 tokens
LONGEST = 8  # matches longer than this count alike
LOOKED_AT = 64  # earlier places per lookup: the longest matches first, the most recent of them first
# How often the next token is one that came next before, by the length of the agreement in tokens: a careful guess, as
# long as the answer at hand has not shown it.
TRUST = (0.0, 0.05, 0.15, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65)
TRUST_TRIALS = 6.0  # what that counts for against what the answer shows

Place = tuple[int, int]
"""(the position in the text that comes next, how many tokens before it agree, at most `LONGEST`)"""


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

    def __init__(self) -> None:
        self._text: list[int] = []
        self._behind: list[dict[tuple[int, ...], list[int]]] = [{} for _ in range(INDEXED)]
        self._right = [trust * TRUST_TRIALS for trust in TRUST]
        self._tried = [TRUST_TRIALS for _ in TRUST]

    def read(self, text: Sequence[int]) -> None:
        """Read on in a text whose beginning is known. What comes behind the first reading goes into the record."""
        is_judged = bool(self._text)
        for token in text[len(self._text) :]:
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
            for token, probability, places in self._next(guess.places) if guess.depth < depth else ():
                if (longer := cost - math.log(probability)) <= -least:
                    heapq.heappush(frontier, (longer, next(order), _Guess(node, token, guess.depth + 1, places)))
        return Tree(tuple(tokens), tuple(parents), tuple(log_probs))

    def _next(self, places: Sequence[Place]) -> Iterator[tuple[int, float, list[Place]]]:
        """The tokens that came next: each with its probability, and the places behind it."""
        behind: dict[int, list[Place]] = {}
        say: dict[int, int] = {}
        for position, agreed in places:
            if position < len(self._text):
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
