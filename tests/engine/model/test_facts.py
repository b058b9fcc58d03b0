"""A model's facts, without its weights, describe the same checkpoint as the whole folder; hostile ones are refused."""

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ModelError
from engine.gguf_header import ShortError, read_beginning
from engine.loading.planning import needs_of
from engine.model.checkpoint import is_header_only, open_checkpoint, open_header_only
from engine.model.shape import model_sizes
from tests.engine.tiny_models import FAMILIES, save_tiny_model

CPU = torch.device("cpu")


def facts_of(model: Path, folder: Path, **changes: Any) -> Path:
    """The facts of a model folder, as they come from the hub: config.json, index, and the head of every weight file."""
    folder.mkdir(exist_ok=True)
    sizes = {}
    for path in model.iterdir():
        if path.suffix == ".safetensors":
            content = path.read_bytes()
            sizes[path.name] = len(content)
            (folder / path.name).write_bytes(content[: 8 + int.from_bytes(content[:8], "little")])
        elif path.suffix == ".gguf":
            content = path.read_bytes()
            sizes[path.name] = len(content)
            with suppress(ShortError):  # what has no whole head stays as it is
                content = content[: read_beginning(content).end]
            (folder / path.name).write_bytes(content)
        elif path.suffix == ".json":
            shutil.copy(path, folder)
    about = {"kind": "coppice model facts", "format": 1, "name": "org/tiny", "sizes": sizes, **changes}
    (folder / "facts.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_facts_give_the_sizes_and_needs_of_the_whole_model(family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path / "model", dtype=torch.bfloat16, shard_size="60KB")
    facts = open_header_only(facts_of(tmp_path / "model", tmp_path / "facts"))
    whole = open_checkpoint(str(tmp_path / "model"))
    assert (facts.name, facts.bytes, facts.parameters) == ("org/tiny", whole.bytes, whole.parameters)
    assert model_sizes(facts).layers == model_sizes(whole).layers
    for weights in ("auto", "nf4"):
        told, known = (needs_of(each, model_sizes(each), weights, CPU) for each in (facts, whole))
        assert told == known


def test_facts_are_no_model_and_a_model_is_no_facts(tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path / "model")
    facts = facts_of(tmp_path / "model", tmp_path / "facts")
    assert is_header_only(facts)
    assert not is_header_only(tmp_path / "model")
    with pytest.raises(ModelError, match="is cut off"):
        open_checkpoint(str(facts))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "no facts of this version"),
        ({"kind": "cake"}, "no facts of this version"),
        ({"name": 7}, "damaged"),
        ({"sizes": [1]}, "damaged"),
        ({"sizes": {"model.safetensors": 100}}, "is cut off"),
        ({"sizes": {"model.safetensors": 1 << 50}}, "bytes too many"),
        ({"sizes": {"model.safetensors": "much"}}, "is cut off"),
    ],
)
def test_facts_that_lie_are_refused_in_a_sentence(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path / "model")
    with pytest.raises(ModelError, match=said):
        open_header_only(facts_of(tmp_path / "model", tmp_path / "facts", **changes))
