"""Trees know which experts their nodes would touch, and find by themselves how few nodes pay."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.context import Context
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.experts.routed_sets import Shares
from engine.speculation.experts.selection import worthwhile
from engine.speculation.interfaces import Choice, Fixed, MarginalCost, Method, RoundResult, TreeBounds
from engine.speculation.methods.lookup import Lookup
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.speculation.trees.tree import Tree
from engine.speculation.tuning.expert_costs import ExpertCosts, ExpertPrices
from engine.speculation.tuning.expert_time import ExpertTime
from engine.weights.streaming.experts.routing import RoutingRecord
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, Silent, noisy_copy, random_prompt, write
from tests.engine.speculation.simulation import Machine, Trial, grow
from tests.engine.speculation.skewed_router import ExpertMachine, Record, Router
from tests.engine.tiny_models import tiny_network

CHANCES = st.integers(0, 1000).map(lambda seed: grow(12, 4, 0.7, seed))


def prices(tree: Tree, dear: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chances, what nodes touch, and what rows cost."""
    touched = np.random.default_rng(seed).random((len(tree), count), dtype=np.float32)
    return np.exp(np.array(tree.log_probs)), touched, np.arange(1.0, len(tree) + 1.0) * dear


def even(dear: float, rows: np.ndarray) -> np.ndarray:
    """Every expert costs as much, however large the tree is."""
    return np.full(len(rows), dear)


def worth(nodes: Sequence[int], chances: np.ndarray, touched: np.ndarray, dear: float, rows: np.ndarray) -> float:
    """Tokens of a tree, less what its rows and its experts cost."""
    untouched = (1.0 - touched[[0, *nodes]]).prod(0)
    experts = float((1.0 - untouched - touched[0]).sum())
    return float(chances[list(nodes)].sum()) - float(rows[len(nodes)]) - dear * experts


@settings(max_examples=choose(15, 200), deadline=None)
@given(CHANCES, st.floats(0.0, 0.3), st.floats(0.0, 0.2), st.integers(0, 99))
def test_what_is_chosen_is_a_tree_and_worth_more_than_none(tree: Tree, row: float, dear: float, seed: int) -> None:
    chances, touched, rows = prices(tree, row, 6, seed)
    nodes = worthwhile(chances, tree.parents, touched, even(dear, rows), rows)
    assert nodes == sorted(set(nodes))
    assert all(tree.parents[node] in (0, *nodes) for node in nodes)
    assert len(nodes) < len(rows)
    found = worth(nodes, chances, touched, dear, rows)
    assert found >= worth([], chances, touched, dear, rows) - 1e-5
    assert found >= worth(nodes[:1], chances, touched, dear, rows) - 1e-5


@settings(max_examples=choose(15, 100), deadline=None)
@given(CHANCES, st.floats(0.001, 0.3))
def test_where_experts_cost_nothing_it_is_the_tree_of_the_likeliest_nodes(tree: Tree, row: float) -> None:
    chances, touched, rows = prices(tree, row, 6, 0)
    nodes = worthwhile(chances, tree.parents, touched, even(0.0, rows), rows)
    size = MarginalCost(0.0, 0.0, 1.0, rows).best_size(np.sort(chances[1:])[::-1])
    assert sorted(chances[nodes]) == pytest.approx(sorted(np.sort(chances[1:])[::-1][:size]))


def test_of_two_nodes_as_likely_the_one_that_shares_its_experts_is_taken() -> None:
    touched = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0]], dtype=np.float32)
    chances, rows = np.array([1.0, 0.4, 0.4]), np.array([0.0, 0.1, 0.2])
    assert worthwhile(chances, (-1, 0, 0), touched, even(0.3, rows), rows) == [2]
    assert worthwhile(chances, (-1, 0, 0), touched, even(0.1, rows), rows) == [1, 2]
    assert worthwhile(chances, (-1, 0, 0), touched, even(0.0, rows), rows + np.array([0, 1, 1])) == []


def test_a_node_that_is_dear_by_itself_is_taken_if_what_follows_pays_for_it() -> None:
    touched = np.array([[0.0], *[[1.0]] * 4], dtype=np.float32)
    assert worthwhile(np.ones(5), (-1, 0, 1, 2, 3), touched, even(2.0, np.zeros(5)), np.zeros(5)) == [1, 2, 3, 4]


def mixture(share: float, seed: int, router: Router, row: float = 0.01) -> ExpertMachine:
    """A pass over one row takes a second, of which the experts take `share`."""
    return ExpertMachine(
        lambda rows: 1 - share + row * rows, 0.02, 0.002, chance=random.Random(seed),
        expert_seconds=share / (router.layers * router.chosen), record=Record(router),
    )  # fmt: skip


def rate(results: Sequence[RoundResult]) -> float:
    return sum(len(result.tokens) for result in results) / sum(result.seconds for result in results)


def test_with_dear_experts_trees_are_small_and_those_that_know_them_faster() -> None:
    found: dict[bool, list[float]] = {True: [], False: []}
    for knows, rates in found.items():
        for seed in range(choose(1, 4)):
            trial = Trial(mixture(0.9, seed, Router(4, 64, 2, by_token=0.75, by_topic=0.15)))
            if not knows:
                trial.auto._routing = lambda: None
            trial.run(60)
            results = trial.run(choose(60, 100))
            rates.append(rate(results))
            assert 1 <= np.mean([result.tree.drafted for result in results]) <= 14
            assert trial.throughput.experts.is_known == knows
    assert np.mean(found[True]) > 0.95 * np.mean(found[False])


def test_where_every_node_brings_experts_that_cost_more_than_it_gives_there_is_none() -> None:
    dear = mixture(0.98, 0, Router(4, 64, 2, by_token=0.0, by_topic=0.0), row=0.02)
    dear.sureness, dear.level_seconds = 0.6, 0.2
    trial = Trial(dear)
    trial.run(60)
    assert sum(not result.choice.budget for result in trial.run(40)) > 30


def test_what_a_router_chooses_at_random_is_not_foretold() -> None:
    trial = Trial(mixture(0.7, 0, Router(4, 64, 2, by_token=0.0, by_topic=0.0)))
    trial.run(60)
    experts = trial.throughput.experts
    assert experts.time.seconds_per_expert == pytest.approx(0.7 / 8, rel=0.3)
    assert not experts.is_known
    assert ExpertPrices(experts, 1.0).worthwhile(grow(8, 4, 0.8, 1), np.zeros(9)) is None


def test_a_target_without_experts_grows_the_trees_that_it_would_grow() -> None:
    class Empty(Machine):
        routing = Record(Router())  # no pass was recorded

    ways = [Trial(kind(lambda rows: 0.005 + 0.0002 * rows, 0.002, 0.0001)) for kind in (Machine, Empty)]
    trees = [[(each.tree, each.path, each.choice.budget) for each in trial.run(40)] for trial in ways]
    assert trees[0] == trees[1]
    assert all(trial.throughput.experts.predictor is None for trial in ways)


class Known(ExpertCosts):
    """Experts whose cost is known from the beginning; trees are counted that were grown by it."""

    grown = 0

    @property
    def is_known(self) -> bool:
        return self.predictor is not None

    def touched(self, tree: Tree) -> Shares:
        self.grown += 1
        return super().touched(tree)


class Priced(Fixed):
    """Every tree sizes itself, at a rate of one token a second and an expert's `seconds`."""

    def __init__(self, method: Method, costs: ExpertCosts, record: RoutingRecord | None) -> None:
        super().__init__(method, 24)
        self._costs, self._record = costs, record

    def choose(self, tokens: Sequence[int], room: int) -> Choice:
        rows = np.arange(1.0, 26.0) * 0.02
        price = MarginalCost(0.01, 0.0, 0.8, rows, ExpertPrices(self._costs, 1.0))
        return replace(super().choose(tokens, room), price=price)

    def learn(self, result: RoundResult) -> None:
        self._costs.observe(result, self._record, 1.0)


@pytest.mark.parametrize("sampling", [GREEDY, SamplingOptions(temperature=0.8, top_p=0.95, seed=3)])
@pytest.mark.parametrize("has_lookup", [False, True])
def test_text_is_the_target_s_own(has_lookup: bool, sampling: SamplingOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    target, draft = tiny_network("qwen3_moe"), noisy_copy("qwen3_moe")
    prompt, new = random_prompt(19, seed=3), choose(24, 80)
    plain = write(target, None, prompt, new, 0, sampling).tokens
    monkeypatch.setattr(ExpertTime, "seconds_per_expert", 0.01)
    costs, context, record = Known(), Context(target, 512), RoutingRecord.of(target.layers)
    sampler = Sampler(sampling, prompt, Uniforms(sampling.seed))
    method: Method = SpecExec(Context(draft, 512), sampler, SpeculationOptions(), target.vocabulary)
    strategy = Priced(Lookup(method, "lookup") if has_lookup else method, costs, record)
    context.prefill(prompt[:-1])
    strategy.prefill(prompt[:-1])
    answer = Answer(Silent(), frozenset(), new)
    results = list(rounds(Speculation(context, strategy, answer, Stopwatch(), reach=lambda: context.reach), prompt))
    assert answer.tokens == plain
    assert costs.grown >= len(results) - 1 > 0, "no tree was grown by its experts"
    assert len(results) < new
    assert len({result.tree.drafted for result in results}) > 2


def test_a_tree_of_priced_nodes_keeps_to_its_bounds() -> None:
    class Odd:
        """Every other of the likeliest nodes, with what is above it."""

        def worthwhile(self, tree: Tree, rows: np.ndarray) -> list[int]:
            assert tree.drafted < len(rows)
            return [node for node in range(1, len(tree)) if tree.parents[node] == 0]

    prompt = random_prompt(19, seed=3)
    method = SpecExec(
        Context(noisy_copy("llama"), 512), Sampler(GREEDY, prompt, Uniforms(0)), SpeculationOptions(), 131
    )
    method.prefill(prompt[:-1])
    price = MarginalCost(0.0, 0.0, 1.0, np.zeros(65))
    tree = method.grow(prompt, TreeBounds(12, 4, replace(price, nodes=Odd())))
    assert 0 < tree.drafted <= 12
    assert set(tree.depths) == {0, 1}
    assert all(math.isfinite(score) for score in tree.scores)
