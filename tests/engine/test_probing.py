"""A family that no test has compared is tried as it is loaded, told as progress, and remembered."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from engine.errors import Cancellation, ModelError
from engine.loading.loaded_pair import load_pair
from engine.loading.pair import open_pair
from engine.loading.probing import NAME, require_not_refused, require_tree_held
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.model_folder import EMBEDDED_MODELS
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS, PackedStates
from engine.protocol.options import LoadOptions
from engine.protocol.sentences import to_json
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


@pytest.fixture
def refusing(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A network that fails on a tree."""
    context = Context(loaded(checkpoint), 16)

    def failing(*_args: object, **_inputs: object) -> None:
        raise RuntimeError("The size of tensor a (4) must match")

    monkeypatch.setattr(context.network.model, "forward", failing)
    return context


def remembered(
    checkpoint: Checkpoint, cache: Path, dtype: torch.dtype = torch.float32, kv: str = "auto"
) -> ModelError | None:
    """The refusal that is raised before anything is loaded."""
    try:
        require_not_refused(checkpoint, dtype, torch.device("cpu"), LoadOptions(cache_dir=str(cache), kv=kv))
    except ModelError as refusal:
        return refusal
    return None


def test_a_refusal_is_remembered_for_these_files_and_versions(
    checkpoint: Checkpoint, refusing: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remembered(checkpoint, tmp_path) is None
    with pytest.raises(ModelError, match=r"cannot hold a token tree.*The size of tensor a") as first:
        stages(checkpoint, refusing, tmp_path)
    again = remembered(checkpoint, tmp_path)
    assert again is not None
    assert (again.message, again.hint) == (first.value.message, first.value.hint)
    assert to_json(again.message) == to_json(first.value.message), "it can still be translated"
    assert remembered(checkpoint, tmp_path, torch.bfloat16) is None
    with monkeypatch.context() as other:
        other.setattr("engine.loading.probing.__version__", "0.0.1")
        assert remembered(checkpoint, tmp_path) is None
    pair = open_pair(LoadOptions(target=str(with_tokenizer(checkpoint)), draft="none", cache_dir=str(tmp_path)))
    with pytest.raises(ModelError, match="cannot hold a token tree"):
        next(load_pair(1, pair, Cancellation()))
    (checkpoint.folder / "config.json").touch()
    assert remembered(checkpoint, tmp_path) is None


def test_each_form_of_keys_and_values_is_tried(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, packed = (Context(loaded(checkpoint), 16, form=form) for form in (AS_COMPUTED, EIGHT_BITS))
    assert len(stages(checkpoint, plain, tmp_path)) == 4
    with monkeypatch.context() as failing:
        failing.setattr(PackedStates, "heads", lambda *_: int("none"))
        with pytest.raises(ModelError, match="cannot hold a token tree"):
            stages(checkpoint, packed, tmp_path)
    assert remembered(checkpoint, tmp_path) is None
    assert remembered(checkpoint, tmp_path, kv="fit") is None, "it may be loaded as computed"
    assert remembered(checkpoint, tmp_path, kv="8") is not None
    assert stages(checkpoint, plain, tmp_path) == []


def with_tokenizer(checkpoint: Checkpoint) -> Path:
    """The model's folder, with the embedded pair's tokenizer."""
    for path in (EMBEDDED_MODELS / "demo-target").glob("*token*"):
        shutil.copy(path, checkpoint.folder)
    return checkpoint.folder


def test_what_a_device_or_a_disk_may_have_done_is_not_remembered(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(loaded(checkpoint), 16)

    def failing(*_args: object, **_inputs: object) -> None:
        raise ModelError("The disk fails.")

    monkeypatch.setattr(context.network.model, "forward", failing)
    with pytest.raises(ModelError, match="disk"):
        stages(checkpoint, context, tmp_path)
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("damage", [{"message": 7}, {"hint": ["{x}", {}, False]}, {"message": {}}, {"hint": None}])
def test_a_damaged_refusal_is_none(
    damage: dict[str, object], checkpoint: Checkpoint, refusing: Context, tmp_path: Path
) -> None:
    with pytest.raises(ModelError):
        stages(checkpoint, refusing, tmp_path)
    kept = json.loads((tmp_path / NAME).read_text())
    (entry,) = kept["refused"].values()
    entry |= damage
    (tmp_path / NAME).write_text(json.dumps(kept))
    assert remembered(checkpoint, tmp_path) is None


def test_memory_that_runs_out_in_a_probe_is_no_fault_of_the_family(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(loaded(checkpoint), 16)

    def failing(*_args: object, **_inputs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(context.network.model, "forward", failing)
    with pytest.raises(torch.OutOfMemoryError):
        stages(checkpoint, context, tmp_path)
