"""A tree pass is every path alone; a kept path is as if only it had been read; a failed pass leaves no trace."""

import random

import pytest
import torch

from engine.errors import Cancelled
from engine.model.context import Context
from tests.engine.tiny_models import FAMILIES, tiny_network

TOLERANCE = 5e-4  # float32 logits of a few units, on any processor; a wrong mask moves them by whole units
PREFIX = list(range(20, 39))  # longer than the sliding window


def random_tree(nodes: int, seed: int) -> tuple[list[int], list[int]]:
    chance = random.Random(seed)
    tokens = [chance.randrange(3, 131) for _ in range(nodes)]
    # Half of the nodes go deeper, so that windows cut through the tree, the others branch off somewhere.
    parents = [-1] + [node - 1 if chance.random() < 0.5 else chance.randrange(node) for node in range(1, nodes)]
    return tokens, parents


def path_to(node: int, parents: list[int]) -> list[int]:
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_one_tree_pass_equals_each_path_alone(family: str) -> None:
    network = tiny_network(family)
    tokens, parents = random_tree(24, seed=1)
    context = Context(network, capacity=64)
    context.prefill(PREFIX)
    together = context.score(tokens, parents)
    for leaf in set(range(len(tokens))) - set(parents):
        path = path_to(leaf, parents)
        alone = network.model(torch.tensor([[*PREFIX, *(tokens[node] for node in path)]])).logits[0, len(PREFIX) :]
        assert float((together[path] - alone).abs().max()) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cache_after_keep_equals_one_built_afresh(family: str) -> None:
    network = tiny_network(family)
    kept, fresh = Context(network, capacity=96), Context(network, capacity=96)
    kept.prefill(PREFIX)
    for seed in (1, 2, 3):  # several rounds: compaction upon compaction
        tokens, parents = random_tree(20, seed)
        kept.score(tokens, parents)
        kept.keep(path_to(15, parents))
    fresh.prefill(kept.tokens)
    assert kept.length == fresh.length > len(PREFIX) + 3
    for compacted, built in zip(kept._cache.attention, fresh._cache.attention, strict=True):
        for name in ("keys", "values"):
            found, expected = (getattr(layer, name)[:, :, : kept.length] for layer in (compacted, built))
            torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_tree_scored_in_pieces_equals_one_pass() -> None:
    network = tiny_network("gemma3")
    tokens, parents = random_tree(30, seed=4)
    whole, pieces = Context(network, 64), Context(network, 64)
    whole.prefill(PREFIX)
    pieces.prefill(PREFIX)
    expected = whole.score(tokens, parents)
    found = [pieces.score(tokens[a:b], parents[a:b]) for a, b in ((0, 1), (1, 9), (9, 30))]
    assert float((torch.cat(found) - expected).abs().max()) < TOLERANCE


def test_prefill_computes_only_what_is_new() -> None:
    network = tiny_network("llama")
    context = Context(network, 64)
    rows: list[int] = []
    network.layers[0].register_forward_pre_hook(lambda _layer, inputs: rows.append(inputs[0].shape[1]))
    assert context.prefill(PREFIX) == 0
    assert context.prefill([*PREFIX, 50, 51]) == len(PREFIX)
    assert context.prefill([*PREFIX[:5], 60]) == 5
    assert rows == [len(PREFIX), 2, 1]
    assert context.tokens == [*PREFIX[:5], 60]
    reference = network.model(torch.tensor([[*PREFIX[:5], 60, 7]])).logits[0, -1]
    assert float((context.score([7], [-1])[0] - reference).abs().max()) < TOLERANCE


def test_a_long_prompt_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.context.PREFILL_ROWS", 8)
    network = tiny_network("gpt_oss")
    context = Context(network, 64)
    context.prefill(PREFIX)
    reference = network.model(torch.tensor([[*PREFIX, 7]])).logits[0, -1]
    assert float((context.score([7], [-1])[0] - reference).abs().max()) < TOLERANCE


def test_a_cache_that_is_too_small_grows() -> None:
    network = tiny_network("llama")
    small, large = Context(network, capacity=20), Context(network, capacity=200)
    tokens, parents = random_tree(40, seed=5)
    for context in (small, large):
        context.prefill(PREFIX)
    torch.testing.assert_close(small.score(tokens, parents), large.score(tokens, parents))


@pytest.mark.parametrize("failing_layer", [0, 2])
def test_a_pass_stopped_between_two_layers_leaves_no_trace(failing_layer: int) -> None:
    network = tiny_network("qwen3")
    countdown = [10_000]

    def between_layers() -> None:
        countdown[0] -= 1
        if countdown[0] < 0:
            raise Cancelled

    context = Context(network, 64, between_layers)
    context.prefill(PREFIX)
    tokens, parents = random_tree(10, seed=6)
    expected = context.score(tokens, parents)
    context.rewind(len(PREFIX))
    countdown[0] = failing_layer
    with pytest.raises(Cancelled):
        context.score(tokens, parents)
    countdown[0] = 10_000
    torch.testing.assert_close(context.score(tokens, parents), expected)
    countdown[0] = failing_layer
    with pytest.raises(Cancelled):
        context.prefill([*PREFIX, 5, 6])
    assert context.tokens == PREFIX


def test_only_a_path_can_be_kept() -> None:
    context = Context(tiny_network("llama"), 64)
    context.score([5, 6, 7], [-1, 0, 0])
    with pytest.raises(AssertionError, match="path"):
        context.keep([1, 2])
    context.keep([0, 2])
    assert context.tokens == [5, 7]
