"""The campaign of changed configs changes what it says, and sees what is no sentence."""

import json
from typing import Any

import pytest

from engine.loading.probing import FirstPasses
from tests.campaigns.configs import changes, outcome
from tests.engine.family_models import tiny_config

UNKNOWN = ["chunked_attention"] * 4  # which MiniMax has no code for


@pytest.fixture(scope="module")
def minimax() -> Any:
    return json.loads(tiny_config("minimax").to_json_string(use_diff=False))


def test_numbers_and_kinds_of_layers_are_changed(minimax: Any) -> None:
    made = list(changes(minimax))
    assert (("layer_types",), UNKNOWN) in made
    assert {value for path, value in made if path == ("num_hidden_layers",)} >= {0, -1, 2**31, "x", None}
    assert not any(path[0] == "model_type" for path, _ in made)


def test_only_what_is_no_sentence_is_wrong(minimax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.campaigns.configs.PROCESSOR_SECONDS", 0.0)  # none: nobody knows this machine
    assert outcome(minimax) == ""
    assert outcome({**minimax, "layer_types": UNKNOWN}) == ""
    assert outcome({**minimax, "num_hidden_layers": -1}) == ""
    monkeypatch.setattr(FirstPasses, "of", lambda _self, scorer, *_: scorer)
    assert "KeyError" in outcome({**minimax, "layer_types": UNKNOWN})
