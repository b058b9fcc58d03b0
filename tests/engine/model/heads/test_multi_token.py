"""Which of a checkpoint's tensors make up its head, however they are called and packed, and what it is priced with."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelError
from engine.loading.planning import needs_of
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.heads.multi_token import MultiTokenHead, has_heads, head_of, load_head
from engine.model.network import Network
from engine.model.shape import model_sizes
from tests.engine.head_models import FILE, edit_config, save_with_head
from tests.engine.packed_models import fp8, is_linear, pack
from tests.engine.resident import load_resident
from tests.engine.tensor_files import read_tensors

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_with_head("deepseek_v3", tmp_path_factory.mktemp("older") / "model")


def opened(checkpoint: Checkpoint, network: Network | None = None) -> MultiTokenHead:
    network = network or load_resident(checkpoint, torch.float32, CPU)
    return load_head(head_of(checkpoint), checkpoint, network)


def weights(head: MultiTokenHead) -> dict[str, Tensor]:
    norms = {"embedding_norm": head.embedding_norm, "hidden_norm": head.hidden_norm}
    return {
        **head.network.layers[0].state_dict(),
        **{name: norm.get_parameter("weight") for name, norm in norms.items()},
        "norm": head.network.model.get_decoder().norm.weight,
        "projection": head.projection,
    }


def test_the_head_of_a_wrapped_model_is_that_of_its_language_model(tmp_path: Path) -> None:
    plain = save_with_head("qwen3_5_text", tmp_path / "plain")
    wrapped = tmp_path / "wrapped"
    shutil.copytree(plain, wrapped)
    inside = {
        name.replace("model.", "model.language_model.", 1): each for name, each in read_tensors(plain / FILE).items()
    }
    save_file({**inside, "model.visual.a": torch.zeros(1)}, wrapped / FILE, {"format": "pt"})
    text = json.loads((plain / "config.json").read_text("utf-8"))
    edit_config(wrapped, model_type="qwen3_5", text_config=text, vision_config={})
    network = load_resident(open_checkpoint(str(plain)), torch.float32, CPU)
    expected, found = (weights(opened(open_checkpoint(str(folder)), network)) for folder in (plain, wrapped))
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())


def test_a_packed_head_is_decoded_as_it_is_loaded(older: Path, tmp_path: Path) -> None:
    shutil.copytree(older, tmp_path / "plain")
    packed, plain = pack(tmp_path / "plain", tmp_path / "packed", *fp8("blocks"), is_linear)
    assert any("eh_proj" in name for name in packed.packed)
    assert any("self_attn" in name for name in head_of(packed).packed)
    network = load_resident(plain, torch.float32, CPU)
    expected, found = (weights(opened(each, network)) for each in (plain, packed))
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight)


def test_the_plan_counts_the_bytes_that_a_head_takes_and_nothing_that_it_shares(older: Path) -> None:
    checkpoint = open_checkpoint(str(older))
    needs = needs_of(checkpoint, model_sizes(head_of(checkpoint)), "float32", CPU)
    assert len(needs.layers) == 1
    assert needs.layers[0].run_bytes + needs.rest_bytes == opened(checkpoint).nbytes


def test_a_head_whose_network_runs_otherwise_is_refused_in_words(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = open_checkpoint(str(older))
    network = load_resident(checkpoint, torch.float32, CPU)
    monkeypatch.setattr(type(network.layers[0]), "forward", lambda _layer, _hidden: None)
    with pytest.raises(ModelError, match="its own heads' cannot be loaded"):
        opened(checkpoint, network)


def test_a_layer_behind_the_last_one_that_is_no_head_is_none(older: Path, tmp_path: Path) -> None:
    assert has_heads(open_checkpoint(str(older)))
    shutil.copytree(older, tmp_path / "model")
    tensors = {name: each for name, each in read_tensors(older / FILE).items() if "eh_proj" not in name}
    save_file(tensors, tmp_path / "model" / FILE, {"format": "pt"})
    assert not has_heads(open_checkpoint(str(tmp_path / "model")))
