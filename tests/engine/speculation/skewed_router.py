"""A router that is known: which experts tokens are sent to, by what they are and what the text is about."""

import zlib
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

    The others are any of the layer's, by the whole text; some are likelier, the more so the larger `skew`.
    """

    layers: int = 12
    count: int = 64
    chosen: int = 4
    by_token: float = 0.5
    by_topic: float = 0.2
    skew: float = 0.0
    seed: int = 0

    def sets(self, path: Sequence[int], topic: int = 0, salt: int = 0) -> np.ndarray:
        """int64 [layers, chosen]: for the last of these tokens, behind the others."""
        chance = np.random.default_rng(zlib.crc32(repr((self.seed, path, topic, salt)).encode()))
        shape = self.layers, 4 * self.chosen
        point, place = chance.random(shape), chance.integers(self.chosen, size=shape[1])
        of_token, of_topic = (_usual(self, name)[:, place] for name in (path[-1], -topic - 1))
        others = (self.count * chance.random(shape) ** (1 + self.skew)).astype(np.int64)
        wanted = np.where(point < self.by_token + self.by_topic, of_topic, others)
        wanted = np.where(point < self.by_token, of_token, wanted)
        rest = range(self.count)
        return np.array([list(dict.fromkeys([*experts, *rest]))[: self.chosen] for experts in wanted.tolist()])


@lru_cache(maxsize=1 << 16)
def _usual(router: Router, name: int) -> np.ndarray:
    """int64 [layers, chosen]: the experts of a token, or, below 0, of a topic."""
    chance = np.random.default_rng(zlib.crc32(repr((router.seed, name)).encode()))
    return chance.permuted(np.tile(np.arange(router.count), (router.layers, 1)), axis=1)[:, : router.chosen]


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

    def read(self, tree: Tree, before: Sequence[int] = (), topic: int = 0, salt: int = 0) -> None:
        """A pass over a tree, behind this text; see `Router.sets`."""
        paths = [[*before, tree.tokens[0]]]
        for parent, token in zip(tree.parents[1:], tree.tokens[1:], strict=True):
            paths.append([*paths[parent], token])
        self.choice = np.stack([self.router.sets(path, topic, salt) for path in paths])

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
        self.record.read(result.tree, topic=number // 200, salt=number)
        seconds = self.expert_seconds * self.record.distinct * self._wobble()
        return RoundResult(
            choice, result.tree, result.path, result.draft_seconds, result.target_seconds + seconds,
            result.seconds + seconds,
        )  # fmt: skip
