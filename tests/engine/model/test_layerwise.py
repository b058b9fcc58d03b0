"""Weights brought to their device a layer at a time: the same network, and no more memory beside it than a layer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.network import Network
from engine.model.streamable_network import load_layerwise
from tests.bench.inflate import inflate
from tests.campaigns.extent import choose, is_whole
from tests.engine.model.test_streamable_network import assert_same
from tests.engine.resident import load_resident
from tests.engine.tiny_models import SOME, save_tiny_model

CPU = torch.device("cpu")
MIB = 1 << 20

LOADING = """
import json, sys
import torch
from engine.loading.out_of_memory import give_back_large_blocks
from engine.model import streamable_network
from engine.model.checkpoint import open_checkpoint
from engine.model.streamable_network import load_layerwise
from engine.model.streamable_network import build_streamable
from engine.weights.planning.machine import peak_rss_bytes

# the stand-in device takes layers, but embeddings that are nowhere would be complained about
cpu = torch.device("cpu")
streamable_network.build_streamable = lambda checkpoint, dtype, _device: build_streamable(checkpoint, dtype, cpu)
give_back_large_blocks()
checkpoint = open_checkpoint(sys.argv[1])
for _ in load_layerwise(open_checkpoint("embedded"), torch.bfloat16, torch.device("cpu")):
    pass  # whatever loading takes but once
before = peak_rss_bytes()
for _ in load_layerwise(checkpoint, torch.bfloat16, torch.device(sys.argv[2])):
    pass
print(json.dumps(peak_rss_bytes() - before))
"""


def load(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device = CPU
) -> tuple[list[tuple[int, int]], Network]:
    """The steps, and the network."""
    steps, told = load_layerwise(checkpoint, dtype, device), []
    while True:
        try:
            told.append(next(steps))
        except StopIteration as end:
            return told, end.value


@pytest.mark.parametrize("stored", choose([torch.float32], [torch.bfloat16, torch.float32]))
@pytest.mark.parametrize("family", SOME)
def test_every_family_is_the_network_that_transformers_loads(family: str, stored: torch.dtype, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path, dtype=stored)
    checkpoint = open_checkpoint(str(tmp_path))
    for used in choose((torch.bfloat16,), (torch.float32, torch.bfloat16)):
        told, network = load(checkpoint, used)
        assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert_same(network, load_resident(checkpoint, used, CPU))


@pytest.mark.skipif(sys.platform == "win32", reason="the peak of a process is not told exactly")
@pytest.mark.skipif(not is_whole(), reason="writes and measures a model of some size: for the proofs")
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_device_of_its_own_takes_no_more_of_host_memory_than_a_layer(device: str, tmp_path: Path) -> None:
    """`meta` stands in for a device with memory of its own: what goes there leaves the host's."""
    model = inflate(tmp_path / "model", 400 * MIB)
    run = subprocess.run(
        [sys.executable, "-c", LOADING, str(model), device], capture_output=True, text=True, check=True, timeout=120
    )
    taken = json.loads(run.stdout)
    if device == "cpu":
        assert 380 * MIB < taken < 460 * MIB, "all layers are there, and nothing was there twice"
    else:
        assert taken < 2 * 50 * MIB + 32 * MIB
