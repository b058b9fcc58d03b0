"""Facts of weights whose shapes lie among the data, which facts lack: the same price as the whole model's."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelError
from engine.loading.estimate import Estimator
from engine.loading.planning import needs_of
from engine.model.checkpoint import Checkpoint
from engine.model.facts import open_facts
from engine.model.shape import model_sizes
from engine.protocol.messages import Appraise
from engine.protocol.options import LoadOptions
from tests.engine.model.formats import checkpoints
from tests.engine.model.test_facts import facts_of
from tests.engine.packed_models import FILE
from tests.engine.tensor_files import read_tensors
from tests.engine.test_cli_plan import document

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Blocks' absmax are packed, too."""
    return checkpoints.bitsandbytes(tmp_path_factory.mktemp("llama"), "llama")[0]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Experts are stored one by one."""
    return checkpoints.bitsandbytes(tmp_path_factory.mktemp("mixture"), "qwen3_moe", "nf4 flat")[0]


@pytest.mark.parametrize("model", ["llama", "mixture"])
def test_shapes_in_four_bits_are_those_of_the_network(
    model: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    whole: Checkpoint = request.getfixturevalue(model)
    facts = open_facts(facts_of(whole.folder, tmp_path / "facts"))
    assert {name: each.shape for name, each in facts.packed.items()} == {
        name: each.shape for name, each in whole.packed.items()
    }
    told, known = (needs_of(each, model_sizes(each), "auto", CPU) for each in (facts, whole))
    assert told == known
    assert model_sizes(facts).formats == model_sizes(whole).formats


def test_estimates_and_plans_need_no_data(
    llama: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = str(facts_of(llama.folder, tmp_path / "facts")), str(llama.folder)
    estimator = Estimator(loaded=False)
    told, known = (estimator.estimate(Appraise(1, LoadOptions(folder, "none"))) for folder in folders)
    assert told == known
    assert told.verdict == "device"
    found = document(capsys, "--target", folders[0], "--draft", "none")
    assert (found["verdict"], found["formats"]) == ("device", ["bitsandbytes NF4"])


def edited_facts(checkpoint: Checkpoint, tensors: dict[str, Tensor], folder: Path) -> Path:
    """The facts of the checkpoint with these tensors."""
    (folder / "model").mkdir()
    shutil.copy(checkpoint.folder / "config.json", folder / "model")
    save_file(tensors, folder / "model" / FILE, {"format": "pt"})
    return facts_of(folder / "model", folder / "facts")


UP = "model.layers.1.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({UP: torch.zeros(30, 1, dtype=torch.uint8)}, "does not say its shape"),
        ({f"{UP}.absmax": torch.zeros(1, dtype=torch.uint8)}, "does not say its shape"),
        ({f"{UP}.nested_absmax": torch.zeros(0)}, "does not say its shape"),
        ({f"{UP}.quant_map": torch.zeros(8)}, "has numbers of type"),
        ({UP: torch.zeros(64, 1, dtype=torch.uint8), f"{UP}.absmax": torch.zeros(2, dtype=torch.uint8)}, "its shape"),
        ({UP: None}, "does not say its shape"),
    ],
)
def test_sizes_that_lie_are_refused(change: dict[str, Any], words: str, llama: Checkpoint, tmp_path: Path) -> None:
    tensors = {**read_tensors(llama.folder / FILE), **change}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    with pytest.raises(ModelError, match=words) as refusal:
        open_facts(edited_facts(llama, kept, tmp_path))
    assert "\n" not in str(refusal.value)


def test_weights_of_another_network_are_refused(llama: Checkpoint, tmp_path: Path) -> None:
    tensors = read_tensors(llama.folder / FILE)
    other = {name.replace("up_proj", "other_proj"): tensor for name, tensor in tensors.items()}
    with pytest.raises(ModelError, match="as its shape asks for"):
        open_facts(edited_facts(llama, other, tmp_path))
