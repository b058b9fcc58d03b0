"""Drafts whose weights stay packed on a processor: loaded so where that is faster, small, and the target's own text."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from engine.engine import Engine
from engine.errors import Cancellation
from engine.loading import loaded_pair, preparation
from engine.loading.loading import LoadedDraft, load_draft
from engine.loading.measurements.benchmark import Benchmark, draft_benchmark
from engine.loading.measurements.rates_file import Measured
from engine.loading.pair import PairIdentity, open_pair
from engine.loading.planning import plan_pair
from engine.loading.rates import MeasuredHere, question_for
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.device import Arithmetic
from engine.model.products import product
from engine.model.products.arranged import rounds_blocks
from engine.model.products.compiling import has_compiler
from engine.protocol.messages import Loaded
from engine.protocol.options import LoadOptions
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.computing import levels_gain_stored
from engine.weights.planning.machine import Rates
from engine.weights.planning.placement import Plan
from engine.weights.planning.usual_rates import CPU_RATES
from engine.weights.streaming.layer_stream import LayerStream
from engine.weights.streaming.stored_weight import PackedTable, StoredWeight
from tests.campaigns.extent import choose
from tests.engine.gguf_files import write_gguf
from tests.engine.model.formats import checkpoints
from tests.engine.test_self_draft import answered, loaded
from tests.engine.text.conftest import EMBEDDED
from tests.engine.tiny_models import BASE, random_model

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

CPU = torch.device("cpu")
FEW_ROWS = 16
LEVEL = list(range(50, 56)), [-1, -1, 0, 0, 1, 1]
SLOW, FAST = (PassTime((1.0, 64.0), seconds) for seconds in ((0.2, 0.8), (0.1, 0.4)))


def rates(stored: PassTime | None) -> Rates:
    """Of a machine that multiplies decoded weights as fast as anything, but those in `FAST`."""
    return replace(CPU_RATES, products=replace(SLOW), stored=stored, few_rows=FEW_ROWS)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded target in 4 bits, which knows what it says itself."""
    model = transformers.AutoModelForCausalLM.from_pretrained(EMBEDDED)
    return write_gguf(tmp_path_factory.mktemp("draft") / "draft.gguf", model, "Q4_0", tokenizer=EMBEDDED)


@pytest.fixture
def matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models are treated as large ones, on a machine that is faster with packed weights."""
    monkeypatch.setattr(preparation, "SMALLEST", 1)
    monkeypatch.setattr(product, "SMALLEST", 1)
    monkeypatch.setattr(Benchmark, "recall", lambda _self: Measured(rates(FAST), "now"))


def options_for(draft: Path, cache: Path, **others: Any) -> LoadOptions:
    return LoadOptions("embedded", str(draft), cache_dir=str(cache), **others)


def planned(options: LoadOptions, of_draft: Rates | None) -> Plan:
    pair = open_pair(options).identity
    measured = MeasuredHere(CPU, Measured(rates(FAST), "now"), Measured(of_draft, "now") if of_draft else None)
    return plan_pair(pair.target, pair.draft, CPU, question_for(pair, measured))


@pytest.fixture
def pair(draft: Path, tmp_path: Path, matters: None) -> Iterator[tuple[Engine, Loaded]]:
    del matters
    engine, told = loaded(options_for(draft, tmp_path))
    yield engine, told
    engine.close()


def test_a_loaded_draft_stays_packed_and_a_level_takes_few_calls(pair: tuple[Engine, Loaded], draft: Path) -> None:
    engine, told = pair
    held = engine._loaded.weights.draft
    assert held is not None
    assert held.stream is not None
    model = held.network.model
    matrices = [weight for weight in held.network.layers.parameters() if weight.ndim > 1]
    assert matrices
    assert all(isinstance(weight, StoredWeight) for weight in matrices)
    assert isinstance(model.get_input_embeddings().weight, PackedTable)
    assert held.network.light_rows == FEW_ROWS, "levels do not wake torch's threads"
    assert told.draft is not None
    assert told.draft.weights == "Q4_0"
    assert told.draft.bytes == pytest.approx(draft.stat().st_size, rel=0.15)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_text_is_the_target_s_and_the_same_every_time(pair: tuple[Engine, Loaded], temperature: float) -> None:
    engine, _ = pair
    plain = answered(engine, "none", temperature=temperature)
    found = [answered(engine, "specexec", temperature=temperature) for _ in range(2)]
    assert [each.tokens for each in found] == [plain.tokens] * 2
    assert all(each.statistics.passes <= plain.statistics.passes / 2 for each in found)


def test_sampled_trees_are_the_same_every_time(pair: tuple[Engine, Loaded]) -> None:
    engine, _ = pair
    once, again = (answered(engine, "specinfer", temperature=0.8) for _ in range(2))
    assert once.tokens == again.tokens


def test_it_stays_packed_only_where_that_was_measured_to_be_faster(draft: Path, tmp_path: Path, matters: None) -> None:
    del matters
    options = options_for(draft, tmp_path)
    kept, slow, unknown = (planned(options, each) for each in (rates(FAST), rates(PassTime((1.0,), (1.0,))), None))
    assert (kept.draft_rows, slow.draft_rows, unknown.draft_rows) == (FEW_ROWS, 0, 0)
    assert kept.draft_is_rounded == rounds_blocks(["Q4_0"]), "a draft only proposes"
    assert not slow.draft_is_rounded
    assert not kept.is_rounded
    assert slow.bytes.draft == unknown.bytes.draft
    saved = open_checkpoint(str(draft)).parameters * 4 - draft.stat().st_size
    assert slow.bytes.draft - kept.bytes.draft == pytest.approx(saved, rel=0.15), "all but one matrix's room"
    assert kept.forecast.draft_seconds < slow.forecast.draft_seconds


def test_small_drafts_are_decoded(draft: Path, tmp_path: Path) -> None:
    assert planned(options_for(draft, tmp_path), rates(FAST)).draft_rows == 0


@pytest.mark.parametrize(
    ("stored", "ready", "pays"),
    [(FAST, SLOW, True), (SLOW, SLOW, True), (SLOW, FAST, False), (None, SLOW, False), (FAST, None, False)],
)
def test_what_pays(stored: PassTime | None, ready: PassTime | None, pays: bool) -> None:
    assert levels_gain_stored(replace(CPU_RATES, stored=stored, products=ready)) == pays


def test_rows_are_rounded_in_networks_of_float32_alone(draft: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(draft))
    for weights, can in (("auto", True), ("nf4", True), ("bfloat16", False)):
        options = options_for(draft, tmp_path, weights=weights)
        found = preparation.draft_rounds(options, checkpoint, CPU, Arithmetic("float32", FEW_ROWS))
        assert found == (can and rounds_blocks(["Q4_0"]))
        assert not preparation.rounds(options, checkpoint, CPU), "of a target only where that is asked for"
        bench = draft_benchmark(PairIdentity(checkpoint, checkpoint, options), CPU)
        assert bench is not None
        assert bench.is_rounded == found
    assert not preparation.draft_rounds(options_for(draft, tmp_path), checkpoint, torch.device("cuda"))


def test_nothing_is_left_behind_where_what_follows_fails(
    draft: Path, tmp_path: Path, matters: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del matters
    opened: list[LayerStream] = []
    closed: list[LayerStream] = []
    load, close = LayerStream.load, LayerStream.close

    def noted(stream: LayerStream) -> Iterator[int]:
        opened.append(stream)
        return load(stream)

    def ended(stream: LayerStream) -> None:
        closed.append(stream)
        close(stream)

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(LayerStream, "load", noted)
    monkeypatch.setattr(LayerStream, "close", ended)
    monkeypatch.setattr(loaded_pair, "_translation", fail)
    with pytest.raises(RuntimeError):
        loaded(options_for(draft, tmp_path))
    assert set(closed) == set(opened) != set()


def test_texts_that_were_read_are_kept_apart(pair: tuple[Engine, Loaded]) -> None:
    held = pair[0]._loaded.weights.draft
    assert held is not None
    names = {replace(held, is_rounded=is_rounded).held_as for is_rounded in (False, True)}
    assert names == {"Q4_0", "Q4_0 times 8 bits"}
    assert LoadedDraft(held.network).held_as == ""


def held_in(checkpoint: Checkpoint, rows: int, cache: Path) -> Context:
    """As a draft that stays packed for so many rows."""
    options = LoadOptions(str(checkpoint.path), str(checkpoint.path), weights="float32", cache_dir=str(cache))
    plan = plan_pair(checkpoint, None, CPU, question_for(PairIdentity(checkpoint, None, options)))
    steps = load_draft(0, checkpoint, replace(plan, draft_rows=rows), options, CPU, Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Context(end.value.network, 128)


def in_blocks(folder: Path, family: str) -> checkpoints.Pair:
    """A GGUF file with matrices, also of experts, in blocks of 4 bits."""
    shape = {**BASE, "hidden_size": 64, "intermediate_size": 64}
    model = random_model(transformers.CONFIG_MAPPING[family](**shape))
    packed = open_checkpoint(str(write_gguf(folder / "model.gguf", model, "Q4_0")))
    return packed, packed


@pytest.mark.parametrize(
    ("make", "family"),
    [
        (checkpoints.bitsandbytes, "llama"),
        (lambda folder, family: checkpoints.bitsandbytes(folder, family, "int8"), "llama"),
        (checkpoints.awq, "llama"),
        (checkpoints.gptq, "qwen3"),
        *choose([], [(in_blocks, "qwen3_moe")]),
    ],
)
def test_all_formats_say_what_they_say_decoded(
    make: Callable[[Path, str], checkpoints.Pair], family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)
    packed, _ = make(tmp_path, family)
    found = []
    for rows in (FEW_ROWS, 0):
        context = held_in(packed, rows, tmp_path / "cache")
        context.prefill(list(range(5, 45)))  # more rows than few
        levels = []
        for _ in range(2):  # weights that were decoded for many rows are not in the way of few
            levels.append(context.score(*LEVEL))
            context.rewind(40)
        context.prefill(list(range(7, 47)))
        found.append([*levels, context.score(*LEVEL)])
    for few, ready in zip(*found, strict=True):
        torch.testing.assert_close(few, ready, rtol=1e-3, atol=1e-3)
    assert torch.equal(found[0][0], found[0][1])
