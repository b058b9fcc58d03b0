"""All that can happen: models that are tables, and a chance that is followed down every one of its branches."""

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from engine.speculation.methods.rng import NOTHING, Rng

Result = TypeVar("Result", bound=Hashable)


class TableModel:
    """A `Scorer` whose logits are drawn once for every text: the same whether it is read in a tree or alone."""

    def __init__(self, vocabulary: int, seed: int, spread: float = 1.5) -> None:
        self.vocabulary = vocabulary
        self._seed = seed
        self._spread = spread
        self._tokens: list[int] = []
        self._paths: list[list[int]] = []

    @property
    def length(self) -> int:
        return len(self._tokens)

    def logits(self, text: Sequence[int]) -> Tensor:
        numbers = random.Random(f"{self._seed} {list(text)}")
        return torch.tensor([numbers.gauss(0, self._spread) for _ in range(self.vocabulary)])

    def prefill(self, tokens: Sequence[int]) -> int:
        self._tokens, self._paths = list(tokens), []
        return 0

    def score(self, tokens: Sequence[int], parents: Sequence[int], last: int = 0) -> Tensor:
        for token, parent in zip(tokens, parents, strict=True):
            self._paths.append([*(self._paths[parent] if parent >= 0 else self._tokens), token])
        return torch.stack([self.logits(path) for path in self._paths[-(last or len(tokens)) :]])

    def keep(self, nodes: Sequence[int], rest: Sequence[int] = ()) -> None:
        assert not rest
        assert all(len(self._paths[node]) == self.length + 1 + place for place, node in enumerate(nodes))
        if nodes:
            self._tokens = self._paths[nodes[-1]]
        self._paths = []


def padded(drawn: Sequence[Sequence[int]]) -> Tensor:
    """int64 [n, most], as `Rng` hands out what it drew."""
    most = max(map(len, drawn))
    rows = [[*tokens, *[NOTHING] * (most - len(tokens))] for tokens in drawn]
    return torch.tensor(rows, dtype=torch.int64).view(len(drawn), most)


def unpadded(drawn: Tensor) -> list[list[int]]:
    """Of every row the tokens that were drawn."""
    return [[token for token in row if token != NOTHING] for row in drawn.tolist()]


class ForkedRng(Rng):
    """Decides as `script` says, then always for the first possible; `others` are the scripts of what else could be."""

    def __init__(self, script: list[int]) -> None:
        self.probability = 1.0
        self.others: list[list[int]] = []
        self._script = script
        self._step = 0

    def happens(self, probability: float) -> bool:
        return self._choose([min(1.0, probability), 1.0 - min(1.0, probability)]) == 0

    def pick(self, weights: Tensor) -> int:
        return self._choose((weights.double() / weights.double().sum()).tolist())

    def distinct(self, distributions: Tensor, counts: Sequence[int]) -> Tensor:
        drawn = []
        for row, count in zip(distributions.double(), counts, strict=True):
            left, tokens = row.clone(), list[int]()
            while len(tokens) < count and left.sum() > 0:
                tokens.append(self.pick(left))
                left[tokens[-1]] = 0
            drawn.append(tokens)
        return padded(drawn)

    def independent(self, distributions: Tensor, counts: Sequence[int]) -> Tensor:
        rows = zip(distributions, counts, strict=True)
        return padded([[self.pick(row) for _ in range(count)] for row, count in rows])

    def _choose(self, probabilities: list[float]) -> int:
        possible = [number for number, probability in enumerate(probabilities) if probability > 0]
        if self._step == len(self._script):
            self.others += [[*self._script, other] for other in possible[1:]]
            self._script.append(possible[0])
        choice = self._script[self._step]
        self._step += 1
        self.probability *= probabilities[choice]
        return choice


def probabilities(run: Callable[[ForkedRng], Result]) -> dict[Result, float]:
    """The exact probability of every result of `run`: the sum over all ways that lead to it."""
    found: dict[Result, float] = defaultdict(float)
    scripts: list[list[int]] = [[]]
    while scripts:
        rng = ForkedRng(scripts.pop())
        result = run(rng)
        found[result] += rng.probability
        scripts += rng.others
    return dict(found)
