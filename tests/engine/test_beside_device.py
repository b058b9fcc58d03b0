"""Experts in RAM beside a GPU, played by the host: nothing mixes the two, and the host waits for it once a layer."""

from itertools import product as combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.products import product
from engine.model.shape import model_sizes
from engine.model.streamable_network import build_streamable
from engine.weights.codecs.codec import codec_named
from engine.weights.streaming.copy_stream import CudaCopyStream
from engine.weights.streaming.layer_stream import LayerStream, StreamOptions
from tests.campaigns.extent import choose
from tests.engine.packed_models import packed_model
from tests.engine.played_gpu import CUDA, HOST, on_host, played_gpu
from tests.engine.tiny_models import save_tiny_model
from tests.engine.weights.test_layer_stream import pack
from tests.engine.weights.test_packed_stream import stored_layers

LAYERS, SLOTS = 2, 1 << 19


@pytest.fixture(autouse=True)
def _small_matrices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "SMALLEST", 1)


def qwen(folder: Path) -> Checkpoint:
    save_tiny_model("qwen3_moe", folder, num_hidden_layers=LAYERS, moe_intermediate_size=64)
    return open_checkpoint(str(folder))


def passes(context: Context) -> list[Tensor]:
    context.prefill([5, 9, 3, 7])
    found = []
    for seed in range(3):
        found.append(on_host(context.score([seed + 1, seed + 2, seed + 3], [-1, 0, 0])))
        context.keep([0])
    return found


def streamed(
    checkpoint: Checkpoint, folder: Path, device: torch.device, cache_bytes: int, trunks_stay: bool = False
) -> tuple[list[Tensor], int]:
    """Logits, and how many experts the processor multiplied as they are stored beside the device."""
    streamable = build_streamable(checkpoint, torch.float32, device)
    if checkpoint.packed:
        stored = stored_layers(streamable)
        layouts, decoders = stored.layouts, stored.decoders
    else:
        folder.mkdir(exist_ok=True)
        layouts = pack(build_streamable(checkpoint, torch.float32, HOST), folder, "cast")
        decoders = [codec_named("cast")] * len(layouts)
    options = StreamOptions(
        expert_cache_bytes=cache_bytes, choose=lambda _: "computed", host_rows=8, trunks_stay=trunks_stay
    )
    copies = CudaCopyStream(device) if device == CUDA else None
    stream = LayerStream(
        list(streamable.network.layers), layouts, ["ram"] * len(layouts), decoders, copies, options
    )  # fmt: skip
    try:
        list(stream.load())
        found = passes(Context(streamable.network, 64))
        return found, stream.expert_use.in_place
    finally:
        stream.close()


@pytest.mark.parametrize(
    ("family", "cache_bytes", "trunks_stay"),
    choose(
        [("qwen3_moe", SLOTS, False), ("gpt_oss", SLOTS, True)],
        list(combinations(("qwen3_moe", "gpt_oss"), (0, SLOTS), (False, True))),
    ),
)
def test_a_device_and_the_processor_together_compute_the_same(
    family: str, cache_bytes: int, trunks_stay: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    checkpoint = qwen(folder) if family == "qwen3_moe" else packed_model(folder, "gpt_oss", "mxfp4")[0]
    expected, _ = streamed(checkpoint, tmp_path / "layers", HOST, 0)
    with played_gpu() as gpu:
        found, in_place = streamed(checkpoint, tmp_path / "layers", CUDA, cache_bytes, trunks_stay)
        waits = [(operation, place) for operation, place in gpu.places if "experts/beside" in place]
        count = sum(gpu.places[each] for each in waits if not each[0].startswith("upload"))
    assert count == 4 * len(model_sizes(checkpoint).layers), "once a layer and pass"
    assert in_place > 0
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4 * float(other.abs().max()))
