"""Networks that mix attention with states: trees, kept paths and rewinds against transformers' own, without a cache."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from engine.errors import Cancelled
from engine.model.context import Context
from engine.model.network import Network, wrap
from engine.model.state.state_layer import LayerState
from tests.campaigns.extent import choose
from tests.engine.family_models import VOCABULARY, random_model, tiny_config

# Nemotron-H is left to the table of families: it reads a text at once otherwise than plain decoding does.
OTHERS = (
    "qwen3_next", "olmo_hybrid", "bamba", "granitemoehybrid", "lfm2_moe", "kimi_linear", "bailing_hybrid", "mamba2",
    "qwen4_exp_text", "minimax", "minimax_m3_vl_text", "deepseek_v4", "mpt", "bloom", "gpt_neo",
)  # fmt: skip
FAMILIES = ("qwen3_5_text", "falcon_h1", "jamba", "lfm2", *choose((), OTHERS))
TOLERANCE = 2e-4  # of the logits' deviation; a node that reads another branch moves them by whole units
OF_STATES = 1e-4  # of a state's largest number: only the order of sums differs, in this layer and those before
PROMPT = list(range(20, 43))


@pytest.fixture(scope="module", params=FAMILIES)
def network(request: pytest.FixtureRequest) -> Network:
    return made(request.param)


@pytest.fixture(scope="module")
def one() -> Network:
    return made("qwen3_5_text")


def made(family: str) -> Network:
    return wrap(random_model(tiny_config(family)), "eager", family)


def random_tree(nodes: int, seed: int, pending: int = 0) -> tuple[list[int], list[int]]:
    """Tokens and parents of nodes behind `pending` earlier ones; half of them go deeper, the others anywhere."""
    chance = random.Random(seed)
    tokens = [chance.randrange(3, VOCABULARY) for _ in range(nodes)]
    numbers = range(pending, pending + nodes)
    return tokens, [node - 1 if node and chance.random() < 0.5 else chance.randrange(-1, node) for node in numbers]


def path_to(node: int, parents: Sequence[int]) -> list[int]:
    path = [node]
    while parents[path[0]] >= 0:
        path.insert(0, parents[path[0]])
    return path


@torch.inference_mode()
def alone(network: Network, text: Sequence[int]) -> Tensor:
    """Logits [tokens, vocabulary] of a plain text, read at once and without a cache."""
    logits: Tensor = network.model(input_ids=torch.tensor([list(text)]), use_cache=False).logits[0]
    return logits


def assert_paths(context: Context, found: Tensor, tokens: Sequence[int], parents: Sequence[int]) -> None:
    """Row i of `found`, the logits after the last nodes of a tree, is that of the path to it alone."""
    first = len(tokens) - len(found)
    for leaf in set(range(len(tokens))) - set(parents):
        path = path_to(leaf, parents)
        expected = alone(context.network, [*context.tokens, *(tokens[node] for node in path)])[context.length :]
        for node, row in zip(path, expected, strict=True):
            if node >= first:
                assert float((found[node - first] - row).abs().max() / row.std()) < TOLERANCE


def assert_states(context: Context) -> None:
    """States and tails are those of a context that has read the text at once."""
    fresh = Context(context.network, 8)
    fresh.prefill(context.tokens)
    for moved, built in zip(context._cache.states.layers, fresh._cache.states.layers, strict=True):
        for part in ("state", "tail"):
            found, expected = getattr(moved.root, part), getattr(built.root, part)
            if found is None and expected is None:
                continue  # a convolution keeps nothing but its tail
            assert float((found - expected).abs().max() / expected.abs().max()) < OF_STATES


@pytest.mark.parametrize("nodes", choose([40], [1, 2, 7, 64, 256]))
def test_one_pass_over_a_tree_equals_every_path_alone(network: Network, nodes: int) -> None:
    context = Context(network, 64)
    context.prefill(PROMPT)
    tokens, parents = random_tree(nodes, seed=nodes)
    assert_paths(context, context.score(tokens, parents), tokens, parents)


def test_any_sequence_of_passes_equals_reading_the_text_alone(network: Network) -> None:
    chance = random.Random(3)
    context = Context(network, 64)
    context.prefill(PROMPT)
    tokens: list[int] = []
    parents: list[int] = []
    for step in range(choose(9, 60)):
        more, above = random_tree(chance.choice((1, 2, 9)), step, len(tokens))
        tokens, parents = tokens + more, parents + above
        assert_paths(context, context.score(more, above), tokens, parents)
        match chance.choice(("grow", "keep", "keep with rest", "rewind", "prefill")):
            case "keep":
                context.keep(path_to(chance.randrange(len(tokens)), parents))
                tokens, parents = [], []
            case "keep with rest":
                path = path_to(chance.randrange(len(tokens)), parents)
                rest = [node for node in range(len(tokens)) if path[-1] in path_to(node, parents)[:-1]]
                context.keep(path, rest)
                renumbered = {node: number for number, node in enumerate(rest)}
                tokens = [tokens[node] for node in rest]
                parents = [renumbered.get(parents[node], -1) for node in rest]
            case "rewind":
                context.rewind(chance.randrange(context.length - 5, context.length + 1))
                tokens, parents = [], []
            case "prefill":
                context.prefill([*context.tokens[: chance.randrange(context.length)], *range(50, 50 + step)])
                tokens, parents = [], []
    context.rewind(context.length)
    assert_states(context)


def test_states_behind_a_kept_path_equal_those_computed_afresh(network: Network) -> None:
    context = Context(network, 64)
    context.prefill(PROMPT)
    for seed in range(6):
        tokens, parents = random_tree(20, seed)
        context.score(tokens, parents)
        context.keep(path_to(len(tokens) - 1, parents))
    assert_states(context)


def test_states_do_not_drift_over_a_long_text(one: Network) -> None:
    """Kept by short paths, against read in pieces of 1024 tokens: over 10,000 tokens they differ by less than 2e-5."""
    chance = random.Random(0)
    context = Context(one, 64)
    while context.length < choose(90, 10_000):
        tokens, parents = random_tree(16, seed=context.length)
        context.score(tokens, parents, last=1)
        context.keep(path_to(chance.randrange(16), parents))
    assert_states(context)


def test_a_tree_takes_hardly_more_products_than_as_many_tokens_in_a_row(one: Network) -> None:
    context = Context(one, 64)
    context.prefill(PROMPT)
    cache = transformers.DynamicCache(config=one.model.config)
    tokens, parents = random_tree(64, 1)
    with torch.inference_mode():
        one.model(torch.tensor([PROMPT]), past_key_values=cache)
        with FlopCounterMode(display=False) as in_a_row:
            one.model(torch.tensor([tokens]), past_key_values=cache)
    with FlopCounterMode(display=False) as over_a_tree:
        context.score(tokens, parents)
    assert over_a_tree.get_total_flops() < 1.3 * in_a_row.get_total_flops()


def test_the_memory_of_pending_nodes_is_linear_in_their_number(one: Network) -> None:
    context = Context(one, 64)
    taken = []
    for nodes in (8, 16, 32):
        context.score([5] * nodes, [-1] * nodes)
        taken.append(context._cache.states.pending_nbytes / nodes)
        context.rewind(0)
    assert len(set(taken)) == 1
    assert taken[0] < context._cache.states.nbytes / 2, "no node has a state of its own"


@pytest.mark.parametrize("failing_layer", [0, 1, 3])
def test_a_pass_stopped_between_two_layers_leaves_no_trace(one: Network, failing_layer: int) -> None:
    stop = [10_000]

    def between_layers() -> None:
        stop[0] -= 1
        if stop[0] < 0:
            raise Cancelled

    context = Context(one, 64, between_layers)
    context.prefill(PROMPT)
    context.score([5, 6], [-1, 0])
    tokens, parents = random_tree(9, 1, pending=2)
    runs: list[Callable[[], Any]] = [
        lambda: context.score(tokens, parents),
        lambda: context.prefill([*PROMPT, 7]),
        lambda: context.prefill([*PROMPT, 7, 8, 9]),
    ]
    for run in runs:
        stop[0] = failing_layer
        with pytest.raises(Cancelled):
            run()
        stop[0] = 10_000
        if run is runs[0]:
            assert_paths(context, context.score(tokens, parents), [5, 6, *tokens], [-1, 0, *parents])
        assert context.tokens == PROMPT
    assert_paths(context, context.score(tokens[:1], [-1]), tokens[:1], [-1])


def test_an_edited_message_is_read_again_from_the_nearest_snapshot(one: Network) -> None:
    rows: list[int] = []
    hook = one.layers[0].register_forward_pre_hook(lambda _layer, inputs: rows.append(inputs[0].shape[1]))
    context = Context(one, 64)
    first = PROMPT
    context.prefill(first)
    context.score([7, 8], [-1, 0])
    context.keep([0, 1])
    second = [*first, 7, 8, 9, 10, 11]
    assert context.prefill(second) == len(first) + 2, "where the answer ended"
    assert context.prefill([*second[:-1], 60, 61]) == len(first) + 2
    assert context.prefill([*first, 90, 91]) == len(first), "where the first question ended"
    assert context.prefill(PROMPT[:5]) == 0, "nothing is known of so early a state"
    hook.remove()
    assert rows == [len(PROMPT), 2, 3, 4, 2, 5]
    assert_states(context)


def test_a_rewind_between_snapshots_is_made_good_by_the_next_pass(one: Network) -> None:
    context = Context(one, 64)
    context.prefill(PROMPT)
    context.score([7, 8, 9], [-1, 0, 1])
    context.keep([0, 1, 2])
    context.rewind(len(PROMPT) + 1)
    assert context.tokens == [*PROMPT, 7]
    tokens, parents = random_tree(9, 5)
    assert_paths(context, context.score(tokens, parents), tokens, parents)
    context.keep(path_to(8, parents))
    assert_states(context)


def test_snapshots_are_taken_on_the_way_and_thinned_out(one: Network) -> None:
    context = Context(one, 64)
    states = context._cache.states
    states.every, states.most = 4, 5
    context.prefill(PROMPT)
    for token in range(24):
        context.score([token + 3], [-1])
        context.keep([0])
    lengths = [snapshot.length for snapshot in states._snapshots]
    assert len(lengths) == 5
    assert max(after - before for before, after in zip([0, *lengths], [*lengths, context.length], strict=True)) <= 24
    assert all(isinstance(layer, LayerState) for layer in states._snapshots[0].layers)
    context.rewind(lengths[2])
    assert states.length == lengths[2]
    assert_states(context)
