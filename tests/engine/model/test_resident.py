"""Loading whole checkpoints: what belongs together loads, what does not is refused before it can write nonsense."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.errors import ModelError
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.network import Network
from engine.model.resident import load_resident
from tests.engine.model.broken_folders import edit_json
from tests.engine.tiny_models import FAMILIES, tiny_model

CPU = torch.device("cpu")


def load(folder: Path) -> Network:
    return load_resident(open_checkpoint(str(folder)), torch.float32, CPU)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_of_every_family_loads_as_it_was(family: str, tmp_path: Path) -> None:
    model = tiny_model(family)
    model.save_pretrained(tmp_path, max_shard_size="200KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1, "sharded, as large models are"
    tokens = [5, 6, 7]
    expected = model(torch.tensor([tokens])).logits[0]
    network = load(tmp_path)
    found = Context(network, 16).score(tokens, [-1, 0, 1])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not any(parameter.requires_grad for parameter in network.model.parameters())


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    tiny_model("llama").save_pretrained(tmp_path)
    return tmp_path


def test_a_missing_weight_is_named(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, llama / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks the weights model\.layers\.2\.mlp\.up_proj\.weight"):
        load(llama)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"intermediate_size": 128}, "another shape than its config.json says"),
        ({"vocab_size": 140}, "another shape than its config.json says"),
        ({"num_hidden_layers": 3}, "more layers than its config.json says"),
        ({"num_hidden_layers": 5}, "lacks the weights"),
        ({"model_type": "gpt99"}, "does not know"),
        ({"model_type": "bert"}, "cannot be loaded|not a text-generation model|lacks the weights|cannot hold"),
        ({"hidden_size": "wide"}, "cannot be loaded"),
        ({"num_attention_heads": 0}, "cannot be loaded"),
        ({"hidden_act": "no-such-function"}, "cannot be loaded"),
    ],
)
def test_a_config_that_disagrees_is_one_sentence(llama: Path, entries: dict[str, Any], words: str) -> None:
    edit_json(llama / "config.json", **entries)
    with pytest.raises(ModelError, match=words) as refusal:
        load(llama)
    assert "\n" not in str(refusal.value)


def test_code_in_a_model_folder_is_never_run(llama: Path) -> None:
    marker = llama / "ran"
    (llama / "modeling_evil.py").write_text(f"open({str(marker)!r}, 'w')\n")
    config = json.loads((llama / "config.json").read_text())
    auto_map = {"AutoConfig": "modeling_evil.Evil", "AutoModelForCausalLM": "modeling_evil.Evil"}
    (llama / "config.json").write_text(json.dumps({**config, "model_type": "evil", "auto_map": auto_map}))
    with pytest.raises(ModelError, match="does not know"):
        load(llama)
    assert not marker.exists()
