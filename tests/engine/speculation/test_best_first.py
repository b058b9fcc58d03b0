"""The search finds the K most probable prefixes, exactly, and its trees hold together."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.context import Context
from engine.protocol.options import SamplingOptions, SpeculationOptions
from engine.speculation.interfaces import TreeBounds
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.trees.best_first import BestFirst
from engine.speculation.trees.tree import Tree
from tests.campaigns.extent import choose
from tests.engine.speculation.pairs import noisy_copy, random_prompt, write
from tests.engine.tiny_models import tiny_network

Prefix = tuple[int, ...]


def prefixes_of(tree: Tree) -> dict[Prefix, float]:
    paths: list[Prefix] = [()]
    for node in range(1, len(tree)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return dict(zip(paths, tree.log_probs, strict=True))


def brute_force(draft_model: object, prompt: list[int], vocabulary: int, depth: int, count: int) -> dict[Prefix, float]:
    """The `count` most probable continuations of at most `depth` tokens, and the empty one."""
    found: dict[Prefix, float] = {}
    for length in range(1, depth + 1):
        for prefix in product(range(vocabulary), repeat=length):
            before = found.get(prefix[:-1], 0.0)
            ids = torch.tensor([[*prompt, *prefix[:-1]]])
            log_probs = draft_model(ids).logits[0, -1].float().log_softmax(-1)  # type: ignore[operator]
            found[prefix] = before + float(log_probs[prefix[-1]])
    best = sorted(found, key=lambda prefix: -found[prefix])[:count]
    return {(): 0.0} | {prefix: found[prefix] for prefix in best}


@pytest.mark.parametrize("budget", choose([20], [1, 5, 20, 60]))
def test_the_tree_is_the_brute_force_top_k_of_draft_prefixes(budget: int) -> None:
    vocabulary, depth = 6, 3
    network = tiny_network("llama", vocab_size=vocabulary, num_hidden_layers=2)
    prompt = random_prompt(5, seed=2, vocabulary=vocabulary)
    sampler = Sampler(SamplingOptions(), prompt, Uniforms(0))
    options = SpeculationOptions(batch=64, width=vocabulary, depth=depth)
    drafter = SpecExec(Context(network, 64), sampler, options, vocabulary)
    drafter.prefill(prompt[:-1])
    tree = drafter.grow(prompt, TreeBounds(budget, depth))
    expected = brute_force(network.model, prompt, vocabulary, depth, budget)
    found = prefixes_of(tree)
    assert found.keys() == expected.keys()
    for prefix, log_prob in expected.items():
        assert found[prefix] == pytest.approx(log_prob, abs=1e-4)


def test_behind_what_ends_the_answer_nothing_is_searched() -> None:
    """All other prefixes have the budget for themselves."""
    vocabulary, depth, ends = 6, 3, frozenset({1, 4})
    network = tiny_network("llama", vocab_size=vocabulary, num_hidden_layers=2)
    prompt = [*random_prompt(4, seed=2, vocabulary=vocabulary), 1]  # what ended something before goes on all the same
    sampler = Sampler(SamplingOptions(), prompt, Uniforms(0))
    options = SpeculationOptions(batch=64, width=vocabulary, depth=depth)
    drafter = SpecExec(Context(network, 64), sampler, options, vocabulary, end_tokens=ends)
    drafter.prefill(prompt[:-1])
    tree = drafter.grow(prompt, TreeBounds(40, depth))
    everything = brute_force(network.model, prompt, vocabulary, depth, 1000)
    possible = [prefix for prefix in everything if not ends & {*prefix[:-1]}]
    assert prefixes_of(tree).keys() == {*possible[:41]}
    assert any(token in ends for token in tree.tokens[1:])


@settings(max_examples=choose(12, 60), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    budget=st.integers(1, 60),
    batch=st.integers(1, 40),
    width=st.integers(1, 4),
    depth=st.integers(1, 6),
    decay=st.sampled_from([0.5, 0.95, 1.0]),
    certain=st.booleans(),
)
def test_every_tree_is_ancestor_closed_and_within_its_bounds(
    seed: int, budget: int, batch: int, width: int, depth: int, decay: float, certain: bool
) -> None:
    """`certain` gives children of probability 1: ties between parent and child must not cut a parent off."""
    generator = torch.Generator().manual_seed(seed)
    search = BestFirst(0, decay)
    while len(frontier := search.frontier(batch, budget, depth)):
        assert len(frontier) <= batch
        logits = torch.randn(len(frontier), 5, generator=generator) * 3
        if certain:
            logits[:, 0] = 1000.0
        best = logits.log_softmax(-1).topk(width)
        search.expand(frontier, best.values.double().numpy(), best.indices.numpy(), budget)
    tree = search.tree(search.best(budget, depth))  # Tree itself refuses a child before its parent
    assert tree.drafted <= budget
    assert max(tree.depths) <= depth
    assert len({(parent, token) for parent, token in zip(tree.parents, tree.tokens, strict=True)}) == len(tree)
    for node, parent in enumerate(tree.parents[1:], start=1):
        assert tree.log_probs[node] <= tree.log_probs[parent]


def test_the_search_ends_with_the_same_tree_whatever_the_batch() -> None:
    """With a stopping rule that is exact, the batch changes only how many draft passes it takes."""
    table = torch.Generator().manual_seed(1)
    seeds = torch.randint(0, 2**31, (200_000,), generator=table)

    def children(prefix: Prefix) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(int(seeds[hash(prefix) % len(seeds)]))
        best = (torch.randn(6, generator=generator) * 2).log_softmax(-1).topk(6)
        return best.values, best.indices

    def grow(batch: int) -> dict[Prefix, float]:
        search = BestFirst(0, 0.95)
        known: dict[int, Prefix] = {}
        while len(frontier := search.frontier(batch, 40, 8)):
            paths = []
            for node, parent, token in zip(
                frontier.tolist(), search.parents_of(frontier), search.tokens_of(frontier), strict=True
            ):
                known[node] = (*known[parent], token) if parent >= 0 else ()
                paths.append(known[node])
            values, tokens = zip(*(children(path) for path in paths), strict=True)
            search.expand(frontier, torch.stack(values).double().numpy(), torch.stack(tokens).numpy(), 40)
        return prefixes_of(search.tree(search.best(40, 8)))

    assert grow(1) == grow(7) == grow(128)


def test_the_draft_is_asked_in_batches_and_its_cache_is_kept() -> None:
    """One draft pass per level, not per node; from the second round on it reads only what it has not read."""
    target, network = tiny_network("llama"), noisy_copy("llama")
    passes: list[int] = []
    network.layers[0].register_forward_pre_hook(lambda _layer, inputs: passes.append(inputs[0].shape[1]))
    prompt = random_prompt(30, seed=1)
    outcome = write(target, network, prompt, 40, budget=64)
    prefill, *growth = passes
    assert prefill == len(prompt) - 1
    assert max(growth) > 8, "the frontier was expanded node by node"
    assert len(growth) <= 32 * len(outcome.rounds)
    first_of_each_round = [rows for rows in growth if rows <= 2]
    assert first_of_each_round, "the draft read the text again"
    assert len(growth) < sum(result.tree.drafted for result in outcome.rounds) / 4


def test_scores_are_cumulative_log_probabilities() -> None:
    search = BestFirst(9, 0.95)
    search.expand(search.frontier(1, 3, 2), np.log([[0.6, 0.3]]), np.array([[4, 5]]), 3)
    search.expand(np.array([1]), np.log([[0.9, 0.05]]), np.array([[6, 7]]), 3)
    tree = search.tree(search.best(3, 2))
    assert prefixes_of(tree) == pytest.approx(
        {(): 0.0, (4,): math.log(0.6), (4, 6): math.log(0.54), (5,): math.log(0.3)}
    )
