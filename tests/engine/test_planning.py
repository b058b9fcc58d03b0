"""Plans for real checkpoints: what is counted without reading weights is what is stored, loaded and computed with."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from engine.errors import Cancellation, InputError
from engine.loading.planning import Question, case_of, context_for, expected_tokens_per_pass, needs_of, plan_pair
from engine.loading.preparation import COMPRESSED, prepare_model
from engine.model import context as context_room
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.device import choose_dtype
from engine.model.layer_converter import open_layer_converter
from engine.model.shape import model_sizes
from engine.number_types import computed_types
from engine.protocol.options import SpeculationOptions
from engine.speculation import method_choice
from engine.speculation.methods import specexec
from engine.weights.planning import needs as needs_room
from engine.weights.planning.needs import Workload, fixed_bytes
from engine.weights.planning.placement import Override
from engine.weights.planning.usual_rates import CPU_RATES
from engine.weights.store.layout import PAGE, layout_of_shards
from engine.weights.store.prepared_model import open_prepared
from tests.campaigns.extent import choose
from tests.engine.resident import load_resident
from tests.engine.tiny_models import SOME, tiny_model

CPU = torch.device("cpu")
WIDE: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8, "vocab_size": 4000}


def saved(folder: Path, family: str, dtype: torch.dtype = torch.bfloat16, **overrides: Any) -> Checkpoint:
    tiny_model(family, dtype=dtype, **overrides).save_pretrained(folder)
    return open_checkpoint(str(folder))


def kept_bytes(checkpoint: Checkpoint, weights: str, prepared: Path) -> list[int]:
    """Every layer's buffer, streamed from the shards where that can be, else from prepared files."""
    if weights not in COMPRESSED:
        converter = open_layer_converter(checkpoint, computed_types()[weights])
        places = [converter.one_to_one(index) for index in range(len(converter))]
        layouts = [layout_of_shards(index, place) for index, place in enumerate(places) if place]
        if len(layouts) == len(converter):
            return [layout.nbytes for layout in layouts if layout]
    list(prepare_model(checkpoint, weights, prepared, Cancellation()))
    return [layout.nbytes for layout in open_prepared(prepared).layouts()]


@pytest.mark.parametrize(
    ("family", "weights"),
    choose(
        [*product(("llama", "qwen3_moe"), ("bfloat16", "nf4")), ("gpt_oss", "float32"), ("gemma3", "int8")],
        [*product(SOME, ("float32", "bfloat16", "int8", "nf4"))],
    ),
)
def test_layers_take_what_the_plan_counts(family: str, weights: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path / "model", family)
    counted = [layer.stored_bytes for layer in needs_of(checkpoint, model_sizes(checkpoint), weights, CPU).layers]
    found = kept_bytes(checkpoint, weights, tmp_path / "prepared")
    for count, nbytes in zip(counted, found, strict=True):
        assert abs(count - nbytes) <= 2 * PAGE, "up to the pages at either end, and the pages between shards' pieces"


@pytest.mark.parametrize("weights", ["auto", "float32", "bfloat16"])
@pytest.mark.parametrize("family", ["llama", "gemma2", "mixtral"])
def test_a_resident_model_takes_what_the_plan_counts(family: str, weights: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, family)
    found = plan_pair(checkpoint, None, CPU, Question(weights=weights, context_tokens=100))
    dtype = choose_dtype(weights, checkpoint, CPU)
    network = load_resident(checkpoint, dtype, CPU)
    assert found.arrangement.ready
    assert found.bytes.layers + found.bytes.rest == sum(parameter.nbytes for parameter in network.model.parameters())
    context = Context(network, Workload(100).slots)
    context.score([5, 6, 7], [-1, 0, 1])
    assert found.bytes.kv == sum(layer.keys.nbytes + layer.values.nbytes for layer in context._cache.layers)


@pytest.mark.parametrize(
    ("family", "dtype"),
    choose(
        [("mixtral", torch.float32)],
        list(product(("llama", "gemma2", "gpt_oss", "mixtral"), (torch.float32, torch.bfloat16))),
    ),
)
def test_a_pass_writes_down_no_more_than_was_counted(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, family, dtype, max_position_embeddings=4096, **WIDE)
    shape = needs_of(checkpoint, model_sizes(checkpoint), str(dtype).removeprefix("torch."), CPU).shape
    context = Context(load_resident(checkpoint, dtype, CPU), capacity=2048)
    context.prefill([5] * 1000)
    rows = 257
    taken = peak_bytes(lambda: context.score([7] * rows, [-1] * rows))
    counted = shape.pass_bytes(rows, 1000 + rows, logit_rows=rows)
    assert 0.9 * taken < counted < 2.2 * taken


def test_logits_and_what_a_tree_is_drawn_from_are_planned_for(tmp_path: Path) -> None:
    model = saved(tmp_path, "llama", torch.bfloat16, vocab_size=50_000)
    needs = needs_of(model, model_sizes(model), "bfloat16", CPU)
    small, large = (fixed_bytes(needs, needs, Workload(100, budget), on_gpu=True) for budget in (200, 300))
    assert large.buffers - small.buffers == pytest.approx(100 * 50_000 * 2, rel=0.1), "as they are computed"
    assert large.draft - small.draft == pytest.approx(100 * 50_000 * 4, rel=0.1), "a distribution for every node"


@pytest.mark.parametrize("family", choose(["llama"], ["llama", "gemma3", "mixtral", "qwen3_5"]))
def test_a_prompt_in_one_pass_writes_down_no_more_than_was_counted(family: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, family, max_position_embeddings=4096, **WIDE)
    needs = needs_of(checkpoint, model_sizes(checkpoint), "float32", CPU)
    context = Context(load_resident(checkpoint, torch.float32, CPU), capacity=3000, one_pass=True)
    context.prefill_rows = 64
    context.prefill([5] * 65)  # the caches are allocated now
    tokens = [5] * 65 + [7] * 2000
    taken = peak_bytes(lambda: context.prefill(tokens))
    counted = needs.shape.pass_bytes(64, len(tokens), logit_rows=1) + needs.carried_bytes * 2000
    assert needs.carried_bytes * 2000 > counted / 3, "or nothing was tested"
    assert 0.9 * taken < counted < 2.5 * taken


def peak_bytes(run: Any) -> int:
    """The most bytes that were allocated at a time and not freed, while `run` ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    held = peak = 0
    events = recorded.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def test_a_smaller_room_brings_a_model_from_ssd(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, "llama", num_hidden_layers=12, **WIDE)
    whole = plan_pair(checkpoint, None, CPU, Question("bfloat16", context_tokens=64))
    limit = Override(ram_limit=whole.bytes.device - 3 * whole.layer_bytes[0] // 2)
    tight = plan_pair(checkpoint, None, CPU, Question("bfloat16", context_tokens=64, override=limit))
    assert (whole.verdict, tight.verdict) == ("device", "ssd")
    assert tight.bytes.device + tight.bytes.ram <= limit.ram_limit  # type: ignore[operator]
    assert tight.arrangement.count("device") == 12 - 5, "a layer and a half too many, and three slots of the ring"


def test_compression_is_for_the_target_alone(tmp_path: Path) -> None:
    target, draft = saved(tmp_path / "target", "llama", **WIDE), saved(tmp_path / "draft", "qwen3")
    plain, packed = (plan_pair(target, draft, CPU, Question(weights, context_tokens=64)) for weights in ("auto", "nf4"))
    assert plain.bytes.draft == packed.bytes.draft > 0
    assert packed.bytes.layers < plain.bytes.layers / 6, (
        "4.13 bits instead of the 32 that a CPU computes small models in"
    )


def test_without_a_draft_there_is_one_token_per_pass(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, "llama")
    alone = plan_pair(checkpoint, None, CPU, Question(budget=256))
    pair = plan_pair(checkpoint, checkpoint, CPU, Question(budget=256))
    measured = plan_pair(checkpoint, checkpoint, CPU, Question(budget=256, tokens_per_pass=3.5, rates=CPU_RATES))
    assert alone.forecast.tokens_per_pass == 1.0
    assert pair.forecast.tokens_per_pass == 16.0
    assert measured.forecast.tokens_per_pass == 3.5


def test_the_published_rates_are_met_and_joined() -> None:
    assert expected_tokens_per_pass(0) == 1.0
    assert expected_tokens_per_pass(64) == pytest.approx(12.2)
    assert expected_tokens_per_pass(99_999) == 23.6
    rates = [expected_tokens_per_pass(budget) for budget in range(5000)]
    assert rates == sorted(rates)


def test_the_context_is_what_the_model_allows_within_the_sensible(tmp_path: Path) -> None:
    short = model_sizes(saved(tmp_path / "short", "llama")).max_positions
    long = model_sizes(saved(tmp_path / "long", "llama", max_position_embeddings=131072)).max_positions
    assert (context_for("m", short, 0), context_for("m", long, 0)) == (512, 8192)
    assert (context_for("m", short, 300), context_for("m", long, 100_000)) == (300, 100_000)
    with pytest.raises(InputError, match="reads at most 512 tokens, not 513"):
        context_for("m", short, 513)


@pytest.mark.parametrize("budget", choose([1, 64, 1025], [1, 64, 1024, 1025, 5000]))
def test_caches_are_planned_for_every_budget_as_they_are_allocated(budget: int, tmp_path: Path) -> None:
    target, draft = saved(tmp_path / "target", "llama"), saved(tmp_path / "draft", "qwen3")
    found = plan_pair(target, draft, CPU, Question("float32", context_tokens=100, budget=budget))
    work = Workload(100, budget)
    context = Context(load_resident(target, torch.float32, CPU), work.slots)
    context.prefill([5] * 99)
    context.score([7] * (budget + 1), [-1] * (budget + 1))
    assert found.bytes.kv == sum(layer.keys.nbytes + layer.values.nbytes for layer in context._cache.layers)
    assert work.draft_slots >= work.slots


def test_the_planner_counts_with_the_engines_own_figures() -> None:
    assert needs_room.PREFILL_ROWS == context_room.PREFILL_ROWS
    assert needs_room.DRAFT_REACH == specexec.REACH
    assert needs_room.TREE_SLOTS == method_choice.LARGEST + 1
    assert (SpeculationOptions().batch, SpeculationOptions().depth) == (needs_room.DRAFT_BATCH, needs_room.DRAFT_PASSES)


def test_packed_weights_are_not_told_as_decoded_for_every_pass_before_they_were_measured(tmp_path: Path) -> None:
    """A 70B in 4 bits was told to give a token in two minutes, where reading it from SSD takes ten seconds."""
    checkpoint = saved(tmp_path / "model", "llama", **WIDE)
    rates = {
        weights: case_of(checkpoint, None, CPU, Question(weights, budget=1)).machine.rates
        for weights in ("bfloat16", "nf4")
    }
    assert rates["bfloat16"].stored is None
    stored = rates["nf4"].stored
    assert stored is not None
    assert stored(1.0) < 0.1 / CPU_RATES.decode
    assert stored(64.0) < 1.0 / CPU_RATES.decode
