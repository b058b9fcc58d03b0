"""A tree that knows what a node costs ends where more are not worth it, and never earlier."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.context import Context
from engine.protocol.options import SpeculationOptions
from engine.speculation.interfaces import MarginalCost, TreeBounds
from engine.speculation.methods.lookup import Autoregression, Lookup
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.trees.tree import Tree
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import GREEDY, noisy_copy, random_prompt
from tests.engine.speculation.simulation import grow, worthwhile

NOTHING = 1e-9


def priced(level: float, rows: Sequence[float], node: float = 0.0, carried: float = 1.0) -> MarginalCost:
    return MarginalCost(level, node, carried, np.array(rows))


def even(row: float, level: float = NOTHING, most: int = 64) -> MarginalCost:
    """Every row costs the same."""
    return priced(level, [1.0 + row * nodes for nodes in range(most + 1)])


@settings(max_examples=choose(20, 100), deadline=None)
@given(
    chances=st.lists(st.floats(0.0, 1.0), max_size=30).map(lambda found: sorted(found, reverse=True)),
    rows=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=40).map(sorted),
)
def test_the_best_size_is_worth_most_of_all(chances: list[float], rows: list[float]) -> None:
    worth = [sum(chances[:size]) - rows[size] for size in range(min(len(chances) + 1, len(rows)))]
    size = priced(1.0, rows).best_size(np.array(chances))
    assert worth[size] == pytest.approx(max(worth))


def test_what_any_tree_costs_more_than_none_is_paid_in_the_end_and_not_on_the_way() -> None:
    """A row beside the root costs 3 tokens, all others nothing: four sure nodes are worth it, two are not."""
    price = priced(0.1, [1.0, 4.0, 4.0, 4.0, 4.0])
    sure = np.ones(4)
    assert price.best_size(sure[:2]) == 0
    assert price.hopeful_size(sure[:2]) == 2
    assert price.best_size(sure) == 4


def test_a_row_that_is_dear_by_itself_does_not_end_a_tree_that_may_grow_beyond_it() -> None:
    """The third node costs 2 tokens, by noise or by how rows are tiled, and the next 30 nothing."""
    price = priced(0.1, [1.0, 1.0, 1.0] + [3.0] * 31)
    likely = np.full(33, 0.5)
    assert price.hopeful_size(likely[:4]) == 4
    assert price.best_size(likely[:4]) == 2
    assert price.best_size(likely) == 33


def test_a_draft_pass_is_worth_what_it_is_expected_to_find() -> None:
    price = priced(0.3, [1.0], node=0.1, carried=0.5)
    assert price.is_worth_reading(np.array([0.9]))
    assert not price.is_worth_reading(np.array([0.7]))
    assert not price.is_worth_reading(np.array([0.7, 0.1])), "a node more costs more than it may bring"


def drafter() -> tuple[SpecExec, list[int], Sampler]:
    prompt = random_prompt(19, seed=3)
    sampler = Sampler(GREEDY, prompt, Uniforms(0))
    method = SpecExec(Context(noisy_copy("llama"), 512), sampler, SpeculationOptions(), 131)
    method.prefill(prompt[:-1])
    return method, prompt, sampler


def drafted(price: MarginalCost | None, budget: int = 64, depth: int = 32) -> Tree:
    method, prompt, _ = drafter()
    return method.grow(prompt, TreeBounds(budget, depth, price))


def test_where_nothing_costs_anything_the_tree_is_the_whole_budget() -> None:
    assert replace(drafted(priced(0.0, [1.0] * 65)), left_out=()) == drafted(None)


def test_where_levels_cost_more_than_they_can_bring_there_is_one_and_where_rows_do_there_is_none() -> None:
    """That a tree is worth its first level is known by who asks for one."""
    assert max(drafted(even(0.01, level=2.0)).depths) == 1
    assert drafted(even(1.5)).drafted == 0


@pytest.mark.parametrize("row", [0.1, 0.04, 0.02])
def test_every_node_is_worth_its_row_and_none_is_missed(row: float) -> None:
    """Rows cost the same each and levels next to nothing: the tree has just the nodes likelier than a row is dear."""
    tree, everything = drafted(even(row)), drafted(None, budget=1024)
    assert all(math.exp(log_prob) >= row for log_prob in tree.log_probs)
    expected = min(sum(math.exp(log_prob) > row for log_prob in everything.log_probs[1:]), 64)
    assert tree.drafted == expected > 0


def test_a_dear_level_makes_a_shallower_tree() -> None:
    free, dear = drafted(even(0.02)), drafted(even(0.02, level=0.9))
    assert 0 < max(dear.depths) < max(free.depths)


def test_the_limits_hold_at_any_price() -> None:
    tree = drafted(priced(0.0, [1.0] * 1025), budget=7, depth=2)
    assert (tree.drafted, max(tree.depths)) == (7, 2)


def test_after_a_round_without_a_tree_the_next_one_has_one() -> None:
    """The draft catches up with what it was not asked for."""
    method, prompt, _ = drafter()
    reference, _, _ = drafter()
    assert method.grow(prompt, TreeBounds(64, 32, even(1.5))).drafted == 0
    text = [*prompt, 17, 23]
    found, expected = method.grow(text, TreeBounds(16, 8)), reference.grow(text, TreeBounds(16, 8))
    assert (found.tokens, found.parents) == (expected.tokens, expected.parents)
    assert found.log_probs == pytest.approx(expected.log_probs, abs=1e-4)


def test_branches_that_the_text_suggests_are_worth_their_rows_too() -> None:
    _, _, sampler = drafter()
    method = Lookup(Autoregression(sampler), "lookup")
    text = [5, 6, 7, 8] * 6
    method.prefill(text[:-1])
    everything = method.grow(text, TreeBounds(32, 16))
    tree = method.grow(text, TreeBounds(32, 16, even(0.2)))
    assert 0 < tree.drafted < everything.drafted
    assert all(math.exp(log_prob) >= 0.2 for log_prob in tree.log_probs)


@settings(max_examples=choose(10, 30), deadline=None)
@given(st.integers(0, 1000), st.floats(0.001, 0.5), st.floats(0.0, 0.8))
def test_a_tree_that_sizes_itself_is_worth_as_much_as_any_cut_of_it_by_budget(
    seed: int, row: float, level: float
) -> None:
    """Cut by chance alone at the levels that were drafted, no other number of nodes is worth more."""
    price, whole = even(row, level, most=128), grow(128, 16, 0.8, seed)
    nodes, levels = worthwhile(whole, price, 16)
    chances = sorted(
        (math.exp(whole.log_probs[node]) for node in range(1, 129) if whole.depths[node] <= levels), reverse=True
    )
    worth = [sum(chances[:size]) - float(price.rows[size]) for size in range(len(chances) + 1)]
    found = sum(math.exp(whole.log_probs[node]) for node in nodes) - float(price.rows[len(nodes)])
    assert found == pytest.approx(max(worth))
