"""The suggestions that are shipped: complete, plausible, and of use."""

import json

import pytest

from app.hub.names import is_repo_id
from app.library.pairing.suggestions import SuggestedModel, Suggestion, suggestions
from app.system.paths import resource
from engine.protocol.options import WEIGHTS

CONTENT = json.loads(resource("suggestions.json").read_text(encoding="utf-8"))
MODELS = {each["repo"]: SuggestedModel(**each) for each in CONTENT["models"]}


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.repo)
def test_a_model_is_described_completely(model: SuggestedModel) -> None:
    assert is_repo_id(model.repo)
    assert 10**8 < model.parameters < 10**12
    assert 0.5 <= model.bytes / model.parameters <= 2.2, "from 4 to 16 bits a number"
    assert model.licence
    assert isinstance(model.gated, bool)


@pytest.mark.parametrize("pair", suggestions(), ids=lambda pair: pair.title)
def test_a_pair_makes_sense(pair: Suggestion) -> None:
    assert pair.title
    assert pair.about.endswith(".")
    assert pair.weights in WEIGHTS
    assert pair.vram_gb in (8, 12, 16, 24)
    assert pair.ram_gb in (16, 32, 48, 64, 96)
    if pair.draft:
        assert 3 <= pair.target.parameters / pair.draft.parameters <= 100
        assert pair.draft.repo.partition("/")[0] == pair.target.repo.partition("/")[0]
    held = pair.target.parameters * (4.5 if pair.weights == "nf4" else 16) / 8
    assert held < (pair.vram_gb + pair.ram_gb) * 1e9


def test_there_is_something_for_every_card_and_nothing_twice() -> None:
    pairs = suggestions()
    assert {pair.vram_gb for pair in pairs} == {8, 12, 16, 24}
    assert len({pair.target.repo for pair in pairs}) == len(pairs)
    assert len(MODELS) == len(CONTENT["models"])
    used = {model.repo for pair in pairs for model in (pair.target, pair.draft) if model}
    assert used == set(MODELS)
    families = {repo.partition("/")[0] for repo in used}
    assert families == {"Qwen", "meta-llama", "mistralai", "google", "openai"}
