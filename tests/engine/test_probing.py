"""A family that no test has compared is tried as it is loaded, told as progress, and remembered."""

from pathlib import Path

import pytest
import torch

from engine.errors import ModelError
from engine.loading.probing import NAME, require_tree_held
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.protocol.options import LoadOptions
from tests.engine.family_proof import loaded
from tests.engine.tiny_models import tiny_model


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Of a family that counts as unknown."""
    monkeypatch.setattr("engine.model.families.probe.VERIFIED", frozenset())
    tiny_model("llama", num_hidden_layers=2).save_pretrained(tmp_path / "model")
    return open_checkpoint(str(tmp_path / "model"))


def stages(checkpoint: Checkpoint, context: Context, cache: Path) -> list[tuple[str, int, int]]:
    steps = require_tree_held(1, context, checkpoint, LoadOptions(cache_dir=str(cache)))
    return [(step.stage, step.done, step.total) for step in steps]


def test_a_probe_is_told_and_made_once(checkpoint: Checkpoint, tmp_path: Path) -> None:
    context = Context(loaded(checkpoint), 16)
    told = stages(checkpoint, context, tmp_path)
    assert [step[1:] for step in told] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert "'model'" in told[0][0]
    assert "llama" in told[0][0]
    assert (tmp_path / NAME).is_file()
    assert stages(checkpoint, context, tmp_path) == []
    (checkpoint.folder / "config.json").touch()
    assert len(stages(checkpoint, context, tmp_path)) == 4, "files that changed are tried again"


def test_what_was_compared_is_not_probed(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model.families.probe.VERIFIED", frozenset({"llama"}))
    assert stages(checkpoint, Context(loaded(checkpoint), 16), tmp_path) == []


def test_a_network_that_fails_on_a_tree_is_refused_and_not_remembered(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(loaded(checkpoint), 16)

    def failing(*_args: object, **_inputs: object) -> None:
        raise RuntimeError("The size of tensor a (4) must match")

    monkeypatch.setattr(context.network.model, "forward", failing)
    with pytest.raises(ModelError, match=r"cannot hold a token tree.*The size of tensor a"):
        stages(checkpoint, context, tmp_path)
    assert not (tmp_path / NAME).exists()


def test_memory_that_runs_out_in_a_probe_is_no_fault_of_the_family(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(loaded(checkpoint), 16)

    def failing(*_args: object, **_inputs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(context.network.model, "forward", failing)
    with pytest.raises(torch.OutOfMemoryError):
        stages(checkpoint, context, tmp_path)
