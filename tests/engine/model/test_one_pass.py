"""A prompt that every layer reads in chunks while its weights are there equals one read in a pass for each chunk."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import zip_longest

import pytest
import torch
from torch import Tensor, nn

from engine.errors import Cancelled
from engine.loading.oom_retry import GuardedContext
from engine.model.context import Context
from engine.model.families.one_pass_families import CHUNK_BY_CHUNK, carried_width
from engine.model.heads.hidden_states import HiddenStates
from engine.model.network import Network, wrap
from engine.model.one_pass.chunked_calls import LEAST_ROWS, ChunkedCalls, PerChunk
from tests.campaigns.extent import choose
from tests.engine.family_models import random_model, tiny_config
from tests.engine.model.state.test_hybrid_context import made, random_tree
from tests.engine.speculation.pairs import random_prompt
from tests.engine.tiny_models import tiny_network

# Sliding layers; chunks and a temperature; several kinds of states; an indexer whose choice layers share; shared keys;
# a cache of two entries for a layer; hidden states side by side; experts with written scores.
OTHERS = (
    "gpt_oss", "falcon_h1", "nemotron_h", "mamba2", "kimi_linear", "jamba", "longcat_flash", "hy_v4", "gemma4_text",
    "gptj", "falcon", "dbrx", "minimax", "minimax_m3_vl_text",
    "deepseek_v4",
)  # fmt: skip
FAMILIES = ("gemma3_text", "llama4_text", "qwen3_5_text", "glm_moe_dsa", *choose((), OTHERS))
ROWS = 8
TEXT = random_prompt(80, seed=1)


@cache
def network_of(family: str) -> Network:
    """Without what Gemma 4 may have that keeps it from being read so."""
    config = tiny_config(family)
    if not getattr(config, "num_kv_shared_layers", 0):
        return made(family)
    unshared = {**config.to_dict(), "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0}
    unshared.pop("kv_sharing_modes", None)
    return wrap(random_model(type(config).from_dict(unshared)), "eager", family)


def contexts(network: Network, **options: object) -> tuple[Context, Context]:
    """One that reads chunk by chunk, and one that reads layer by layer."""
    pair = Context(network, 128), Context(network, 128, one_pass=True, **options)  # type: ignore[arg-type]
    for context in pair:
        context.prefill_rows = ROWS
        context._cache.states.every = 2 * ROWS
    return pair


def kept(context: Context) -> list[Tensor]:
    """All that a context knows of its text."""
    layers, states = context._cache.attention, context._cache.states
    found = [
        each[:, :, : layer.length] for layer in layers if layer.is_initialized for each in (layer.keys, layer.values)
    ]
    roots = [layer.root for layer in states.layers]
    roots += [root for snapshot in states._snapshots for root in snapshot.layers]
    return found + [part for root in roots for part in (root.state, root.tail) if part is not None]


def assert_alike(expected: Context, found: Context) -> None:
    assert found.tokens == expected.tokens
    lengths = [[snapshot.length for snapshot in each._cache.states._snapshots] for each in (expected, found)]
    assert lengths[0] == lengths[1]
    for one, other in zip_longest(kept(expected), kept(found)):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    tokens, parents = random_tree(9, seed=2)
    torch.testing.assert_close(expected.score(tokens, parents), found.score(tokens, parents), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_and_what_is_added_to_it_are_as_if_read_chunk_by_chunk(family: str) -> None:
    expected, found = contexts(network_of(family))
    assert found.pass_rows > len(TEXT)
    for end in (30, 30 + 4 * ROWS + 1):  # the last chunk may be a part of one, or a single token
        expected.prefill(TEXT[:end])
        found.prefill(TEXT[:end])
        assert_alike(expected, found)
        expected.keep([0])
        found.keep([0])


def test_a_text_as_long_as_the_network_is_wide_is_no_riddle() -> None:
    expected, found = contexts(network_of("gemma3_text"))
    width = network_of("gemma3_text").model.config.hidden_size
    expected.prefill(TEXT[:width])
    found.prefill(TEXT[:width])
    assert_alike(expected, found)


def test_the_hooks_of_a_layer_run_once_and_those_between_chunks_for_each() -> None:
    network, calls = tiny_network("llama"), [0]
    own = [vars(module).get("forward") for module in network.model.modules()]
    rows: list[tuple[int, int]] = []

    def count() -> None:
        calls[0] += 1

    for index, layer in enumerate(network.layers):
        layer.register_forward_pre_hook(lambda _layer, inputs, index=index: rows.append((index, inputs[0].shape[1])))
    context = Context(network, 64, count, one_pass=True)
    context.prefill_rows = ROWS
    context.prefill(TEXT[:30])
    assert rows == [(index, 30) for index in range(4)]
    assert calls == [4 * 4]
    assert [vars(module).get("forward") for module in network.model.modules()] == own


@pytest.mark.parametrize("family", ["gemma3_text", "qwen3_5_text"])
@pytest.mark.parametrize("passed", [0, 6, 15])
def test_a_pass_that_is_stopped_leaves_the_context_as_it_was(family: str, passed: int) -> None:
    left = [1000]

    def between() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Cancelled

    expected, found = contexts(network_of(family), between_layers=between)
    for context in (expected, found):
        context.prefill(TEXT[:20])
    left[0] = passed
    with pytest.raises(Cancelled):
        found.prefill(TEXT[:60])
    left[0] = 1000
    assert_alike(expected, found)
    for context in (expected, found):
        context.prefill(TEXT[:60])
    assert_alike(expected, found)


def test_memory_that_runs_out_makes_chunks_and_passes_smaller() -> None:
    network, rows = tiny_network("llama"), list[int]()

    def fail_above(limit: int) -> Callable[[nn.Module, Sequence[Tensor]], None]:
        def check(_layer: nn.Module, inputs: Sequence[Tensor]) -> None:
            rows.append(inputs[0].shape[1])
            if rows[-1] > limit:
                raise MemoryError

        return check

    _, context = contexts(network)
    context.prefill_rows = 4 * ROWS
    network.layers[2].register_forward_pre_hook(fail_above(20))
    assert GuardedContext(context, "the target").prefill(TEXT) == 0
    assert rows == [80, 20, 20, 20, 20]
    assert context.prefill_rows == ROWS
    expected = Context(tiny_network("llama"), 128)
    expected.prefill_rows = context.prefill_rows
    expected.prefill(TEXT)
    assert_alike(expected, context)


@pytest.mark.parametrize("layers", [(), (0, 2)])
def test_what_a_head_reads_is_recorded_of_all_rows(layers: tuple[int, ...]) -> None:
    records = []
    for one_pass in (False, True):
        network = tiny_network("llama")
        context = Context(network, 96, one_pass=one_pass)
        context.prefill_rows = ROWS
        records.append(HiddenStates(network, 96, layers))
        context.record(records[-1])
        context.prefill(TEXT[:60])
    torch.testing.assert_close(*(record.rows(range(60)) for record in records))


def test_no_mask_of_all_rows_is_ever_made() -> None:
    network, shapes = tiny_network("llama"), set[tuple[int, ...]]()
    for layer in network.layers:
        layer.self_attn.register_forward_pre_hook(  # type: ignore[union-attr]
            lambda _module, _args, inputs: shapes.add(tuple(inputs["attention_mask"].shape)), with_kwargs=True
        )
    _, context = contexts(network)
    context.prefill(TEXT[:30])
    assert shapes == {(1, 1, 8, 8), (1, 1, 8, 16), (1, 1, 8, 24), (1, 1, 6, 30)}


def test_families_that_cannot_are_read_chunk_by_chunk() -> None:
    for family in CHUNK_BY_CHUNK:
        context = Context(network_of(family), 64, one_pass=True)
        assert context.pass_rows == context.prefill_rows
    context = Context(network_of("gemma3_text"), 64, one_pass=True)
    context.prefill_rows = LEAST_ROWS - 1
    assert context.pass_rows == context.prefill_rows
    assert carried_width({"model_type": "gemma3n_text", "hidden_size_per_layer_input": 256}, 64, 16) == 0
    assert carried_width({"model_type": "gemma4_unified_text", "num_kv_shared_layers": 2}, 64, 16) == 0
    assert carried_width({"model_type": "llama"}, 64, 16) == 2 * (64 + 16)
    assert carried_width({"model_type": "hy_v4", "hc_mult": 4}, 64, 16) == 2 * (4 * 64 + 16)


def test_where_a_network_drops_rows_half_way_prompts_come_in_chunks() -> None:
    found = []
    for one_pass in (False, True):
        context = Context(made("gemma4_unified_text"), 128, one_pass=one_pass)
        context.prefill_rows = ROWS
        context.prefill(TEXT)
        found.append(context.score([5, 6, 7], [-1, 0, 0]))
    torch.testing.assert_close(*found)


def test_what_cannot_be_joined_stays_with_its_chunk() -> None:
    calls = ChunkedCalls([8, 16, 20])
    states = torch.arange(20.0)[None, :, None]
    seen: list[object] = []

    def layer(hidden: Tensor, _choice: object, notes: dict[str, int]) -> tuple[Tensor, Tensor]:
        seen.append((hidden[0, 0, 0].item(), _choice, dict(notes)))
        notes["end"] = int(hidden[0, -1, 0])
        return hidden + 1, hidden.new_zeros(1, hidden.shape[1], int(hidden[0, -1, 0]))

    notes: dict[str, int] = {}
    once, choice = calls.call(layer, lambda _chunk: nullcontext(), (states, None), {"notes": notes})
    assert isinstance(choice, PerChunk)
    twice, _ = calls.call(layer, lambda _chunk: nullcontext(), (once, choice), {"notes": notes})
    assert twice is once, "an output that this pass made is written over"
    assert torch.equal(states + 2, twice)
    assert [part[2] for part in seen[3:]] == [{"end": 7}, {"end": 15}, {"end": 19}], "each chunk has notes of its own"  # type: ignore[index]
    assert notes == {}
