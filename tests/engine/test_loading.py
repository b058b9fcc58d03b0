"""A target is the same numbers wherever its layers live and however its file is laid out."""

import json
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from engine import engine as engines
from engine.errors import Cancellation, ModelError
from engine.loading.loading import LoadedTarget, load_planned, plan_target
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.protocol.options import LoadOptions
from tests.engine.tiny_models import tiny_model

CPU = torch.device("cpu")
LENGTH_BYTES = 8  # before the header of a safetensors file


def shift_weights(file: Path, remainder: int) -> None:
    """Let the file's numbers begin `remainder` bytes behind a multiple of 16, by spaces after its header."""
    whole = file.read_bytes()
    end = LENGTH_BYTES + int.from_bytes(whole[:LENGTH_BYTES], "little")
    header = json.dumps(json.loads(whole[LENGTH_BYTES:end])).encode()
    header += b" " * ((remainder - LENGTH_BYTES - len(header)) % 16)
    file.write_bytes(len(header).to_bytes(LENGTH_BYTES, "little") + header + whole[end:])


def loaded(checkpoint: Checkpoint, options: LoadOptions) -> LoadedTarget:
    cancellation = Cancellation()
    cancellation.begin(1)
    planning = plan_target(1, checkpoint, None, options, CPU, cancellation)
    try:
        while True:
            next(planning)
    except StopIteration as end:
        plan = end.value
    loading = load_planned(1, checkpoint, plan, options, CPU, cancellation)
    try:
        while True:
            next(loading)
    except StopIteration as end:
        target: LoadedTarget = end.value
        return target


def row_by_row(target: LoadedTarget) -> Tensor:
    """Logits of one token after another: [6, vocabulary]."""
    context = Context(target.network, 32)
    context.prefill([3, 4, 5])
    found = []
    for token in range(6, 12):
        found.append(context.score([token], [-1])[0])
        context.keep([0])
    return torch.stack(found)


@pytest.mark.parametrize("remainder", [0, 8])
@pytest.mark.parametrize("place", ["ssd", "ram"])
def test_streamed_is_resident_wherever_the_weights_begin_in_their_file(
    place: Literal["ram", "ssd"], remainder: int, tmp_path: Path
) -> None:
    tiny_model("llama").save_pretrained(tmp_path / "model")
    shift_weights(tmp_path / "model" / "model.safetensors", remainder)
    checkpoint = open_checkpoint(str(tmp_path / "model"))
    found = {}
    places: tuple[Literal["device", "ram", "ssd"], ...] = ("device", place)
    for where in places:
        options = LoadOptions(weights="float32", place=where, cache_dir=str(tmp_path / "cache"))
        target = loaded(checkpoint, options)
        found[where] = row_by_row(target)
        target.close()
    assert torch.equal(found["device"], found[place])


def test_what_is_loaded_and_cannot_be_described_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its checkpoint's files are gone by then; threads that stream would go on."""
    loaded = Mock(draft=None)
    loaded.describe.side_effect = ModelError("gone")

    def load_pair(*_: Any) -> Any:
        yield from ()
        return loaded

    monkeypatch.setattr(engines, "load_pair", load_pair)
    with pytest.raises(ModelError):
        list(engines.load(1, Mock(), Cancellation()))
    loaded.weights.close.assert_called_once_with()
