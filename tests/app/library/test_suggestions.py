"""The suggestions that are shipped: complete, plausible, and of use."""

import json

import pytest

from app.hub.names import is_repo_id
from app.library.pairing.suggestions import SuggestedModel, Suggestion, suggestions
from app.system.paths import resource
from engine.protocol.options import WEIGHTS
from engine.protocol.variants import split_source

CONTENT = json.loads(resource("suggestions.json").read_text(encoding="utf-8"))
CARDS = (24, 16, 12, 8)
BYTES = {
    "safetensors 16-bit": (1.9, 2.2), "FP8": (0.95, 1.25), "AWQ": (0.5, 0.7), "bnb-4bit": (0.5, 0.7),
    "MXFP4": (0.5, 0.7), "GGUF Q4_K_M": (0.55, 0.65),
}  # fmt: skip
MODELS = {each["repo"]: SuggestedModel(**each) for each in CONTENT["models"]}


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.repo)
def test_a_model_is_described_completely(model: SuggestedModel) -> None:
    repo, variant = split_source(model.repo)
    assert is_repo_id(repo)
    assert 10**8 < model.parameters < 10**12
    least, most = BYTES[model.format]
    assert least <= model.bytes / model.parameters <= most
    assert model.format == (f"GGUF {variant}" if variant else model.format)
    assert model.licence
    assert bool(model.active) is any(each in repo for each in ("gpt-oss", "A3B")), "of mixtures alone"
    assert model.active < model.parameters / 4
    assert isinstance(model.gated, bool)


@pytest.mark.parametrize("pair", suggestions(), ids=lambda pair: pair.title)
def test_a_pair_makes_sense(pair: Suggestion) -> None:
    assert pair.title
    assert pair.about.endswith(".")
    assert pair.weights in WEIGHTS
    assert pair.vram_gb in (8, 12, 16, 24)
    assert pair.ram_gb in (16, 32, 48, 64, 96, 128)
    if pair.draft:
        assert 3 <= pair.target.parameters / pair.draft.parameters <= 100
    assert pair.target.bytes < (pair.vram_gb + pair.ram_gb) * 1e9
    assert pair.target.format != "safetensors 16-bit", "four or eight bits as they are downloaded"


def test_there_is_something_for_every_card_and_nothing_twice() -> None:
    pairs = suggestions()
    assert {pair.vram_gb for pair in pairs} == {8, 12, 16, 24}
    assert len({pair.target.repo for pair in pairs}) == len(pairs)
    assert len(MODELS) == len(CONTENT["models"])
    used = {model.repo for pair in pairs for model in (pair.target, pair.draft) if model}
    assert used == set(MODELS)


def test_dense_models_of_27_to_128_billion_come_first() -> None:
    first = suggestions()[:4]
    assert all(27e9 <= pair.target.parameters <= 128e9 for pair in first)
    assert {"GGUF Q4_K_M", "FP8"} <= {pair.target.format for pair in first}
    four_bits = {
        card: {pair.target.format for pair in suggestions() if pair.vram_gb == card} - {"FP8"} for card in CARDS
    }
    assert all(four_bits.values())
