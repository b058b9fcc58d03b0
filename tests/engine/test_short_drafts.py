"""Drafts with a table of positions that is shorter than the context: they stop proposing, and answers go on."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.pair import open_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.protocol.messages import ChatMessage, Finished, Loaded, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.engine.other_drafts import DEMO, reduced

POSITIONS = 48
NEW_TOKENS = 60
SAID = f"The draft proposes nothing behind {POSITIONS} tokens, as it reads no more."


@dataclass(frozen=True)
class Answered:
    text: str
    drafted: tuple[int, ...]
    """Nodes of every round."""


def save_draft(folder: Path, tokens_from: Path) -> Path:
    """A GPT-2 that knows nothing, with another model's tokenizer."""
    torch.manual_seed(0)
    sizes = {"n_positions": POSITIONS, "n_embd": 32, "n_layer": 1, "n_head": 2}
    GPT2LMHeadModel(GPT2Config(vocab_size=4096, bos_token_id=0, eos_token_id=0, **sizes)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokens_from / name, folder)
    return folder


def loaded(draft: Path, cache: Path) -> tuple[Engine, Loaded]:
    options = LoadOptions(draft=str(draft), weights="float32", device="cpu", cache_dir=str(cache), context_tokens=256)
    steps, told = load(1, open_pair(options), Cancellation()), None
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            assert told
            return end.value, told
        told = event if isinstance(event, Loaded) else told


@pytest.fixture(scope="module", params=["same", "other"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Loaded]]:
    """Of the target's vocabulary, and of one that needs more tokens for a text."""
    base = tmp_path_factory.mktemp("short")
    tokens_from = DEMO if request.param == "same" else reduced(base / "reduced")
    found = loaded(save_draft(base / "draft", tokens_from), base / "cache")
    yield found
    found[0].close()


def answered(engine: Engine, method: str, temperature: float = 0.0, question: str = "Hello") -> Answered:
    speculation = SpeculationOptions(method, 0 if method in ("none", "auto") else 8, lookup=False)
    options = GenerateOptions(SamplingOptions(temperature), speculation, NEW_TOKENS, ignore_eos=True)
    events = list(engine.generate(2, engine.prompt([ChatMessage("user", question)]), options))
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.statistics
    assert last.statistics.new_tokens == NEW_TOKENS
    each = [event for event in events if isinstance(event, Round)]
    return Answered(
        "".join(event.text for event in each) + last.text, tuple(len(event.tree.tokens) // 4 - 1 for event in each)
    )


def test_answers_are_the_target_s_own_beyond_the_draft_s_positions(pair: tuple[Engine, Loaded]) -> None:
    engine, _ = pair
    plain = answered(engine, "none").text
    for method in ("auto", "sequoia"):
        found = answered(engine, method)
        assert found.text == plain
        assert any(found.drafted), "nothing was drafted, so nothing was tested"
        assert not found.drafted[-1]


def test_a_prompt_that_is_longer_than_the_draft_reads_is_answered_without_it(pair: tuple[Engine, Loaded]) -> None:
    engine, _ = pair
    for method, temperature in (("specexec", 0.0), ("sequoia", 1.0)):
        assert not any(answered(engine, method, temperature, "Tell me a story. " * (POSITIONS // 4)).drafted)


def test_where_the_draft_stops_is_told(pair: tuple[Engine, Loaded]) -> None:
    _, told = pair
    assert SAID in told.target.note


def test_a_family_that_calls_its_positions_otherwise_is_planned_for_those_it_has(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(save_draft(tmp_path / "draft", DEMO)))
    assert model_sizes(checkpoint).max_positions == POSITIONS
