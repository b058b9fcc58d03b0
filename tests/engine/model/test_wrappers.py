"""What only the wrapper of a language model knows of it: its class, its head, and how weights are called."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from engine.errors import ModelError
from engine.model.architecture import open_architecture, require_tree
from engine.model.checkpoint import Checkpoint
from engine.model.families.refused_families import REASONS, REASONS_OF_KINDS
from engine.model.families.text_backbone import decoder_class, scaled
from engine.model.families.wrapper_names import WRAPPERS, transforms_of_wrapper
from engine.model.safetensors_header import TensorInfo
from tests.engine.family_models import tiny_config


@pytest.mark.parametrize("family", ["paddleocr_vl", "step3p7", "granite4_vision"])
def test_a_decoder_that_the_library_lists_nowhere_is_found_beside_its_wrapper(family: str) -> None:
    text = transformers.CONFIG_MAPPING[family]().get_text_config(decoder=True)
    found = decoder_class(text)
    assert found is not None
    assert found.config_class is type(text)


def test_no_decoder_is_found_for_a_config_that_has_none() -> None:
    assert decoder_class(transformers.CONFIG_MAPPING["step3p7"]().vision_config) is None


def test_logits_are_scaled_and_capped_as_the_wrapper_does() -> None:
    logits = torch.tensor([3.0, -1.0])
    assert torch.equal(scaled(logits, SimpleNamespace(final_logit_softcapping=None)), logits)
    config = SimpleNamespace(logits_scaling=2.0, output_multiplier=4.0, final_logit_softcapping=5.0)
    torch.testing.assert_close(scaled(logits, config), 5 * torch.tanh(2 * logits / 5))


@pytest.mark.parametrize("kind", sorted(WRAPPERS))
def test_names_that_lead_into_the_wrapper_end_in_the_language_model_alone(kind: str) -> None:
    transforms = transforms_of_wrapper(kind)
    assert len(transforms) > 1
    assert transforms[-1].rename_source_key("model.language_model.norm.weight")[0] == "model.norm.weight"


@pytest.mark.parametrize("kind", ["llama", "llava", None])
def test_wrappers_whose_weights_are_called_as_usual_are_left_alone(kind: object) -> None:
    assert transforms_of_wrapper(kind) == []


@pytest.mark.parametrize("kind", sorted(REASONS))
def test_a_family_that_cannot_hold_a_tree_is_refused_by_its_name_alone(kind: str) -> None:
    with pytest.raises(ModelError) as refusal:
        open_architecture(Checkpoint("m", "m", Path("m"), {"model_type": kind}, (), {}))
    assert REASONS[kind] in str(refusal.value.message)


@pytest.mark.parametrize(
    ("kind", "said"), [("step3p5", True), ("step3p7", True), ("gemma3_text", True), ("gemma4_text", "all")]
)
def test_a_model_whose_tokens_see_those_behind_them_is_refused(kind: str, said: object) -> None:
    causal = tiny_config(kind)
    text = causal.get_text_config(decoder=True)
    require_tree(text, None, "m")
    text.use_bidirectional_attention = said
    with pytest.raises(ModelError) as refusal:
        require_tree(text, None, "m")
    assert "see those behind them" in str(refusal.value.message)


@pytest.mark.parametrize("said", [False, None, [1], {}])
def test_what_does_not_say_so_is_no_matter(said: object) -> None:
    text = tiny_config("llama")
    text.use_bidirectional_attention = said
    require_tree(text, None, "m")


@pytest.mark.parametrize(("kind", "key"), sorted(REASONS_OF_KINDS))
def test_so_are_some_models_of_families_that_can(kind: str, key: str) -> None:
    config = {"model_type": kind, "num_hidden_layers": 1}
    with pytest.raises(ModelError) as refusal:
        open_architecture(Checkpoint("m", "m", Path("m"), {**config, key: True}, (), {}))
    assert REASONS_OF_KINDS[kind, key] in str(refusal.value.message)
    tensor = TensorInfo("F32", (1,), Path("m"), 0, 4)
    without = {**config, key: None if key == "sliding_window" else False}
    assert open_architecture(Checkpoint("m", "m", Path("m"), without, (), {"a": tensor})).kind == kind
