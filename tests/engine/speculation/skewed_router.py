"""A router that is known: which experts tokens are sent to, by what they are and what the text is about."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from engine.speculation.interfaces import Choice, RoundResult
from engine.speculation.trees.tree import Tree
from tests.engine.speculation.simulation import Machine


@dataclass(frozen=True)
class Router:
    """Each of a token's `chosen` experts is its own with probability `by_token`, its topic's with `by_topic`.

    The others are any of the layer's, by the token's whole text; popular ones are likelier the larger `skew`.
    """

    layers: int = 12
    count: int = 64
    chosen: int = 4
    by_token: float = 0.5
    by_topic: float = 0.2
    skew: float = 0.0
    seed: int = 0

    def sets(self, path: Sequence[int], topic: int = 0) -> np.ndarray:
        """int64 [layers, chosen], ascending: for the last token of a path, whose last three tokens count."""
        return _sets(self, tuple(path[-3:]), topic)


@lru_cache(maxsize=1 << 16)
def _sets(router: Router, path: tuple[int, ...], topic: int) -> np.ndarray:
    chance = random.Random(f"{router.seed} {path} {topic}")
    found = []
    for layer in range(router.layers):
        of_token, of_topic = _usual(router, layer, f"token {path[-1]}"), _usual(router, layer, f"topic {topic}")
        experts: list[int] = []
        while len(experts) < router.chosen:
            point = chance.random()
            known = of_token if point < router.by_token else of_topic
            is_known = point < router.by_token + router.by_topic
            expert = chance.choice(known) if is_known else int(router.count * chance.random() ** (1 + router.skew))
            if expert not in experts:
                experts.append(expert)
        found.append(sorted(experts))
    return np.array(found)


@lru_cache(maxsize=1 << 16)
def _usual(router: Router, layer: int, name: str) -> tuple[int, ...]:
    return tuple(random.Random(f"{router.seed} {layer} {name}").sample(range(router.count), router.chosen))


@dataclass
class Record:
    """The last pass, as `engine.speculation.interfaces.Routing` tells of it."""

    router: Router
    choice: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))  # [rows, layers, chosen]

    @property
    def layers(self) -> range:
        return range(self.router.layers if len(self.choice) else 0)

    @property
    def count(self) -> int:
        return self.router.count

    def chosen(self, layer: int) -> Tensor:
        return torch.from_numpy(self.choice[:, layer])

    def read(self, tree: Tree, before: Sequence[int] = (), topic: int = 0) -> None:
        """A pass over a tree, behind this text."""
        paths = [[*before, tree.tokens[0]]]
        for parent, token in zip(tree.parents[1:], tree.tokens[1:], strict=True):
            paths.append([*paths[parent], token])
        self.choice = np.stack([self.router.sets(path, topic) for path in paths])

    @property
    def distinct(self) -> int:
        """Experts that the pass touched, of all layers."""
        return sum(len(np.unique(self.choice[:, layer])) for layer in self.layers)


@dataclass
class ExpertMachine(Machine):
    """A machine whose passes take `expert_seconds` for every expert that they touch, besides what their rows take."""

    expert_seconds: float = 0.0
    record: Record = field(default_factory=lambda: Record(Router()))

    @property
    def routing(self) -> Record:
        """Of its last pass."""
        return self.record

    def round(self, choice: Choice, number: int) -> RoundResult:
        """See `Machine.round`; the record is of its pass."""
        result = super().round(choice, number)
        self.record.read(result.tree, topic=number // 200)
        seconds = self.expert_seconds * self.record.distinct * self._wobble()
        return RoundResult(
            choice, result.tree, result.path, result.draft_seconds, result.target_seconds + seconds,
            result.seconds + seconds,
        )  # fmt: skip
