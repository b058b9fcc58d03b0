"""One rule for the longest sequence, in the plan and in what is loaded, also where config.json does not say it."""

from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from engine.loading.planning import context_for
from engine.model.architecture import open_architecture
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import UNKNOWN, longest_sequence, model_sizes
from tests.engine.model.broken_folders import edit_json
from tests.engine.model.test_shape import loaded
from tests.engine.tiny_models import BASE, SOME, save_tiny_model, tiny_config


@pytest.mark.parametrize("family", SOME)
def test_a_model_without_the_number_is_planned_for_what_it_is_loaded_with(family: str, tmp_path: Path) -> None:
    save_tiny_model(family, tmp_path)
    edit_json(tmp_path / "config.json", max_position_embeddings=None)
    planned, network = model_sizes(open_checkpoint(str(tmp_path))).max_positions, loaded(tmp_path)
    assert planned == network.max_positions
    assert planned == type(tiny_config(family))().max_position_embeddings
    for longest in (planned, network.max_positions):
        with pytest.raises(InputError, match=f"reads at most {planned} tokens"):
            context_for("model", longest, planned + 1)


@pytest.mark.parametrize("value", [0, -5, "many", None, 1.5, True])
def test_a_number_that_is_none_is_as_good_as_missing(tmp_path: Path, value: Any) -> None:
    assert longest_sequence(value, "llama") == longest_sequence(None, "llama") == 2048


def test_a_number_that_is_stated_holds_for_both(tmp_path: Path) -> None:
    save_tiny_model("llama", tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    stated = BASE["max_position_embeddings"]
    assert model_sizes(checkpoint).max_positions == stated
    assert open_architecture(checkpoint).config.max_position_embeddings == stated


@pytest.mark.parametrize("kind", ["no-such-kind", None, 7, "gpt_neox_of_nobody"])
def test_an_unknown_kind_has_a_usual_length(kind: object) -> None:
    assert longest_sequence(None, kind) == UNKNOWN


def test_a_kind_with_a_language_model_inside_has_that_ones_length() -> None:
    assert longest_sequence(None, "gemma3") == longest_sequence(None, "gemma3_text") > 0
