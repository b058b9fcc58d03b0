"""Trees that know which experts their nodes touch, against trees that do not: replayed on machines that are known.

python -m tests.bench.expert_trees [--prompt-count 5] [--max-new-tokens 48] [--starts 3] [--json]

The trees and texts are the embedded pair's, as in `tests.bench.auto_replay`; only which experts a token is sent to,
and the seconds, are a model's. `routing` says how much of a router's choice follows from the token's id and from the
topic: in published mixtures that is much in early layers and little in late ones. Seconds are told in those of a pass
over one row, of which experts take `share`.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

from engine.cli.progress import say
from engine.speculation.interfaces import Choice, MarginalCost, RoundResult
from engine.speculation.trees.tree import Path, Tree, root_only
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.throughput_model import ThroughputModel
from tests.bench.auto_replay import DEEPEST, Text, recorded
from tests.engine.speculation.simulation import Named
from tests.engine.speculation.skewed_router import Record, Router

WIDEST = 64  # nodes of the recorded trees
BUDGETS = (0, 1, 2, 4, 8, 16, 32, 64)
ROUTERS = {
    "by token": Router(8, by_token=0.7, by_topic=0.15),
    "mixed": Router(8, by_token=0.4, by_topic=0.2, skew=0.5),
    "independent": Router(8, by_token=0.0, by_topic=0.0),
}
MIXTURES = {"gpt-oss (4 of 128)": (128, 4), "Mixtral (2 of 8)": (8, 2)}
ROW, LEVEL, NODE = 0.01, 0.02, 0.002  # of the seconds of a pass over one row
NOISE = 0.05
SHARES = (0.6, 0.9)  # of a pass over one row, that its experts take: where the others stay in VRAM, and on a CPU
REPEATS, LEARNING_ROUNDS = 6, 60


@dataclass(frozen=True)
class Shared:
    """A target whose pass over one row takes a second, of which its experts take `share`."""

    router: Router
    share: float

    def seconds(self, record: Record, tree: Tree, levels: int, chance: random.Random | None) -> tuple[float, float]:
        """Of drafting and of the pass."""
        alone = self.router.layers * self.router.chosen
        draft = levels * LEVEL + tree.drafted * NODE
        target = 1.0 - self.share + ROW * tree.drafted + self.share * record.distinct / alone
        wobble = chance.lognormvariate(0.0, NOISE) if chance else 1.0
        return draft, target * wobble


class Replay:
    """The pair's texts on one such target."""

    def __init__(self, target: Shared) -> None:
        self.target, self.record = target, Record(target.router)

    def played(self, text: Text, place: int, choice: Choice, topic: int, chance: random.Random | None) -> RoundResult:
        """The round with this choice at this place."""
        answer, places = text
        depth = min(choice.depth, len(answer) - place - 1)
        grown: tuple[Tree, tuple[int, ...], int] = root_only(answer[place - 1] if place else 0), (0,), 0
        if choice.budget and depth > 0:
            grown = _grown(places[place], choice, depth)
        tree, nodes, levels = grown
        self.record.read(tree, answer[max(place - 3, 0) : max(place - 1, 0)], topic)
        draft, target = self.target.seconds(self.record, tree, levels, chance)
        path = Path(nodes, bonus=answer[place + len(nodes) - 1])
        return RoundResult(choice, tree, path, draft, target, draft + target)

    def fixed_rate(self, texts: Sequence[Text], budget: int) -> float:
        """Tokens per second of one budget, throughout."""
        seconds, tokens = 0.0, 0
        for topic, text in enumerate(texts):
            place = 0
            while place < len(text[0]):
                result = self.played(text, place, Choice(Named("specexec"), budget, DEEPEST), topic, None)
                place += len(result.tokens)
                seconds += result.seconds
            tokens += len(text[0])
        return tokens / seconds

    def auto_rate(self, texts: Sequence[Text], seed: int, knows: bool) -> tuple[float, float]:
        """Tokens per second of `auto`, and nodes of its trees, the median; the first rounds do not count."""
        chance, order = random.Random(seed), list(enumerate(list(texts) * REPEATS))  # a topic each
        chance.shuffle(order)
        auto = Auto(
            [Named("specexec")], Named("none"), ThroughputModel(), WIDEST, DEEPEST, clock=lambda: 0.0,
            routing=lambda: self.record if knows else None,
        )  # fmt: skip
        auto.prefill([0])
        rounds, seconds, tokens, nodes = 0, 0.0, 0, list[int]()
        for topic, text in order:
            is_counted, place = rounds >= LEARNING_ROUNDS, 0
            while place < len(text[0]):
                result = self.played(text, place, auto.choose([0, 0], len(text[0]) - place), topic, chance)
                auto.learn(result)
                rounds, place = rounds + 1, place + len(result.tokens)
                seconds += result.seconds * is_counted
                nodes += [result.tree.drafted] * is_counted
            tokens += len(text[0]) * is_counted
        return tokens / seconds, median(nodes)


def _grown(place: Any, choice: Choice, depth: int) -> tuple[Tree, tuple[int, ...], int]:
    if choice.price is None:
        tree, nodes = place.cut(choice.budget, depth)
        return tree, nodes, max(tree.depths)
    price: MarginalCost = choice.price
    found: tuple[Tree, tuple[int, ...], int] = place.worthwhile(price, depth)
    return found


def measure(texts: Sequence[Text], starts: int) -> list[dict[str, Any]]:
    """A row for every mixture, routing and share."""
    rows = []
    for mixture, (count, chosen) in MIXTURES.items():
        for routing, router in ROUTERS.items():
            for share in SHARES:
                replay = Replay(Shared(replace(router, count=count, chosen=chosen), share))
                fixed = {budget: replay.fixed_rate(texts, budget) for budget in BUDGETS}
                best = max(fixed, key=fixed.__getitem__)
                found = {
                    knows: [replay.auto_rate(texts, seed, knows) for seed in range(starts)] for knows in (True, False)
                }
                row = {"mixture": mixture, "routing": routing, "share": share, "best_budget": best}
                row |= {"plain": fixed[0], "best_fixed": fixed[best]}
                for knows, name in ((True, "knowing"), (False, "without")):
                    row[name] = mean(rate for rate, _ in found[knows])
                    row[f"{name}_nodes"] = mean(nodes for _, nodes in found[knows])
                rows.append(row)
                say(_line(row).rstrip())
    return rows


def main() -> None:
    """Record, replay, and print a line per mixture, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-count", type=int, default=5)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = measure(recorded(0.0, arguments, WIDEST), arguments.starts)
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_line, rows)))


def _line(row: dict[str, Any]) -> str:
    line = (
        "{mixture:<20}{routing:<13}{share:>4.0%}  one token {plain:.2f}  best fixed ({best_budget:>2}) {best_fixed:.2f}"
        "  auto {without:.2f} ({without_nodes:.1f} nodes)  knowing experts {knowing:.2f} ({knowing_nodes:.1f} nodes)\n"
    )
    return line.format(**row)


if __name__ == "__main__":
    main()
