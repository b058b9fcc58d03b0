"""A machine that is known through and through: what a round takes and gives there, without any model."""

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import numpy as np
import torch

from engine.speculation.interfaces import Choice, MarginalCost, RoundResult, Routing
from engine.speculation.trees.arrays import Integers, Numbers
from engine.speculation.trees.tree import Path, Tree, root_only
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.pass_time import PassTime
from engine.speculation.tuning.throughput_model import BUDGETS, DEPTHS, ThroughputModel

EXPERTS, CHOSEN = 128, 8  # of a mixture's layer, and of each token
TEXTS = 10  # trees that the true rate of a choice is averaged over


def from_disk_seconds(rows: float) -> float:
    """Of a pass of a mixture whose experts come from a disk, over so many rows that are routed on their own."""
    unused: float = (1.0 - CHOSEN / EXPERTS) ** rows
    return 0.25 + 0.1 * EXPERTS * (1.0 - unused)


@dataclass(frozen=True)
class Routed:
    """The `Routing` of a pass over so many rows, of a layer of a mixture: `own` of them are routed on their own.

    The others go where one of these goes.
    """

    rows: int
    own: int
    layers: tuple[int, ...] = (0,)
    count: int = EXPERTS

    def chosen(self, _layer: int) -> torch.Tensor:
        """int64 [rows, experts of a token]."""
        chance = torch.Generator().manual_seed(self.rows)
        every = torch.rand(self.own, self.count, generator=chance).topk(CHOSEN).indices
        return every[torch.arange(self.rows) % self.own]


def grow(budget: int, depth: int, sureness: float, seed: int) -> Tree:
    """The best `budget` nodes of a random tree; a likeliest child is accepted with a chance of about `sureness`."""
    tokens, parents, scores = [0], [-1], [0.0]
    frontier: list[tuple[float, int, int, int, float]] = []

    def put(parent: int, level: int, path: int) -> None:
        chance = _likeliest(path, sureness)
        for token in range(4):
            if chance > 1e-6:
                heapq.heappush(frontier, (-scores[parent] - math.log(chance), path * 5 + token, parent, level, chance))
            chance = (1 - chance) * 0.6 if token == 0 else chance * 0.5

    put(0, 1, seed * 7919 + 1)
    while frontier and len(tokens) <= budget:
        cost, path, parent, level, _ = heapq.heappop(frontier)
        tokens.append(path % 5)
        parents.append(parent)
        scores.append(-cost)
        if level < depth:
            put(len(tokens) - 1, level + 1, path + 1)
    return Tree(tuple(tokens), tuple(parents), tuple(scores))


@lru_cache(maxsize=1 << 18)
def _likeliest(path: int, sureness: float) -> float:
    """How likely the likeliest child is here, whatever the tree that is grown through here."""
    return random.Random(path).betavariate(8 * sureness, 8 * (1 - sureness))


def worthwhile(tree: Tree, price: MarginalCost, depth: int) -> tuple[list[int], int]:
    """What would have been kept of a tree at such a price, level by level: the nodes behind the root, ascending.

    Also the levels that were drafted for it, some of which may not have been worth being kept.
    """
    order, chances, depths = _by_chance(tree)
    last, known, levels = np.ones(1), depths < 0, 0
    while levels < min(depth, max(tree.depths)) and len(last) and (not levels or price.is_worth_reading(last)):
        levels += 1
        known = depths <= levels
        size = price.hopeful_size(chances[known])
        last = chances[known][:size][depths[known][:size] == levels]
    if price.nodes:
        among = np.sort(order[known][: len(price.rows) - 1])
        chosen = price.nodes.worthwhile(tree.cut(among.tolist()), price.rows)
        if chosen is not None:
            return [int(among[node - 1]) for node in chosen], levels
    return np.sort(order[known][: price.best_size(chances[known])]).tolist(), levels


def cut(tree: Tree, nodes: Sequence[int], levels: int) -> Tree:
    """These nodes alone, and of the others what the draft knew with so many levels."""
    made = tree.cut(nodes)
    return replace(made, left_out=tuple(each for each in made.left_out if each[1] <= levels))


@lru_cache(maxsize=256)
def _by_chance(tree: Tree) -> tuple[Integers, Numbers, Integers]:
    """Of the drafted nodes, the likeliest first: numbers, chances and depths."""
    chances = np.exp(np.array(tree.scores or tree.log_probs)[1:])
    order = np.argsort(-chances, kind="stable")
    return order + 1, chances[order], np.array(tree.depths)[1:][order]


def walk(tree: Tree, chance: random.Random) -> Path:
    """What a target accepts that follows the scores."""
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    nodes = [0]
    while True:
        here, point = nodes[-1], chance.random()
        for child in children.get(here, []):
            point -= math.exp(tree.log_probs[child] - tree.log_probs[here])
            if point < 0:
                nodes.append(child)
                break
        else:
            return Path(tuple(nodes), bonus=4)


@dataclass
class Machine:
    """Seconds of a pass over so many rows, of a draft level, and per drafted node; `rest` of a round besides.

    `hidden`: by how much of a second the pass becomes shorter for every second of drafting before it.
    """

    pass_seconds: Callable[[int], float]
    level_seconds: float
    node_seconds: float = 0.0
    rest_seconds: float = 0.0
    hidden: float = 0.0
    noise: float = 0.05
    sureness: float = 0.85
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def round(self, choice: Choice, number: int) -> RoundResult:
        """What a round with this choice comes to."""
        tree, levels = self._grown(choice, number)
        draft = self._draft_seconds(tree, levels) * self._wobble()
        target = self.pass_seconds(len(tree)) * self._wobble() - self.hidden * draft
        return RoundResult(choice, tree, walk(tree, self.chance), draft, target, draft + target + self.rest_seconds)

    def yields(self, choice: Choice) -> tuple[float, float]:
        """True tokens and seconds of a round with this choice, on average."""
        grown = [self._grown(choice, 100_000 + seed) for seed in range(TEXTS if choice.budget else 1)]
        if choice.price or not choice.budget:
            tokens = sum(sum(map(math.exp, tree.log_probs)) for tree, _ in grown)
        else:
            tokens = _tokens(choice.budget, choice.depth, self.sureness)
        drafting = sum(self._draft_seconds(tree, levels) for tree, levels in grown)
        passes = sum(self.pass_seconds(len(tree)) + self.rest_seconds for tree, _ in grown)
        return tokens / len(grown), ((1 - self.hidden) * drafting + passes) / len(grown)

    @property
    def routing(self) -> Routing | None:
        """Of its last pass: no mixture."""
        return None

    def rate(self, budget: int, depth: int) -> float:
        """True tokens per second of a fixed choice."""
        tokens, seconds = self.yields(Choice(Named(""), budget, depth))
        return tokens / seconds

    def best_rate(self, largest: int = 1024) -> float:
        """Of all fixed choices."""
        budgets = [budget for budget in BUDGETS if budget <= largest]
        return max(self.rate(0, 0), *(self.rate(budget, depth) for budget in budgets for depth in DEPTHS))

    def _grown(self, choice: Choice, number: int) -> tuple[Tree, int]:
        """The tree, and the levels that were drafted for it: a draft pass each."""
        if not choice.budget or not choice.depth:
            return root_only(0), 0
        tree = _tree(choice.budget, choice.depth, self.sureness, number)
        if not choice.price:
            return tree, max(tree.depths)
        nodes, levels = worthwhile(tree, choice.price, choice.depth)
        return cut(tree, nodes, levels), levels

    def _draft_seconds(self, tree: Tree, levels: int) -> float:
        return levels * self.level_seconds + tree.drafted * self.node_seconds

    def _wobble(self) -> float:
        return self.chance.lognormvariate(0.0, self.noise)


@cache
def _tree(budget: int, depth: int, sureness: float, seed: int) -> Tree:
    return grow(budget, depth, sureness, seed) if budget else root_only(0)


@cache
def _tokens(budget: int, depth: int, sureness: float) -> float:
    """What all the trees of a fixed choice give that its true rate is averaged over."""
    trees = (_tree(budget, depth, sureness, 100_000 + seed) for seed in range(TEXTS))
    return sum(sum(map(math.exp, tree.log_probs)) for tree in trees)


class Named:
    """A method that is only a name; reading is counted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reads = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        self.reads += 1

    def grow(self, *_: object) -> Tree:
        raise NotImplementedError

    def keep_drafting(self) -> bool:
        return False

    def accept(self, *_: object) -> Path:
        raise NotImplementedError

    def keep(self, path: Path) -> None:
        raise NotImplementedError


class Trial:
    """`Auto` on a simulated machine, a round at a time."""

    def __init__(
        self, machine: Machine, throughput: ThroughputModel | None = None, expected: PassTime | None = None
    ) -> None:
        self.machine = machine
        self.throughput = throughput or ThroughputModel()
        methods = [Named("specexec")], Named("none")
        self.auto = Auto(*methods, self.throughput, 1024, 32, lambda: 0.0, self._routing, expected)
        self.results: list[RoundResult] = []
        self.auto.prefill([0])

    def _routing(self) -> Routing | None:
        return self.machine.routing if isinstance(self.machine, Machine) else None

    def run(self, count: int) -> list[RoundResult]:
        """So many rounds; returns their results."""
        for _ in range(count):
            result = self.machine.round(self.auto.choose([0, 0], 10_000), len(self.results))
            self.auto.learn(result)
            self.results.append(result)
        return self.results[-count:]

    def rate(self, results: Sequence[RoundResult]) -> float:
        """True tokens per second of what was chosen in these rounds."""
        yields = [self.machine.yields(result.choice) for result in results]
        return sum(tokens for tokens, _ in yields) / sum(seconds for _, seconds in yields)
