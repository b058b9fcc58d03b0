"""The number type of the arithmetic is measured: where float32 is faster, 16-bit models compute in it."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import Cancellation, Cancelled
from engine.loading.loaded_pair import LoadedPair, load_pair
from engine.loading.measurements import arithmetic, measuring
from engine.loading.measurements.arithmetic import find_arithmetic, recall_arithmetic
from engine.loading.measurements.benchmark import machine_key
from engine.loading.measurements.measuring import LOOPS, MEASURED_ROWS, DeviceTimer, _crossing, _parting
from engine.loading.measurements.rates_file import NAME, VERSION
from engine.loading.pair import Pair, open_pair
from engine.loading.planning import needs_of
from engine.loading.preparation import dtype_for
from engine.model import device
from engine.model.checkpoint import open_checkpoint
from engine.model.device import Arithmetic
from engine.model.model_folder import EMBEDDED_MODELS
from engine.model.products import product
from engine.model.shape import model_sizes
from engine.number_types import computed_types
from engine.protocol.options import LoadOptions
from engine.weights.streaming import stored_weight
from engine.weights.streaming.stored_weight import NarrowWeight, StoredWeight
from tests.engine.tiny_models import save_tiny_model

CPU = torch.device("cpu")
EXACT = Arithmetic("float32", 16)
NARROW = Arithmetic("bfloat16", 16, narrow_rows=1)


def with_tokenizer(folder: Path, dtype: torch.dtype) -> Path:
    save_tiny_model("llama", folder, dtype, vocab_size=4096)
    for path in (EMBEDDED_MODELS / "demo-target").glob("*token*"):
        shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def narrow_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model in bfloat16."""
    folder: Path = tmp_path_factory.mktemp("arithmetic") / "model"
    return with_tokenizer(folder, torch.bfloat16)


@pytest.fixture(autouse=True)
def large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models count as large."""
    monkeypatch.setattr(device, "SMALLEST", 1)
    monkeypatch.setattr(arithmetic, "SMALLEST", 1)
    monkeypatch.setattr(device, "FLOAT32_ON_CPU_BYTES", 0)
    monkeypatch.setattr(stored_weight, "SMALLEST", 1)


def pair_of(model: Path, cache: Path, draft: str = "", **options: object) -> Pair:
    return open_pair(replace(LoadOptions(str(model), draft, "cpu", context_tokens=64, cache_dir=str(cache)), **options))  # type: ignore[arg-type]


def loaded(pair: Pair) -> LoadedPair:
    steps = load_pair(1, pair, Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: LoadedPair = end.value
            return found


def test_it_is_measured_once_and_found_again(narrow_model: Path, tmp_path: Path) -> None:
    pair = pair_of(narrow_model, tmp_path).identity
    assert recall_arithmetic(pair.options, CPU) is None
    checks: list[int] = []
    found = find_arithmetic(pair, CPU, lambda: checks.append(1))
    assert found is not None
    assert found.type_name in {"float32", "bfloat16"}
    assert len(checks) > 4, "it can be stopped in between"
    checks.clear()
    assert find_arithmetic(pair, CPU, lambda: checks.append(1)) == found == recall_arithmetic(pair.options, CPU)
    assert not checks
    assert recall_arithmetic(pair.options, torch.device("cuda")) is None


def test_it_is_not_measured_for_models_that_it_does_not_matter_to(tmp_path: Path, narrow_model: Path) -> None:
    def fail() -> None:
        raise AssertionError

    exact = with_tokenizer(tmp_path / "exact", torch.float32)
    assert find_arithmetic(pair_of(exact, tmp_path).identity, CPU, fail) is None
    assert find_arithmetic(pair_of(narrow_model, tmp_path, weights="bfloat16").identity, CPU, fail) is None
    assert find_arithmetic(pair_of(narrow_model, tmp_path).identity, torch.device("cuda"), fail) is None


def test_stopping_leaves_nothing_behind(narrow_model: Path, tmp_path: Path) -> None:
    def stop() -> None:
        raise Cancelled

    pair = pair_of(narrow_model, tmp_path).identity
    with pytest.raises(Cancelled):
        find_arithmetic(pair, CPU, stop)
    assert recall_arithmetic(pair.options, CPU) is None


@pytest.mark.parametrize(
    "entry",
    [
        f'{{"type_name": "int8", "few_rows": 4, "narrow_rows": 0, "loops": {LOOPS}}}',
        f'{{"type_name": "float32", "few_rows": -1, "narrow_rows": 0, "loops": {LOOPS}}}',
        f'{{"type_name": "bfloat16", "few_rows": 4, "narrow_rows": -1, "loops": {LOOPS}}}',
        f'{{"type_name": "float32", "few_rows": 4, "loops": {LOOPS}}}',
        f'{{"type_name": "float32", "few_rows": 4, "narrow_rows": 0, "loops": {LOOPS - 1}}}',
        '{"type_name": "float32", "few_rows": 4, "narrow_rows": 0}',
    ],
)
def test_what_cannot_be_counts_as_unknown(entry: str, narrow_model: Path, tmp_path: Path) -> None:
    options = pair_of(narrow_model, tmp_path).options
    file = tmp_path / NAME
    file.write_text(f'{{"version": {VERSION}, "arithmetic": {{"{machine_key(CPU)}": {entry}}}}}')
    assert recall_arithmetic(options, CPU) is None


def test_only_what_nobody_decided_is_computed_exactly(narrow_model: Path) -> None:
    checkpoint = open_checkpoint(str(narrow_model))
    for weights, expected in (("auto", torch.float32), ("nf4", torch.float32), ("bfloat16", torch.bfloat16)):
        assert dtype_for(weights, checkpoint, CPU, EXACT) == expected
    for known in (None, Arithmetic("bfloat16", 16)):
        assert dtype_for("auto", checkpoint, CPU, known) == torch.bfloat16
    assert dtype_for("auto", checkpoint, torch.device("cuda"), EXACT) == torch.bfloat16


def test_the_plan_counts_weights_in_16_bits_and_a_cache_in_32(narrow_model: Path) -> None:
    checkpoint = open_checkpoint(str(narrow_model))
    usual, exact = (needs_of(checkpoint, model_sizes(checkpoint), "auto", CPU, known) for known in (None, EXACT))
    assert exact.stays_stored
    assert not exact.may_be_ready
    assert not usual.stays_stored
    assert [each.stored_bytes for each in exact.layers] == [each.stored_bytes for each in usual.layers]
    assert exact.rest_bytes == usual.rest_bytes
    assert exact.kv_bytes == 2 * usual.kv_bytes


def test_target_and_draft_stay_in_16_bits_and_give_what_float32_gives(
    narrow_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "measure_arithmetic", lambda *_: EXACT)
    pair = loaded(pair_of(narrow_model, tmp_path, str(narrow_model)))
    assert pair.draft is not None
    assert pair.stream is not None
    heads = [each.network.model.get_output_embeddings().weight for each in (pair.target, pair.draft)]
    assert all(isinstance(head, NarrowWeight) for head in heads)
    told = pair.describe(1, 0.0)
    assert told.draft is not None
    assert (told.target.weights, told.draft.weights) == ("bfloat16", "bfloat16")
    halves = [told.target.parameters * 2, told.draft.parameters * 2]
    assert [told.target.bytes, told.draft.bytes] == pytest.approx(halves, rel=0.1), "as they are kept"
    ready = loaded(pair_of(narrow_model, tmp_path, weights="float32"))
    for rows in (3, 40):  # few, and so many that they are decoded
        wanted = ready.target.score(list(range(5, 5 + rows)), [-1] * rows)
        for context in (pair.target, pair.draft):
            found = context.score(list(range(5, 5 + rows)), [-1] * rows)
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
            assert context.network.dtype == torch.float32
            context.rewind(0)
        ready.target.rewind(0)
    pair.weights.close()


def test_weights_stay_as_they_are_where_even_one_row_of_bfloat16_is_faster(
    narrow_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "measure_arithmetic", lambda *_: NARROW)
    monkeypatch.setattr(measuring, "_crossing", lambda *_: NARROW.narrow_rows)  # products so small measure anything
    pair = loaded(pair_of(narrow_model, tmp_path, str(narrow_model)))
    assert pair.draft is not None
    heads = [each.network.model.get_output_embeddings().weight for each in (pair.target, pair.draft)]
    assert all(isinstance(head, NarrowWeight) and head.dtype == torch.bfloat16 for head in heads)
    assert isinstance(pair.target.network.layers[0].get_submodule("mlp.up_proj").weight, StoredWeight)
    ready = loaded(pair_of(narrow_model, tmp_path, weights="bfloat16"))
    assert ready.stream is None
    from_disk = loaded(pair_of(narrow_model, tmp_path, str(narrow_model), place="ssd"))
    for rows in (1, 3, 40):
        wanted, streamed, found, drafted = (
            context.score(list(range(5, 5 + rows)), [-1] * rows)
            for context in (ready.target, from_disk.target, pair.target, pair.draft)
        )
        assert torch.equal(streamed, found)
        assert torch.equal(drafted, found)
        if rows > 1:  # that torch multiplies: what is one row alone is rounded less often
            assert torch.equal(found, wanted)
        torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.05)
        assert found.abs().max() > 0
        for each in (ready.target, from_disk.target, pair.target, pair.draft):
            each.rewind(0)
    for one in (pair, from_disk):
        one.weights.close()


def test_they_are_ready_where_staying_gains_nothing(narrow_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(str(narrow_model))

    def stays(known: Arithmetic | None, weights: str = "auto") -> bool:
        return needs_of(checkpoint, model_sizes(checkpoint), weights, CPU, known).stays_stored

    assert stays(NARROW)
    assert not any(stays(known) for known in (None, Arithmetic("bfloat16", 16)))
    assert not stays(NARROW, "bfloat16"), "as a person wants them"
    monkeypatch.setattr(device, "FLOAT32_ON_CPU_BYTES", 1 << 40)
    assert dtype_for("auto", checkpoint, CPU, NARROW) == torch.float32
    assert stays(NARROW), "half the memory"
    assert not stays(Arithmetic("bfloat16", 0, narrow_rows=1))


@pytest.mark.parametrize("known", [EXACT, NARROW], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["qwen3_moe", "glm4_moe", "mixtral"])
def test_a_mixture_stays_in_16_bits_without_a_copy_on_disk(
    family: str, known: Arithmetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "measure_arithmetic", lambda *_: known)
    monkeypatch.setattr(product, "SMALLEST", 1)  # tiny experts, too
    mixture, dtype = tmp_path / "mixture", computed_types()[known.type_name]
    save_tiny_model(family, mixture, torch.bfloat16, vocab_size=4096)
    for path in (EMBEDDED_MODELS / "demo-target").glob("*token*"):
        shutil.copy(path, mixture)
    pair = loaded(pair_of(mixture, tmp_path))
    assert pair.stream is None
    assert not list(tmp_path.rglob("layer-*.safetensors")), "nothing was prepared"
    stacks = [weight for name, weight in pair.target.network.model.named_parameters() if ".experts." in name]
    assert {stack.dtype for stack in stacks} == {torch.bfloat16}
    told = pair.describe(1, 0.0)
    assert told.target.weights == "bfloat16"
    assert told.target.bytes == pytest.approx(2 * told.target.parameters, rel=0.1)
    ready = loaded(pair_of(mixture, tmp_path, weights=known.type_name))
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    others, passes = 0, (1, 3, 40)
    for rows in passes:
        tokens, parents = list(range(5, 5 + rows)), [-1] * rows
        found, wanted = pair.target.score(tokens, parents), ready.target.score(tokens, parents)
        off = (found - wanted).abs() > tolerance * (1 + wanted.abs())
        others += int(off.any(dim=1).sum())
        pair.target.rewind(0)
        ready.target.rewind(0)
    # In bfloat16 a router's choice turns with the rounding where two experts are as good: in few rows, but in any.
    assert others <= (sum(passes) // 8 if dtype == torch.bfloat16 else 0)
    streamed = loaded(pair_of(mixture, tmp_path, place="ssd"))
    assert list(tmp_path.rglob("layer-*.safetensors")), "only what streams is"
    streamed.weights.close()


def test_numbers_that_16_bits_do_not_hold_stay(narrow_model: Path) -> None:
    assert NarrowWeight.of(torch.tensor([[1.0, 1.0001]]), torch.bfloat16, 4) is None
    assert NarrowWeight.of(torch.tensor([[1.0, 1.0001]]).bfloat16().float(), torch.bfloat16, 4) is not None


@pytest.mark.parametrize(
    ("as_stored", "decoded", "few"),
    [
        ((1.0, 2.0, 4.0, 9.0), (5.0, 5.0, 5.0, 5.0), 3),
        ((1.0, 9.0, 4.0, 9.0), (5.0, 5.0, 5.0, 5.0), 3),  # one was disturbed
        ((6.0, 7.0, 8.0, 9.0), (5.0, 5.0, 5.0, 5.0), 0),
        ((1.0, 2.0, 3.0, 4.0), (5.0, 5.0, 5.0, 5.0), 4),
    ],
)
def test_weights_are_decoded_from_where_all_measurements_together_say(
    as_stored: tuple[float, ...], decoded: tuple[float, ...], few: int
) -> None:
    assert _parting(as_stored, decoded) == few


def test_ways_are_timed_in_turns() -> None:
    order: list[str] = []
    timer = DeviceTimer(torch.device("cpu"), torch.float32, lambda: None)
    seconds = timer.seconds_in_turns([lambda: order.append("a"), lambda: order.append("b")], lambda: order.append(""))
    assert len(seconds) == 2
    assert order == ["a", "b"] + ["", "a", "", "b"] * 3


@pytest.mark.parametrize(
    ("at_count", "beyond", "few"),
    [((2.0, 3.0), (6.0, 5.0), 49), ((2.0, 5.0), (6.0, 5.0), 57), ((2.0, 2.0), (6.0, 5.0), 33)],
)
def test_between_two_measurements_the_ways_cross_where_lines_do(
    at_count: tuple[float, float], beyond: tuple[float, float], few: int
) -> None:
    count = MEASURED_ROWS.index(65)
    first, then = ([1.0] * len(MEASURED_ROWS) for _ in range(2))
    (first[count - 1], then[count - 1]), (first[count], then[count]) = at_count, beyond
    assert _crossing(first, then, count) == few
    assert _crossing(first, then, len(MEASURED_ROWS)) == MEASURED_ROWS[-1]
