"""Processors of pictures: made of settings that anybody may have written, and of no other classes than are known."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelError
from engine.model.model_folder import ModelFolder
from engine.model.pictures.processors import Reads, open_processor, read_settings
from tests.engine.picture_models import TOKEN, image_processor, random_image, save_picture_model, tokenizer_of
from tests.links import make_link


def opened(folder: Path, kind: str, **changes: Any) -> Reads:
    """The processor of a model whose settings are changed."""
    save_picture_model(kind, folder)
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return open_processor(read_settings(ModelFolder(folder), kind), kind, kind, tokenizer_of(kind))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("llava", {"size": {"shortest_edge": 1 << 20}}),
        ("llava", {"size": {"height": 1e9, "width": 1e9}}),
        ("llava", {"crop_size": {"height": 28, "width": 5000}}),
        ("llava", {"image_mean": [float("nan")] * 3}),
        ("llava", {"rescale_factor": float("inf")}),
        ("internvl", {"max_patches": 100_000}),
        ("qwen3_vl", {"size": {"shortest_edge": 1 << 24, "longest_edge": 1 << 24}}),
        ("qwen3_vl", {"size": {"shortest_edge": 1, "longest_edge": 1 << 30}}),
        ("qwen3_vl", {"temporal_patch_size": 10**9}),
    ],
)
def test_numbers_that_no_model_has_are_refused(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="and no model has more than"):
        opened(tmp_path, kind, **changes)


@pytest.mark.parametrize(
    "named", ["LayoutLMv3ImageProcessor", "os", "AutoImageProcessor", "LlamaForCausalLM", "../evil", "", "Fast"]
)
def test_only_classes_of_the_kinds_that_were_compared_are_made(named: str, tmp_path: Path) -> None:
    if not named:
        assert opened(tmp_path, "llava", image_processor_type=named).mark == TOKEN  # as if it said nothing
        return
    with pytest.raises(ModelError, match=r"needs? a library"):
        opened(tmp_path, "llava", image_processor_type=named)


@pytest.mark.parametrize("named", ["CLIPImageProcessor", "CLIPFeatureExtractor", "LlavaImageProcessorFast"])
def test_older_names_of_processors_are_known(named: str, tmp_path: Path) -> None:
    text, numbers = opened(tmp_path, "llava", image_processor_type=named).read(random_image())
    assert text == TOKEN * 4
    assert numbers["pixel_values"].shape == (1, 3, 28, 28)


@pytest.mark.parametrize("content", ["[]", "{", '"x"', "{}"])
def test_settings_that_are_none_are_refused(content: str, tmp_path: Path) -> None:
    save_picture_model("qwen3_vl", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(ModelError):
        read_settings(ModelFolder(tmp_path), "model")


def test_settings_may_lie_in_one_file(tmp_path: Path) -> None:
    save_picture_model("llava", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    whole = json.loads((tmp_path / "processor_config.json").read_text())
    inside = {"image_processor": image_processor("llava").to_dict()}
    (tmp_path / "processor_config.json").write_text(json.dumps(whole | inside, default=str))
    its = open_processor(read_settings(ModelFolder(tmp_path), "m"), "m", "llava", tokenizer_of("llava"))
    assert its.read(random_image())[0] == TOKEN * 4


def test_settings_are_not_read_through_a_link_that_leads_out(tmp_path: Path) -> None:
    folder, other = tmp_path / "model", tmp_path / "other.json"
    folder.mkdir()
    save_picture_model("qwen3_vl", folder)
    (folder / "preprocessor_config.json").rename(other)
    make_link(folder / "preprocessor_config.json", other)
    with pytest.raises(ModelError, match="leads out"):
        read_settings(ModelFolder(folder), "model")


def test_pixtral_writes_a_picture_row_by_row(tmp_path: Path) -> None:
    text, numbers = opened(tmp_path, "mistral3").read(random_image(0, 84, 56))
    assert text == f"{TOKEN * 3}[IMG_BREAK]{TOKEN * 3}[IMG_END]"
    assert numbers["image_sizes"].tolist() == [[56, 84]]
