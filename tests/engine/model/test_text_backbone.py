"""Of a model that also reads pictures, the language model alone is opened: its config and its weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from engine.model.families.text_backbone import HeadedDecoder
from engine.model.families.text_tensors import text_tensors
from engine.model.layer_converter import open_layer_converter
from engine.model.safetensors_header import TensorInfo
from engine.model.shape import model_sizes
from tests.engine.family_models import random_model, save_tiny, tiny_config
from tests.engine.tensor_files import read_tensors

WRAPPER = {"text_config": {"num_hidden_layers": 1}, "vision_config": {}}


def table(*names: str) -> dict[str, TensorInfo]:
    """Tensors of one number each."""
    return {name: TensorInfo("F32", (1,), Path("m"), 4 * place, 4 * place + 4) for place, name in enumerate(names)}


@pytest.mark.parametrize(
    ("decoder", "head"),
    [
        ("model.language_model.", "lm_head."),
        ("language_model.model.", "language_model.lm_head."),
        ("thinker.model.", "thinker.lm_head."),
        ("model.", "lm_head."),
    ],
)
def test_the_language_model_is_found_under_every_name_that_wrappers_give_it(decoder: str, head: str) -> None:
    own = (f"{decoder}embed_tokens.weight", f"{decoder}layers.0.mlp.weight", f"{decoder}norm.weight", f"{head}weight")
    others = ("vision_tower.layers.0.mlp.weight", "vision_tower.embed.weight", "talker.lm_head.weight")
    found = text_tensors(WRAPPER, table(*own, *others))
    assert set(found) == {
        "model.embed_tokens.weight",
        "model.layers.0.mlp.weight",
        "model.norm.weight",
        "lm_head.weight",
    }
    assert found["model.norm.weight"] == table(*own)[own[2]]


def test_the_larger_of_two_decoders_is_the_language_model() -> None:
    small = ("talker.model.embed_tokens.weight", "talker.model.layers.0.a")
    large = ("thinker.model.embed_tokens.weight", "thinker.model.layers.0.a", "thinker.model.layers.0.b")
    found = text_tensors(WRAPPER, table(*small, *large))
    assert set(found) == {"model.embed_tokens.weight", "model.layers.0.a", "model.layers.0.b"}


def test_tensors_of_a_plain_model_and_of_an_unknown_wrapper_stay_as_they_are() -> None:
    plain = table("model.embed_tokens.weight", "model.layers.0.a", "extra")
    assert text_tensors({}, plain) is plain
    strange = table("whole.blocks.0.a")
    assert text_tensors(WRAPPER, strange) is strange


def test_encoders_count_neither_in_the_sizes_nor_in_the_parameters(tmp_path: Path) -> None:
    model = save_tiny("mistral3", tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    parts = (*model.get_decoder().parameters(), model.get_output_embeddings().weight)
    language = sum({id(weight): weight.numel() for weight in parts}.values())
    assert checkpoint.parameters == language < model.num_parameters()
    assert model_sizes(checkpoint).elements == language
    assert open_architecture(checkpoint).model_class.__name__ == "MistralForCausalLM"


def test_a_decoder_that_only_a_wrapper_has_gets_a_head_if_its_text_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_tiny("qwen2_vl", tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    assert open_architecture(checkpoint).model_class is HeadedDecoder
    monkeypatch.setattr("engine.model.families.text_backbone.VERIFIED", frozenset())
    with pytest.raises(ModelError, match="not a text-generation model"):
        open_architecture(checkpoint)


def test_a_wrapper_without_a_weight_of_its_language_model_is_refused(tmp_path: Path) -> None:
    save_tiny("mistral3", tmp_path)
    weights = tmp_path / "model.safetensors"
    lost = "layers.1.mlp.up_proj.weight"
    kept = {name: tensor for name, tensor in read_tensors(weights).items() if not name.endswith(lost)}
    save_file(kept, weights, {"format": "pt"})
    with pytest.raises(ModelError, match="lacks the weights"):
        open_layer_converter(open_checkpoint(str(tmp_path)), torch.float32)


def test_a_chameleon_writes_no_parts_of_pictures(tmp_path: Path) -> None:
    """Nor does the library's; what makes tokens of pictures is not built."""
    pictures = {f"IMGIMG{letter}Z": 3 + place for place, letter in enumerate("ABC")}
    config = tiny_config("chameleon")
    config.vocabulary_map = {"<image>": 130, "IMGIMGDZ": 99, **pictures}
    model = random_model(config)
    model.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    own = open_architecture(checkpoint).model_class(model.config)
    own.load_state_dict({name: weight for name, weight in model.state_dict().items() if "vqmodel" not in name})
    tokens = torch.tensor([[1, 20, 40]])
    found, expected = (network.eval()(input_ids=tokens).logits for network in (own, model))
    torch.testing.assert_close(found, expected)
    assert (found[..., [3, 4, 5, 99]] == torch.finfo(torch.float32).min).all()
