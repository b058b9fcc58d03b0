"""`auto` against every fixed budget, replayed: the pair's real trees and texts, on machines that are known exactly.

python -m tests.bench.auto_replay [--prompt-count 16] [--max-new-tokens 96] [--starts 8] [--temperatures 0,0.6] [--json]

On a real machine a few percent drown in noise. Here the embedded pair drafts a tree at every place of every answer
once; what any budget and depth would have drafted there, and what the target would have accepted, is read off it. Only
the seconds are a model's: of a machine that streams from a disk, of one with half the disk's rate, and of one with
all weights in memory, of processors where every row costs, the last of these with a mixture's rows, that each need
other experts, and of mixtures whose experts come from a disk, with a plan that takes every row to be routed on its own,
as is so in the second of them alone; each with noise. `auto` starts cold, and is told what the
plan would expect of passes, wrong by some factor (`--expectation 0`: nothing); its first 20 rounds are left out, and
its first 30 are told apart, beside the best fixed budget over the same tokens. Every start takes the answers in
another order, twice.
"""

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

import torch

from engine.cli.bench import PROMPTS, read_prompts
from engine.cli.progress import say
from engine.cli.session import Session
from engine.engine import Engine
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import Choice, MarginalCost, RoundResult, TreeBounds
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.trees.tree import Path, Tree, root_only
from engine.speculation.tuning.auto import Auto
from engine.speculation.tuning.pass_time import PassTime
from engine.speculation.tuning.throughput_model import ThroughputModel
from tests.engine.speculation.simulation import Named, Routed, cut, from_disk_seconds, worthwhile

WIDEST = 512  # nodes of the recorded trees
BUDGETS = (2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384)
DEEPEST = 32
LEARNING_ROUNDS = 20
FIRST_ROUNDS = 30
EXPECTED_ROWS = (1, 5, 17, 33, 65, 129, 257, 513)


@dataclass(frozen=True)
class Pace:
    """Seconds of a pass by its rows, of a draft level and of a node, and of the rest of a round.

    `hidden`: the part of the drafting by which the pass becomes shorter, as its weights keep coming meanwhile. `told`:
    what a plan takes a pass to last, where that is something else; `routed`: what a mixture's routers chose.
    """

    name: str
    target: Callable[[int], float]
    level: float
    node: float
    rest: float
    hidden: float = 0.0
    noise: float = 0.08
    told: Callable[[int], float] | None = None
    routed: Callable[[int], Routed] | None = None

    def round(self, tree: Tree, levels: int, chance: random.Random | None) -> tuple[float, float, float]:
        """Of drafting so many levels, of the pass, and of all; without `chance` exactly what is to be expected."""
        draft, target = levels * self.level + tree.drafted * self.node, self.target(len(tree))
        if chance:
            draft, target = (part * chance.lognormvariate(0.0, self.noise) for part in (draft, target))
        target -= self.hidden * draft
        return draft, target, draft + target + self.rest


def from_disk(alike: float) -> Pace:
    """A mixture larger than memory, `rows ** alike` of whose rows are routed on their own."""
    return Pace(
        f"mixture from disk, {alike:g}",
        lambda rows: from_disk_seconds(rows**alike),
        0.003,
        0.0003,
        0.002,
        told=from_disk_seconds,
        routed=lambda rows: Routed(rows, math.ceil(rows**alike)),
    )


PACES = (
    Pace("resident", lambda rows: 0.0075 + 0.0002 * rows, 0.0027, 0.0005, 0.004),
    Pace("ssd", lambda rows: max(0.3, 0.165 + 0.00125 * rows), 0.003, 0.0001, 0.008, hidden=1.0),
    Pace("half", lambda rows: max(0.6, 0.165 + 0.00125 * rows), 0.003, 0.0001, 0.008, hidden=1.0),
    Pace("processor", lambda rows: 0.1 + 0.016 * rows, 0.006, 0.0005, 0.01),
    Pace("mixture", lambda rows: 0.01 + 0.046 * rows**0.9, 0.003, 0.0003, 0.002),
    from_disk(0.7),
    from_disk(1.0),
    Pace("ssd, dear rows", lambda rows: max(0.85, 0.3 + 0.03 * rows), 0.006, 0.0003, 0.01, hidden=1.0),
)


class Place:
    """One place of an answer: the widest tree there, its nodes in the order in which budgets take them."""

    def __init__(self, tree: Tree, answer: Sequence[int]) -> None:
        """`answer`: the tokens from this place on."""
        self.tree = tree
        self._order = sorted(range(1, len(tree)), key=lambda node: -(tree.scores or tree.log_probs)[node])
        self._path = [0]
        for token in answer:
            child = tree.child(self._path[-1], token)
            if child is None:
                break
            self._path.append(child)
        self._cuts: dict[tuple[int, int], tuple[Tree, tuple[int, ...]]] = {}

    def cut(self, budget: int, depth: int) -> tuple[Tree, tuple[int, ...]]:
        """The tree of such a budget and depth, and what is accepted of it."""
        if (budget, depth) not in self._cuts:
            self._cuts[budget, depth] = self._cut(budget, depth)
        return self._cuts[budget, depth]

    def worthwhile(self, price: MarginalCost, depth: int) -> tuple[Tree, tuple[int, ...], int]:
        """The tree that is worth its price, what is accepted of it, and the levels drafted for it."""
        nodes, levels = worthwhile(self.tree, price, depth)
        return *self._with(nodes, levels), levels

    def _cut(self, budget: int, depth: int) -> tuple[Tree, tuple[int, ...]]:
        tree = self.tree
        return self._with(sorted([node for node in self._order if tree.depths[node] <= depth][:budget]), 0)

    def _with(self, nodes: Sequence[int], levels: int) -> tuple[Tree, tuple[int, ...]]:
        number = {0: 0, **{node: new for new, node in enumerate(nodes, start=1)}}
        return cut(self.tree, nodes, levels), tuple(number[node] for node in self._path if node in number)


Text = tuple[list[int], list[Place]]


def recorded(
    temperature: float,
    arguments: argparse.Namespace,
    widest: int = WIDEST,
    pair: LoadOptions = LoadOptions(),  # noqa: B008  # frozen
    watch: Callable[[Engine, Sequence[int], Place], None] = lambda *_: None,
) -> list[Text]:
    """A pair's answers, and at every place of each the widest tree, of so many nodes.

    `watch` is shown every place, with the text before it; the target has read that of the last one.
    """
    sampling = SamplingOptions(temperature, top_p=0.9 if temperature else 1.0)
    options = GenerateOptions(sampling, SpeculationOptions("specexec", 64), arguments.max_new_tokens)
    texts: list[Text] = []
    with tempfile.TemporaryDirectory() as cache:
        session = Session(replace(pair, cache_dir=cache), quiet=True)
        engine = session.engine
        assert engine.draft
        for chat in read_prompts(str(PROMPTS), arguments.prompt_count):
            prompt = engine.prompt(chat)
            answer = session.collect(prompt, options).token_ids
            sampler = Sampler(sampling, prompt.tokens, Uniforms(0), prompt.answer)
            method = SpecExec(engine.draft, sampler, options.speculation, engine.target.network.vocabulary)
            places = []
            with torch.inference_mode():
                for place in range(len(answer)):
                    text = [*prompt.tokens, *answer[:place]]
                    method.prefill(text[:-1])
                    places.append(Place(method.grow(text, TreeBounds(widest, DEEPEST)), answer[place:]))
                    watch(engine, text, places[-1])
            texts.append((answer, places))
            say(f"T = {temperature:g}: {len(answer)} trees recorded")
        engine.close()
    return texts


def played(text: Text, place: int, choice: Choice, pace: Pace, chance: random.Random | None) -> RoundResult:
    """The round with this choice at this place."""
    answer, places = text
    depth = min(choice.depth, len(answer) - place - 1)
    grown: tuple[Tree, tuple[int, ...], int] = root_only(0), (0,), 0
    if choice.price and depth > 0:
        grown = places[place].worthwhile(choice.price, depth)
    elif choice.budget and depth > 0:
        tree, nodes = places[place].cut(choice.budget, depth)
        grown = tree, nodes, max(tree.depths)
    tree, nodes, levels = grown
    path = Path(nodes, bonus=answer[place + len(nodes) - 1])
    return RoundResult(choice, tree, path, *pace.round(tree, levels, chance))


def fixed_rate(texts: Sequence[Text], budget: int, pace: Pace) -> float:
    """Tokens per second of one budget, throughout."""
    choice, seconds, tokens = Choice(Named("specexec"), budget, DEEPEST), 0.0, 0
    for text in texts:
        place = 0
        while place < len(text[0]):
            result = played(text, place, choice, pace, None)
            place += len(result.tokens)
            seconds += result.seconds
        tokens += len(text[0])
    return tokens / seconds


def expected(pace: Pace, wrong_by: float, chance: random.Random) -> PassTime | None:
    """What a plan would have told of its passes: seconds and rows each wrong by some factor; None for 0."""
    if not wrong_by:
        return None
    rows, cost = (chance.lognormvariate(0.0, wrong_by) for _ in range(2))
    seconds = tuple(cost * (pace.told or pace.target)(round(1 + (each - 1) * rows)) for each in EXPECTED_ROWS)
    return PassTime(tuple(map(float, EXPECTED_ROWS)), seconds)


def auto_over_best(
    texts: Sequence[Text], pace: Pace, best_budget: int, seed: int, wrong_by: float, widest: int
) -> tuple[float, float]:
    """The rate of `auto` over that of the budget that is best for all texts: on the texts after its first rounds, and
    in its first rounds.
    """
    chance = random.Random(seed)
    order, none = list(texts) * 2, Named("none")
    chance.shuffle(order)
    told = expected(pace, wrong_by, random.Random(1000 + seed))
    routed: list[Routed] = []
    auto = Auto(
        [Named("specexec")],
        none,
        ThroughputModel(),
        widest,
        DEEPEST,
        clock=lambda: 0.0,
        routing=lambda: routed[-1] if routed else None,
        expected=told,
    )
    auto.prefill([0])
    rounds, tokens, seconds, first, counted = 0, 0, 0.0, 0.0, []
    for text in order:
        is_counted, place = rounds >= LEARNING_ROUNDS, 0
        while place < len(text[0]):
            result = played(text, place, auto.choose([0, 0], len(text[0]) - place), pace, chance)
            routed = [pace.routed(len(result.tree))] if pace.routed else []
            auto.learn(result)
            taken = played(text, place, result.choice, pace, None).seconds
            rounds, place = rounds + 1, place + len(result.tokens)
            seconds += taken * is_counted
            if rounds <= FIRST_ROUNDS:
                first, tokens = first + taken, tokens + len(result.tokens)
        counted += [text] * is_counted
    later = sum(len(answer) for answer, _ in counted) / seconds / fixed_rate(counted, best_budget, pace)
    return later, fixed_seconds(order, best_budget, pace, tokens) / first


def fixed_seconds(texts: Sequence[Text], budget: int, pace: Pace, tokens: int) -> float:
    """What one budget takes for so many tokens of these texts; the last round counts as far as it is needed."""
    choice, seconds = Choice(Named("specexec"), budget, DEEPEST), 0.0
    for text in texts:
        place = 0
        while place < len(text[0]) and tokens > 0:
            result = played(text, place, choice, pace, None)
            place += len(result.tokens)
            seconds += result.seconds * min(1.0, tokens / len(result.tokens))
            tokens -= len(result.tokens)
    return seconds


def main() -> None:
    """Record, replay, and print a line per machine and temperature, or one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt-count", type=int, default=16)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--temperatures", default="0,0.6")
    parser.add_argument("--widest", type=int, default=WIDEST, help="nodes of the largest trees")
    parser.add_argument("--expectation", type=float, default=0.3, help="how wrong the plan's pass times are; 0: none")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for temperature in map(float, arguments.temperatures.split(",")):
        texts = recorded(temperature, arguments, arguments.widest)
        for pace in PACES:
            best = max((0, *BUDGETS), key=lambda budget: fixed_rate(texts, budget, pace))
            starts = [
                auto_over_best(texts, pace, best, seed, arguments.expectation, arguments.widest)
                for seed in range(arguments.starts)
            ]
            found, first = (sorted(each) for each in zip(*starts, strict=True))
            row = {"machine": pace.name, "temperature": temperature, "best_budget": best}
            row |= {"over_best": mean(found), "least": found[0], "most": found[-1]}
            rows.append({**row, "first": mean(first), "first_least": first[0]})
            say("{machine:<14} T = {temperature:g}: {over_best:.3f} ({least:.2f} to {most:.2f})".format(**rows[-1]))
    sys.stdout.write(json.dumps({"rows": rows}) + "\n" if arguments.json else "".join(map(_line, rows)))


def _line(row: dict[str, Any]) -> str:
    line = (
        "{machine:<14}{temperature:>5g}  best fixed {best_budget:>4}  {over_best:.3f}, from {least:.2f} to {most:.2f}"
    )
    line += "; in the first rounds {first:.3f}, from {first_least:.2f}"
    return line.format(**row) + "\n"


if __name__ == "__main__":
    main()
