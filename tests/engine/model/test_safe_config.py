"""Numbers of config.json are bounded before transformers sees them; whatever a folder says, it opens or is refused."""

import json
import random
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.loading.estimate import Estimator
from engine.model import architecture
from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from engine.model.safe_config import require_consistent, safe_config
from engine.model.shape import require_attention
from engine.model.streamable_network import build_streamable
from engine.protocol.messages import Appraise
from engine.protocol.options import LoadOptions
from tests.engine.model.broken_folders import edit_json
from tests.engine.model_mutations import make_seeds, mutations, open_model
from tests.engine.tiny_models import FAMILIES, save_tiny_model, tiny_config

CPU = torch.device("cpu")
LINEAR = {"rope_type": "linear", "factor": 1.0, "rope_theta": 1e4}

# What an entry may not be, and the words of the refusal.
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a million layers": ({"num_hidden_layers": 10**6}, "num_hidden_layers = 1000000; it must be at most 512"),
    "layers beyond every number": ({"num_hidden_layers": 10**30}, "it must be at most 512"),
    "no layers": ({"num_hidden_layers": 0}, "it must be a whole number above 0"),
    "more layers than tensors": ({"num_hidden_layers": 500}, "says 500 layers, which its weights do not hold"),
    "layers of the text part": ({"text_config": {"num_hidden_layers": 10**6}}, "text_config.num_hidden_layers"),
    "layers of the image part": ({"vision_config": {"num_hidden_layers": 10**6}}, "vision_config.num_hidden_layers"),
    "layers by another name": ({"n_layer": 10**6}, "n_layer = 1000000"),
    "wide": ({"hidden_size": 1 << 40}, "hidden_size"),
    "heads": ({"num_attention_heads": 10**7}, "num_attention_heads"),
    "negative heads": ({"num_key_value_heads": -(10**13)}, "num_key_value_heads"),
    "keys of no heads": (
        {"num_attention_heads": 4, "num_key_value_heads": 3}, "= 3; it must be a divisor of 4, the number of heads"
    ),
    "a wide head": ({"head_dim": 1 << 20}, "head_dim = 1048576; it must be at most 16384"),
    "vocabulary": ({"vocab_size": 1 << 33}, "vocab_size"),
    "positions": ({"max_position_embeddings": 1 << 50}, "max_position_embeddings"),
    "no positions": ({"max_position_embeddings": 0}, "max_position_embeddings"),
    "experts": ({"num_local_experts": 10**9}, "num_local_experts"),
    "chosen experts": ({"num_experts": 4, "num_experts_per_tok": 5}, "at most 4, the number of experts"),
    "no chosen experts": ({"num_experts": 4, "num_experts_per_tok": -2}, "= -2; it must be at least 1"),
    "a rotary part of many": ({"partial_rotary_factor": 3e6}, "= 3000000.0; it must be at most 1"),
    "the same inside": ({"rope_parameters": {**LINEAR, "partial_rotary_factor": 3e6}}, "partial_rotary_factor"),
    "the same by layer": (
        {"rope_parameters": {"full_attention": {**LINEAR, "partial_rotary_factor": 3e6}}}, "partial_rotary_factor"
    ),
    "rounds without end": ({"hc_sinkhorn_iters": 2**31}, "= 2147483648; it must be at most 1000"),
    "a base of nothing": ({"rope_theta": 0}, "rope_theta = 0; it must be a number above 0"),
    "a factor of nothing": ({"rope_scaling": {**LINEAR, "factor": 0.0}}, "factor"),
    "a factor of no number": ({"rope_scaling": {**LINEAR, "factor": "x"}}, "factor"),
    "a window of nothing": ({"sliding_window": 0}, "sliding_window"),
    "a negative window": ({"sliding_window": -4}, "sliding_window"),
    "a negative chunk": ({"attention_chunk_size": -4}, "attention_chunk_size"),
    "a list without end": ({"layer_types": [0] * 300_000}, "more than 262144 entries"),
    "tokens that are chosen of billions": ({"index_topk": 1 << 31}, "index_topk = 2147483648; it must be at most"),
    "no tokens that are chosen": ({"indexer_budget": 0}, "indexer_budget = 0; it must be at least 1"),
    "kinds without end": ({"attention_types": [[["global"], 10**9]]}, "attention_types = 1000000000"),
    "dropped more than all": ({"hidden_dropout": 2}, "hidden_dropout = 2; it must be at most 1"),
    "no axes": ({"rope_parameters": {**LINEAR, "mrope_section": [1]}}, "mrope_section"),
    "no number": ({"attention_dropout": float("nan")}, "attention_dropout = nan"),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    save_tiny_model("llama", folder, num_hidden_layers=2, hidden_size=32)
    return folder


@pytest.fixture
def model(whole: Path, tmp_path: Path) -> Path:
    for path in whole.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.mark.parametrize("what", BAD)
def test_a_number_that_no_model_has_is_refused_with_its_name(what: str, model: Path) -> None:
    entries, words = BAD[what]
    edit_json(model / "config.json", **entries)
    with pytest.raises(ModelError) as refusal:
        open_architecture(open_checkpoint(str(model)))
    assert words in refusal.value.message
    assert refusal.value.hint


# By family: what config.json says in place of the numbers that it leaves to its class, and the words of the refusal.
LEFT_OUT: dict[str, tuple[str, list[str], dict[str, Any], str]] = {
    "more chosen experts than usual": (
        "mixtral", ["num_local_experts"], {"num_experts_per_tok": 1000}, "at most 8, the number of experts"
    ),
    "no chosen experts": ("mixtral", ["num_local_experts"], {"num_experts_per_tok": 0}, "= 0; it must be at least 1"),
    "experts by a name of others": (
        "qwen3_moe", ["num_local_experts"], {"num_experts": 4, "n_routed_experts": 64, "num_experts_per_tok": 8},
        "at most 4, the number of experts",
    ),
    "as many heads of keys as usual": (
        "mistral_sliding", ["num_key_value_heads"], {"num_attention_heads": 12}, "= 8; it must be a divisor of 12"
    ),
    "more chosen groups than there are": (
        "glm4_moe", ["n_group"], {"topk_group": 2}, "topk_group = 2; it must be between 1 and 1"
    ),
    "groups of no whole number of experts": (
        "glm4_moe", [], {"n_group": 3}, "n_group = 3; it must be a divisor of 8, the number of experts"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_a_class_completes_is_looked_at_too(what: str, tmp_path: Path) -> None:
    family, left_out, entries, words = LEFT_OUT[what]
    save_tiny_model(family, tmp_path)
    path = tmp_path / "config.json"
    said = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({key: value for key, value in said.items() if key not in left_out} | entries))
    with pytest.raises(ModelError) as refusal:
        open_architecture(open_checkpoint(str(tmp_path)))
    assert words in refusal.value.message


OF_ONE_FAMILY: dict[str, tuple[str, dict[str, Any], str]] = {
    "inputs without end": ("gemma3n_text", {"altup_num_inputs": 1000}, "altup_num_inputs = 1000; it must be at most"),
    "an input that is not there": ("gemma3n_text", {"altup_active_idx": 4}, "= 4; it must be between 0 and 3"),
    "positions of billions": ("mpt", {"max_seq_len": 1 << 31}, "max_seq_len = 2147483648; it must be between 2 and"),
    "less than no heads": ("gpt_neo", {"num_heads": -4}, "num_heads = -4; it must be at least 1"),
    "heads of no whole width": ("mpt", {"n_heads": 3}, "n_heads = 3; it must be a divisor of 2048, the width"),
}


@pytest.mark.parametrize("what", OF_ONE_FAMILY)
def test_what_one_family_loops_or_chooses_by_is_refused_with_its_name(what: str) -> None:
    family, entries, words = OF_ONE_FAMILY[what]
    said = transformers.CONFIG_MAPPING[family]().to_dict()
    require_consistent(config_of(safe_config(said, "a", 999)), "a")
    with pytest.raises(ModelError) as refusal:
        require_consistent(config_of(safe_config({**said, **entries}, "a", 999)), "a")
    assert words in refusal.value.message


def config_of(said: dict[str, Any]) -> Any:
    return transformers.CONFIG_MAPPING[said["model_type"]].from_dict(said)


def test_a_hybrid_without_a_layer_that_attends_is_refused() -> None:
    require_attention("a", ["linear_attention", "full_attention"], "qwen3_next")
    require_attention("a", ["linear_attention"], "mamba2")
    require_attention("a", ["hybrid"], "falcon_h1")
    with pytest.raises(ModelError, match="none of its layers attends"):
        require_attention("a", ["linear_attention", "mlp"], "qwen3_next")


def test_a_network_without_end_is_not_made(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of transformers makes as many parameters as a number says that nothing here knows by its name."""
    monkeypatch.setattr(architecture, "MOST_PARTS", 20)
    opened = open_architecture(open_checkpoint(str(model)))
    with pytest.raises(ModelError, match="a network of more than 20 parts"):
        opened.build_on_meta(torch.float32)
    torch.nn.ModuleList([torch.nn.Linear(1, 1) for _ in range(200)])  # no part of it
    monkeypatch.undo()
    assert opened.build_on_meta(torch.float32)


def test_a_class_that_stumbles_over_a_list_is_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_architecture(open_checkpoint(str(model)))
    monkeypatch.setattr(opened.model_class, "_from_config", Mock(side_effect=UnboundLocalError("block_in")))
    with pytest.raises(ModelError, match="cannot be loaded: block_in"):
        opened.build_on_meta(torch.float32)


def test_an_estimate_of_a_hostile_config_is_there_at_once(model: Path) -> None:
    edit_json(model / "config.json", num_hidden_layers=10**9)
    begin = time.monotonic()
    answer = Estimator(loaded=True).estimate(Appraise(1, LoadOptions(str(model), "none", device="cpu")))
    assert answer.verdict == "no"
    assert "num_hidden_layers" in answer.reason
    assert time.monotonic() - begin < 20, "it went through a thousand million layers"


def test_buffers_beyond_what_models_have_are_refused_before_they_are_allocated(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model.weight_loader.MOST_BUFFER_BYTES", 10)
    monkeypatch.setattr("torch.empty_like", None)
    with pytest.raises(ModelError, match="buffers"):
        build_streamable(open_checkpoint(str(model)), torch.float32, CPU)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_makes_a_model_is_left_as_it_is(family: str) -> None:
    config = tiny_config(family)
    made = type(config).from_dict(safe_config(config.to_dict(), family, 100))
    left, right = made.to_dict(), config.to_dict()
    for entry in ("_name_or_path", "dtype", "transformers_version", "architectures"):
        left.pop(entry, None), right.pop(entry, None)
    assert left == right


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


@pytest.fixture(scope="module")
def seeds(work: Path) -> list[Path]:
    return make_seeds(work / "seeds")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(seed=st.integers(0, 2**32))
def test_a_folder_changed_at_random_opens_or_is_refused_in_a_sentence(seed: int, work: Path, seeds: list[Path]) -> None:
    mutated = next(mutations(random.Random(seed), work, seeds))
    sentence = open_model(mutated.folder)
    assert not sentence or sentence[-1] in ".!?"
