"""A target that drafts with the heads it comes with, from end to end: the text of transformers, and refusals."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.engine import Engine
from engine.errors import InputError, ModelError
from engine.loading.estimate import Estimator
from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.heads.head_context import HeadContext
from engine.model.heads.multi_token import has_heads
from engine.model.model_folder import EMBEDDED_MODELS
from engine.protocol.messages import Appraise, Loaded
from engine.protocol.options import LoadOptions
from tests.campaigns.extent import choose
from tests.engine.head_models import FILE, NAMES, save_with_head
from tests.engine.tensor_files import read_tensors
from tests.engine.test_estimate import with_tokenizer
from tests.engine.test_hybrid import NEW_TOKENS, PROMPT, answer, generated
from tests.engine.test_self_draft import answered, loaded

FAMILIES = choose(("glm4_moe",), tuple(NAMES))
BUDGETS = (1, 8, 64)
METHODS = choose(("sequoia",), ("auto", "sequoia", "specinfer", "chain", "lookup", "none"))


def saved(family: str, folder: Path) -> Path:
    """A tiny model with heads and the embedded pair's tokenizer, and as many rows."""
    save_with_head(family, folder, vocab_size=4096)
    for path in (EMBEDDED_MODELS / "demo-target").iterdir():
        if path.name.startswith(("tokenizer", "special")):
            shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("qwen3_5_text", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def streaming(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Loaded]]:
    cache = str(tmp_path_factory.mktemp("cache"))
    engine, told = loaded(LoadOptions(str(folder), "heads", weights="float32", place="ssd", cache_dir=cache))
    yield engine, told
    engine.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_is_that_of_transformers(family: str, tmp_path: Path) -> None:
    folder = saved(family, tmp_path)
    engine, _ = loaded(LoadOptions(str(folder), "heads", weights="float32", cache_dir=str(tmp_path / "cache")))
    expected = generated(folder, PROMPT)
    for budget in choose((8,), BUDGETS):
        tokens, rounds, _ = answer(engine, PROMPT, "specexec", budget)
        assert tokens == expected
        assert rounds < NEW_TOKENS, "nothing was ever accepted, so nothing was tested"


def test_every_method_and_budget_drafts_with_them_while_layers_stream(
    folder: Path, streaming: tuple[Engine, Loaded]
) -> None:
    engine, _ = streaming
    expected = generated(folder, PROMPT)
    for budget in BUDGETS:
        assert answer(engine, PROMPT, "specexec", budget)[0] == expected
    for method in METHODS:
        assert answer(engine, PROMPT, method)[0] == expected


def test_the_same_seed_writes_the_same_text_as_without(streaming: tuple[Engine, Loaded]) -> None:
    engine, _ = streaming
    plain, drafted = (answered(engine, method, temperature=0.8) for method in ("none", "specexec"))
    assert drafted.tokens == plain.tokens
    assert drafted.statistics.passes < plain.statistics.passes


def test_a_second_turn_and_an_edited_message_go_on_from_what_was_read(
    folder: Path, streaming: tuple[Engine, Loaded]
) -> None:
    engine, _ = streaming
    first = tuple(range(80, 110))
    said, _, _ = answer(engine, first, "specexec")
    second, edited = (*first, *said, *range(20, 30)), (*first, *said[:3], *range(200, 210))
    for prompt in choose((second, edited), (second, edited, first[:9])):
        tokens, rounds, _ = answer(engine, prompt, "specexec")
        assert tokens == generated(folder, prompt)
        assert rounds < NEW_TOKENS


def test_what_is_loaded_is_told_and_nothing_is_held_twice(streaming: tuple[Engine, Loaded]) -> None:
    engine, told = streaming
    assert isinstance(engine.draft, HeadContext)
    target, draft = engine.target.network.model, engine.draft.network.model
    assert draft.get_input_embeddings() is target.get_input_embeddings()
    assert draft.lm_head is target.lm_head
    assert told.draft
    assert told.draft.name.endswith("its own heads")
    assert told.draft.layers == 1
    assert told.draft.bytes == 4 * told.draft.parameters


def test_the_plan_prices_heads_by_what_they_take(folder: Path, streaming: tuple[Engine, Loaded]) -> None:
    engine, _ = streaming
    answer(engine, PROMPT, "specexec")
    ask = Estimator(loaded=True).estimate
    alone, headed = (
        ask(Appraise(1, LoadOptions(str(folder), draft, weights="float32", context_tokens=300)))
        for draft in ("none", "heads")
    )
    assert headed.verdict == alone.verdict == "device"
    assert headed.tiers[0].bytes > alone.tiers[0].bytes


def test_heads_and_a_draft_model_draft_together(folder: Path, tmp_path: Path) -> None:
    draft = with_tokenizer(tmp_path, "llama")
    options = LoadOptions(str(folder), f"{draft}+heads", weights="float32", cache_dir=str(tmp_path / "cache"))
    engine, told = loaded(options)
    expected = generated(folder, PROMPT)
    for method in choose(("sequoia",), ("specexec", "sequoia")):
        tokens, rounds, _ = answer(engine, PROMPT, method)
        assert tokens == expected
        assert rounds < NEW_TOKENS, "the heads agree often, the draft model never"
    assert told.draft
    assert told.draft.name.endswith("with the target's heads")
    ask = Estimator(loaded=True).estimate
    apart, together = (
        ask(Appraise(1, replace(options, draft=draft, context_tokens=300))).tiers[0].bytes
        for draft in (str(draft), options.draft)
    )
    assert together > apart


def test_a_model_without_heads_is_refused_in_words(folder: Path) -> None:
    assert has_heads(open_checkpoint(str(folder)))
    assert not has_heads(open_checkpoint("embedded"))
    with pytest.raises(InputError, match="without heads") as refusal:
        open_pair(LoadOptions("embedded", "heads"))
    assert "draft model" in refusal.value.hint


@pytest.mark.parametrize(
    ("part", "match"),
    [
        *choose([], [("mtp.norm.weight", "lacks")]),
        ("mtp.pre_fc_norm_hidden.weight", "lacks"),
        ("mtp.fc.weight", "shape"),
    ],
)
def test_heads_of_which_a_part_is_missing_are_refused_in_words(
    folder: Path, tmp_path: Path, part: str, match: str
) -> None:
    shutil.copytree(folder, tmp_path / "model")
    tensors = read_tensors(tmp_path / "model" / FILE)
    if match == "shape":
        tensors[part] = torch.zeros(8, 8)
    else:
        del tensors[part]
    save_file(tensors, tmp_path / "model" / FILE, {"format": "pt"})
    with pytest.raises(ModelError, match=match):
        loaded(LoadOptions(str(tmp_path / "model"), "heads", cache_dir=str(tmp_path)))
