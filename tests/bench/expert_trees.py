"""Trees that know which experts their nodes touch, against trees that do not: replayed on machines that are known.

python -m tests.bench.expert_trees [--prompt-count 8] [--max-new-tokens 64] [--starts 4] [--temperatures 0,0.6]
    [--json]

Texts, trees and routing are real: answers of the trained mixture (`tests.mixture_pair`) with trees of the embedded
draft, all of whose nodes its routers have seen. Only the seconds are a model's, told in those of a pass over one row,
of which experts take `share`: as many times as the pass touches different ones for every one that a row touches.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.cli.progress import say
from engine.engine import Engine
from engine.protocol.options import LoadOptions
from engine.speculation.interfaces import Choice, MarginalCost, RoundResult
from engine.speculation.trees.tree import Path, Tree, root_only
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.throughput_model import ThroughputModel
from engine.weights.streaming.experts.routing import RoutingRecord
from tests.bench.auto_replay import DEEPEST, Place, Text, recorded
from tests.engine.speculation.simulation import Named
from tests.hybrid_pair.corpus import EMBEDDED
from tests.mixture_pair.folders import assemble

WIDEST = 64  # nodes of the recorded trees
BUDGETS = (0, 1, 2, 4, 8, 16, 32, 64)
ROW, LEVEL, NODE = 0.01, 0.02, 0.002  # of the seconds of a pass over one row
NOISE = 0.05
SHARES = (0.4, 0.6, 0.9)  # of a pass over one row, that its experts take
REPEATS, LEARNING_ROUNDS = 4, 60

Choices = NDArray[np.int64]
"""Experts, [nodes, layers, chosen]."""


@dataclass
class Routed:
    """What the routers chose for every node of the trees at all places, and the last pass of a replay.

    It is told as `engine.speculation.interfaces.Routing` tells of a pass.
    """

    count: int = 0
    trees: dict[int, Choices] = field(default_factory=dict)  # by the identity of a place
    choice: Choices = field(default_factory=lambda: np.zeros((0, 0, 0), dtype=np.int64))
    _record: RoutingRecord | None = None

    def watch(self, engine: Engine, text: Sequence[int], place: Place) -> None:
        """Have the mixture score a place's tree, and note what its routers choose."""
        target = engine.target
        self._record = record = self._record or RoutingRecord.of(target.network.layers)
        assert record
        target.prefill(text[:-1])
        target.score(place.tree.tokens, place.tree.parents)
        target.keep([])
        self.count = record.count
        self.trees[id(place)] = np.stack([record.chosen(layer).numpy() for layer in record.layers], 1)

    @property
    def layers(self) -> range:
        """Those of the last pass."""
        return range(self.choice.shape[1] if len(self.choice) else 0)

    def chosen(self, layer: int) -> Tensor:
        """int64 [rows, chosen]."""
        return torch.from_numpy(self.choice[:, layer])

    def read(self, place: Place, tree: Tree) -> None:
        """A pass over a part of a place's tree."""
        nodes = [0]
        for parent, token in zip(tree.parents[1:], tree.tokens[1:], strict=True):
            node = place.tree.child(nodes[parent], token)
            assert node is not None
            nodes.append(node)
        self.choice = self.trees[id(place)][nodes]

    @property
    def times(self) -> float:
        """Different experts of the last pass, for every one that a row touches."""
        alone = len(self.layers) * self.choice.shape[2]
        distinct = sum(len(np.unique(self.choice[:, layer])) for layer in self.layers)
        return distinct / float(alone)


@dataclass
class Replay:
    """The texts on a target whose pass over one row takes a second, of which its experts take `share`."""

    texts: Sequence[Text]
    record: Routed
    share: float

    def played(self, text: Text, at: int, choice: Choice, chance: random.Random | None) -> RoundResult:
        """The round with this choice at this place."""
        answer, places = text
        depth = min(choice.depth, len(answer) - at - 1)
        grown: tuple[Tree, tuple[int, ...], int] = root_only(places[at].tree.tokens[0]), (0,), 0
        if choice.budget and depth > 0:
            grown = _grown(places[at], choice, depth)
        tree, nodes, levels = grown
        self.record.read(places[at], tree)
        draft = levels * LEVEL + tree.drafted * NODE
        target = 1.0 - self.share + ROW * tree.drafted + self.share * self.record.times
        target *= chance.lognormvariate(0.0, NOISE) if chance else 1.0
        path = Path(nodes, bonus=answer[at + len(nodes) - 1])
        return RoundResult(choice, tree, path, draft, target, draft + target)

    def fixed_rate(self, budget: int) -> float:
        """Tokens per second of one budget, throughout."""
        choice = Choice(Named("specexec"), budget, DEEPEST)
        return self._rate(self.texts, lambda _: choice, lambda _: None, None)[0]

    def auto_rate(self, seed: int, knows: bool) -> tuple[float, float]:
        """Tokens per second of `auto`, and nodes of its trees, the median; the first rounds do not count."""
        chance, order = random.Random(seed), list(self.texts) * REPEATS
        chance.shuffle(order)
        auto = Auto(
            [Named("specexec")], Named("none"), ThroughputModel(), WIDEST, DEEPEST, clock=lambda: 0.0,
            routing=lambda: self.record if knows else None,
        )  # fmt: skip
        auto.prefill([0])
        return self._rate(order, lambda room: auto.choose([0, 0], room), auto.learn, chance, LEARNING_ROUNDS)

    def _rate(
        self,
        texts: Sequence[Text],
        choose: Callable[[int], Choice],
        learn: Callable[[RoundResult], None],
        chance: random.Random | None,
        left_out: int = 0,
    ) -> tuple[float, float]:
        rounds, seconds, tokens, nodes = 0, 0.0, 0, list[int]()
        for text in texts:
            is_counted, at = rounds >= left_out, 0
            while at < len(text[0]):
                result = self.played(text, at, choose(len(text[0]) - at), chance)
                learn(result)
                rounds, at = rounds + 1, at + len(result.tokens)
                seconds += result.seconds * is_counted
                nodes += [result.tree.drafted] * is_counted
            tokens += len(text[0]) * is_counted
        return tokens / seconds, median(nodes)


def _grown(place: Place, choice: Choice, depth: int) -> tuple[Tree, tuple[int, ...], int]:
    if choice.price is None:
        tree, nodes = place.cut(choice.budget, depth)
        return tree, nodes, max(tree.depths)
    price: MarginalCost = choice.price
    return place.worthwhile(price, depth)


def measure(texts: Sequence[Text], record: Routed, temperature: float, starts: int) -> list[dict[str, Any]]:
    """A row for every share."""
    rows = []
    for share in SHARES:
        replay = Replay(texts, record, share)
        fixed = {budget: replay.fixed_rate(budget) for budget in BUDGETS}
        best = max(fixed, key=fixed.__getitem__)
        row = {"temperature": temperature, "share": share, "best_budget": best}
        row |= {"plain": fixed[0], "best_fixed": fixed[best]}
        for knows, name in ((True, "knowing"), (False, "without")):
            found = [replay.auto_rate(seed, knows) for seed in range(starts)]
            row[name] = mean(rate for rate, _ in found)
            row[f"{name}_nodes"] = mean(nodes for _, nodes in found)
        rows.append(row)
        say(_line(row).rstrip())
    return rows


def main() -> None:
    """Record, replay, and print a line per share, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-count", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--starts", type=int, default=4)
    parser.add_argument("--temperatures", default="0,0.6")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        mixture = str(assemble(File(folder) / "mixture"))
        for temperature in map(float, arguments.temperatures.split(",")):
            record, pair = Routed(), LoadOptions(mixture, str(EMBEDDED["draft"]), weights="float32")
            texts = recorded(temperature, arguments, WIDEST, pair, record.watch)
            rows += measure(texts, record, temperature, arguments.starts)
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_line, rows)))


def _line(row: dict[str, Any]) -> str:
    line = (
        "T = {temperature:<4g}{share:>4.0%}  one token {plain:.3f}  best fixed ({best_budget:>2}) {best_fixed:.3f}"
        "  auto {without:.3f} ({without_nodes:.1f} nodes)  knowing experts {knowing:.3f} ({knowing_nodes:.1f} nodes)\n"
    )
    return line.format(**row)


if __name__ == "__main__":
    main()
