"""Preparing real checkpoints: every family, every codec, the weights of a model loaded whole, memory of one layer."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import Cancellation, Cancelled, InputError, ModelError
from engine.loading.preparation import prepare_model, prepared_folder, source_fingerprint, storage
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.weights.codecs.codec import codec_named
from engine.weights.store.prepared_model import open_prepared
from tests.campaigns.extent import choose, is_whole
from tests.engine.resident import load_resident
from tests.engine.tiny_models import SOME, save_tiny_model, tiny_model
from tests.engine.weights.reading import read

CPU = torch.device("cpu")


def save(folder: Path, family: str = "llama", dtype: torch.dtype = torch.float32) -> Checkpoint:
    save_tiny_model(family, folder / "model", dtype=dtype, shard_size="200KB")
    return open_checkpoint(str(folder / "model"))


@pytest.mark.parametrize(
    ("family", "weights"),
    choose(
        [("llama", "int8"), ("gemma3", "bfloat16"), ("qwen3_moe", "nf4"), ("gpt_oss", "nf4"), ("gpt_oss", "int8")],
        list(product(SOME, ("bfloat16", "int8", "nf4"))),
    ),
)
def test_prepared_layers_are_the_model_s_weights_through_the_codec(family: str, weights: str, tmp_path: Path) -> None:
    checkpoint = save(tmp_path, family)
    folder = prepared_folder(tmp_path, checkpoint, weights)
    steps = list(prepare_model(checkpoint, weights, folder, Cancellation()))
    prepared = open_prepared(folder, source_fingerprint(checkpoint))
    stored_bytes = sum(entry.nbytes for layout in prepared.layouts() for entry in layout.tensors)
    assert steps[-1].nbytes == steps[-1].total_bytes == stored_bytes, "told exactly before anything was read"
    name, dtype = storage(weights, checkpoint)
    codec = codec_named(name)
    for layer, layout in zip(load_resident(checkpoint, dtype, CPU).layers, prepared.layouts(), strict=True):
        stored = read(layout)
        for weight, tensor in layer.state_dict().items():
            for part, expected in codec.encode(weight, tensor).items():
                assert torch.equal(stored.pop(part), expected), part
        assert not stored


def layer_files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("layer*"))]


@pytest.mark.gpu
@pytest.mark.parametrize("weights", ["nf4", "int8"])
def test_a_gpu_compresses_to_the_same_bytes(weights: str, tmp_path: Path) -> None:
    checkpoint, files = save(tmp_path / "model", "gpt_oss"), []
    for device in (CPU, torch.device("cuda")):
        list(prepare_model(checkpoint, weights, tmp_path / device.type, Cancellation(), device))
        files.append(layer_files(tmp_path / device.type))
    assert files[0] == files[1]


def test_where_a_gpu_has_no_room_the_processor_compresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, asked = save(tmp_path / "model"), []
    list(prepare_model(checkpoint, "nf4", tmp_path / "cpu", Cancellation()))
    to = torch.Tensor.to

    def full(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        if arguments and arguments[0] == torch.device("cuda"):
            asked.append(tensor)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return to(tensor, *arguments, **named)

    monkeypatch.setattr(torch.Tensor, "to", full)
    list(prepare_model(checkpoint, "nf4", tmp_path / "cuda", Cancellation(), torch.device("cuda")))
    assert asked
    assert layer_files(tmp_path / "cuda") == layer_files(tmp_path / "cpu") != []


@pytest.mark.parametrize(
    ("weights", "own", "expected"),
    [
        ("bfloat16", torch.float32, ("plain", torch.bfloat16)),
        ("float16", torch.bfloat16, ("plain", torch.float16)),
        ("nf4", torch.bfloat16, ("nf4", torch.bfloat16)),
        ("int8", torch.float32, ("int8", torch.float32)),
    ],
)
def test_compressed_weights_are_made_from_the_checkpoint_s_own_numbers(
    tmp_path: Path, weights: str, own: torch.dtype, expected: tuple[str, torch.dtype]
) -> None:
    assert storage(weights, save(tmp_path, dtype=own)) == expected


def test_unknown_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'nf3' cannot be prepared"):
        next(prepare_model(save(tmp_path), "nf3", tmp_path / "out", Cancellation()))


def test_the_place_in_the_cache_tells_name_weights_and_state(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    folder = prepared_folder(tmp_path / "cache", checkpoint, "nf4")
    assert folder.parent == tmp_path / "cache"
    assert folder.name.startswith("model-nf4-")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text() + "\n")
    assert prepared_folder(tmp_path / "cache", checkpoint, "nf4") != folder


def test_cancelling_between_layers_keeps_what_is_done(tmp_path: Path) -> None:
    checkpoint, cancellation = save(tmp_path), Cancellation()
    steps = prepare_model(checkpoint, "nf4", tmp_path / "out", cancellation)
    next(steps)
    cancellation.cancel(0)
    with pytest.raises(Cancelled):
        next(steps)
    resumed = list(prepare_model(checkpoint, "nf4", tmp_path / "out", Cancellation()))
    assert [step.kept for step in resumed] == [True, False, False, False]


def test_a_source_that_changes_during_a_run_spoils_it(tmp_path: Path) -> None:
    checkpoint = save(tmp_path)
    steps = prepare_model(checkpoint, "bfloat16", tmp_path / "out", Cancellation())
    next(steps)
    shard = checkpoint.shards[0]
    shard.write_bytes(shard.read_bytes())
    with pytest.raises(ModelError, match="have changed"):
        list(steps)


MEASURED = """
import json, sys
from pathlib import Path
from engine.errors import Cancellation
from engine.model.layer_converter import open_layer_converter
from engine.model.checkpoint import open_checkpoint
from engine.loading.preparation import prepare_model, storage

def peak_bytes():  # of this program alone: rusage would count what the one that started it had held
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

checkpoint = open_checkpoint(sys.argv[1])
blueprint = open_layer_converter(checkpoint, storage(sys.argv[2], checkpoint)[1])
before = peak_bytes()
for _ in prepare_model(checkpoint, sys.argv[2], Path(sys.argv[3]), Cancellation()):
    pass
layers = [blueprint.nbytes(index) for index in range(len(blueprint))]
print(json.dumps({"layer": layers[0], "model": sum(layers), "peak": peak_bytes(), "risen": peak_bytes() - before}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's own peak")
@pytest.mark.skipif(not is_whole(), reason="writes and measures a model of some size: for the proofs")
@pytest.mark.parametrize(("family", "weights"), [("llama", "nf4"), ("mixtral", "bfloat16")])
def test_memory_is_that_of_one_layer_and_a_gigabyte(family: str, weights: str, tmp_path: Path) -> None:
    sizes = {"hidden_size": 1024, "intermediate_size": 4096 if family == "llama" else 1024, "num_hidden_layers": 10}
    tiny_model(family, dtype=torch.bfloat16, **sizes).save_pretrained(tmp_path / "model")
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "model"), weights, str(tmp_path / "out")]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert measured["peak"] <= measured["layer"] + (1 << 30)
    assert measured["risen"] < measured["model"] / 2, "the model never lies in memory"
