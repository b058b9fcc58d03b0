"""This machine measured: plausible figures, in the cache, taken once, and stopped between two measurements."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.engine import load
from engine.errors import Cancellation, Cancelled
from engine.loading.measurements import benchmark, measuring, samples
from engine.loading.measurements.benchmark import benchmark_of
from engine.loading.measurements.measuring import DeviceTimer
from engine.loading.measurements.overheads import Narrow
from engine.loading.measurements.rates_file import NAME
from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.passes.light.adoption import takes_one_call
from engine.model.products import product
from engine.model.products.arranged import Woven
from engine.protocol.messages import Loading
from engine.protocol.options import EMBEDDED, LoadOptions
from tests.engine.gguf_files import write_gguf
from tests.engine.packed_models import packed_model
from tests.engine.tiny_models import tiny_model

CPU = torch.device("cpu")


@pytest.mark.parametrize("weights", ["float32", "bfloat16", "nf4", "int8"])
def test_everything_is_measured_and_found_again(weights: str, tmp_path: Path) -> None:
    bench = benchmark_of(open_checkpoint(EMBEDDED), weights, CPU, tmp_path)
    assert bench.recall() is None
    measured = bench.measure(lambda: None)
    assert bench.recall() == measured
    rates = measured.rates
    assert rates.products
    assert rates.attention
    assert min(rates.ssd, rates.memory, rates.tflops, rates.decode, rates.call_seconds) > 0
    assert rates.calls
    assert rates.levels
    assert rates.round_seconds > 0
    assert bool(rates.stored) == (weights != "bfloat16"), "what is stored as it runs is never decoded"
    assert list(rates.products.rows) == list(measuring.MEASURED_ROWS)
    assert benchmark_of(open_checkpoint(EMBEDDED), "float16", CPU, tmp_path).recall() is None
    assert [path.name for path in tmp_path.iterdir()] == [NAME], "the file that was made to be read is gone"


def test_nothing_is_written_beside_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, cache, read = tmp_path / "model", tmp_path / "cache", list[Path]()
    tiny_model("llama").save_pretrained(model)

    def disk_rate(files: Sequence[Path], _check: object) -> float:
        read.extend(files)
        return 1e9

    monkeypatch.setattr(benchmark, "disk_rate", disk_rate)
    bench = benchmark_of(open_checkpoint(str(model)), "float32", CPU, cache)
    assert bench.folder == model, "its layers come from there"
    assert bench._disk_rate(lambda: None) == 1
    assert [path.parent for path in read] == [cache]
    assert not list(cache.iterdir()), "what was made to be read is gone"


def test_rows_that_only_lie_in_another_order_are_measured_as_layers_multiply_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)
    model = tiny_model("llama", hidden_size=256, intermediate_size=512)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, "BF16")))
    woven = [weight for name, weight in checkpoint.packed.items() if "q_proj" in name]
    sample = samples.packed_sample(woven[0])
    weight = measuring._weights([sample], 1, torch.zeros(woven[0].elements))
    weight[0][0].point(sample.stored)
    assert isinstance(weight[0][0].few_product(1), Woven)
    assert not isinstance(measuring._run(weight, 1, torch.float32), partial), "in steps, as if in the usual order"


def test_beside_a_gpu_a_mixture_s_experts_are_measured_on_the_processor(tmp_path: Path) -> None:
    tiny_model("qwen3_moe").save_pretrained(tmp_path)
    bench = benchmark_of(open_checkpoint(str(tmp_path)), "int8", CPU, tmp_path)
    assert bench._on_host(lambda: None)[0] is None, "the processor has only one way"
    seconds, few_rows = replace(bench, device=torch.device("cuda"))._on_host(lambda: None)
    assert seconds
    assert min(seconds.seconds) > 0
    assert few_rows >= 0


@pytest.mark.parametrize(("family", "kind"), [("gpt_oss", "MXFP4"), ("llama", "Q4_K"), ("llama", "Q6_K")])
def test_packed_samples_are_multiplied_as_the_models_weights_are(family: str, kind: str, tmp_path: Path) -> None:
    model = tiny_model(family, hidden_size=256, intermediate_size=512)
    checkpoint = open_checkpoint(str(write_gguf(tmp_path / "m.gguf", model, kind)))
    of_kind = [weight for weight in checkpoint.packed.values() if kind in weight.format.name]
    weight = next((each.member(0) for each in of_kind if each.is_stack), of_kind[0])
    is_turned = family == "gpt_oss"
    sample = samples.packed_sample(weight)
    product = sample.decoder.product(sample.stored, sample.name, sample.shape)
    assert product is not None
    assert sample.shape == (weight.shape[::-1] if is_turned else weight.shape)
    assert not is_turned or weight.shape == (512, 256)
    decoded = torch.empty(sample.shape)
    sample.decoder.decode(sample.stored, sample.name, decoded)
    some = decoded[decoded != 0].abs()
    assert 1e-30 < float(some.min()) <= float(some.max()) < 1e6, "numbers of usual size"
    x = torch.ones(1, sample.shape[1])
    torch.testing.assert_close(product(x), x @ (decoded.view(weight.shape) if is_turned else decoded.t()))


def test_experts_of_gpt_oss_as_it_is_published_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)
    checkpoint, _ = packed_model(tmp_path / "model", "gpt_oss", "mxfp4")
    bench = benchmark_of(checkpoint, "auto", CPU, tmp_path)
    weight = bench.packed[0][1][samples.PACKED_SIZES[0]]
    sample = samples.packed_sample(weight)
    multiply = sample.decoder.product(sample.stored, sample.name, sample.shape)
    assert multiply is not None
    decoded = torch.empty(weight.shape)
    sample.decoder.decode(sample.stored, sample.name, decoded)
    x = torch.ones(1, sample.shape[1])
    torch.testing.assert_close(multiply(x), x @ decoded)
    seconds, _ = replace(bench, device=torch.device("cuda"))._on_host(lambda: None)
    assert seconds, "beside a GPU"


def test_another_number_of_threads_is_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = benchmark_of(open_checkpoint(EMBEDDED), "bfloat16", CPU, tmp_path)
    key = bench.key
    monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    assert bench.key != key


def test_measuring_is_cancelled_between_two_measurements(tmp_path: Path) -> None:
    calls = 0

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise Cancelled

    bench = benchmark_of(open_checkpoint(EMBEDDED), "bfloat16", CPU, tmp_path)
    with pytest.raises(Cancelled):
        bench.measure(stop)
    assert bench.recall() is None


def stages(options: LoadOptions) -> list[str]:
    """What is told while the embedded target is loaded."""
    cancellation = Cancellation()
    cancellation.begin(1)
    steps = load(1, open_pair(options), cancellation)
    told: list[str] = []
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            end.value.close()
            return told
        if isinstance(event, Loading):
            told.append(event.stage)


def test_a_machine_is_measured_when_layers_stream_for_the_first_time(tmp_path: Path) -> None:
    streamed = LoadOptions(weights="bfloat16", place="ssd", cache_dir=str(tmp_path))
    assert "Measuring this machine" not in stages(LoadOptions(weights="bfloat16", cache_dir=str(tmp_path)))
    assert "Measuring this machine" in stages(streamed)
    assert "Measuring this machine" not in stages(streamed)


def test_narrow_layers_take_one_call_where_the_models_do() -> None:
    for known in (True, False):
        narrow = Narrow(CPU, torch.float32, experts=4, chosen=2, few_rows=4, known=known)
        layers = narrow.context(2, lambda: None).network.layers
        assert [takes_one_call(layer) for layer in layers] == [known, known]
        assert all(("forward" in layer.self_attn.__dict__) == known for layer in layers)


def test_rates_of_one_family_are_not_those_of_another(tmp_path: Path) -> None:
    bench = benchmark_of(open_checkpoint(EMBEDDED), "bfloat16", CPU, tmp_path)
    other = replace(bench.checkpoint, config={**bench.checkpoint.config, "model_type": "another"})
    assert bench.key != replace(bench, checkpoint=other).key


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_network_in_which_nothing_attends_is_measured_all_the_same(dtype: torch.dtype) -> None:
    shape = SimpleNamespace(heads=24, query_width=1, eager=False, value_bytes=2)
    needs: Any = SimpleNamespace(shape=shape, layers=[SimpleNamespace(attends=False)], kv_bytes=0)
    timer = DeviceTimer(torch.device("cpu"), dtype, lambda: None)
    assert all(seconds > 0 for seconds in measuring.attention_time(needs, timer).seconds)
    assert measuring.slots_unpacking_rate(needs, timer) > 0
