"""On a real GPU: the plan's peaks are the process's, the link is measured, ready models pass RAM by the layer."""

from pathlib import Path

import pytest
import torch

from engine.loading.measurements.benchmark import benchmark_of
from engine.model.checkpoint import open_checkpoint
from engine.model.streamable_network import load_layerwise
from engine.protocol.options import EMBEDDED
from engine.weights.planning.machine import peak_rss_bytes
from tests.bench.inflate import inflate
from tests.bench.plan_accuracy import peaks
from tests.engine.model.test_layerwise import load
from tests.engine.model.test_streamable_network import assert_same
from tests.engine.resident import load_resident
from tests.engine.tiny_models import FAMILIES, tiny_model

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")
LAYER_BYTES = 256 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded target with 2 GiB of layers."""
    return inflate(tmp_path_factory.mktemp("large") / "model", 8 * LAYER_BYTES)


@pytest.mark.parametrize(
    "options",
    [
        ["--weights", "bfloat16", "--place", "device"],
        ["--weights", "bfloat16", "--place", "ram"],
        ["--weights", "bfloat16", "--place", "ssd", "--budget", "256"],
        ["--weights", "nf4", "--place", "ram", "--budget", "1024"],
    ],
)
def test_the_peak_of_gpu_memory_is_the_plan_s(options: list[str], large: Path) -> None:
    found = peaks(large, [*options, "--device", "cuda"])["peak_vram_bytes"]
    assert found["predicted"] == pytest.approx(found["real"], rel=0.05)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_ready_model_is_the_one_that_transformers_loads(family: str, dtype: torch.dtype, tmp_path: Path) -> None:
    tiny_model(family, dtype=torch.bfloat16).save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    _, network = load(checkpoint, dtype, CUDA)
    assert_same(network, load_resident(checkpoint, dtype, CUDA))


def test_a_ready_model_takes_a_layer_of_ram_on_its_way(large: Path) -> None:
    list(load_layerwise(open_checkpoint(EMBEDDED), torch.bfloat16, CUDA))  # what CUDA takes of the host, but once
    before = peak_rss_bytes()
    list(load_layerwise(open_checkpoint(str(large)), torch.bfloat16, CUDA))
    assert peak_rss_bytes() - before < LAYER_BYTES + (1 << 30)


def test_the_link_is_measured(tmp_path: Path) -> None:
    bench = benchmark_of(open_checkpoint(EMBEDDED), "nf4", CUDA, tmp_path)
    rates = bench.measure(lambda: None).rates
    assert 0 < rates.link < rates.memory
    assert bench.recall()
    assert torch.cuda.get_device_name(CUDA) in bench.key
