"""Where n-grams are looked up is said by a checkpoint: rows that are not there are refused before anything is read."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.families.hashed_tables import OFFSETS, SIZES
from engine.model.streamable_network import build_streamable
from tests.engine.family_models import save_tiny
from tests.engine.tensor_files import read_tensors

FILE = "model.safetensors"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    save_tiny("qwen4_exp_text", folder)
    return folder


@pytest.mark.parametrize(("part", "number"), [("", 0), (OFFSETS, 10**6), (OFFSETS, -1), (SIZES, 10**6), (SIZES, 0)])
def test_rows_that_a_table_does_not_have_are_refused(part: str, number: int, whole: Path, tmp_path: Path) -> None:
    tensors = read_tensors(whole / FILE)
    for name in tensors:
        if part and name.endswith(part):
            tensors[name][-1] = number
    save_file(tensors, tmp_path / FILE, {"format": "pt"})
    (tmp_path / "config.json").write_bytes((whole / "config.json").read_bytes())
    checkpoint = open_checkpoint(str(tmp_path))
    if not part:
        assert build_streamable(checkpoint, torch.float32, CPU).network
        return
    with pytest.raises(ModelError, match="looks n-grams up in rows that their table does not have"):
        build_streamable(checkpoint, torch.float32, CPU)
