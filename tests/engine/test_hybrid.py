"""A pair of models that keep states, from end to end: the text of transformers, streamed, turn after turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import transformers

from engine.engine import Engine
from engine.loading.pair import open_pair
from engine.loading.planning import Question, plan_pair
from engine.protocol.messages import Finished, Prefilled, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt
from engine.weights.planning.machine import Memory
from engine.weights.planning.needs import LEAST_SNAPSHOTS, MOST_SNAPSHOTS
from engine.weights.planning.placement import Plan
from tests.campaigns.extent import choose, is_whole
from tests.engine.test_estimate import loaded, with_tokenizer

NEW_TOKENS = choose(10, 24)
PROMPT = tuple(range(40, 75))
METHODS = choose(("auto",), ("auto", "specexec", "sequoia", "specinfer", "lookup", "none"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a draft that often agrees with it; both with states in half of their layers."""
    target = with_tokenizer(tmp_path_factory.mktemp("target"), "qwen3_5")
    draft = with_tokenizer(tmp_path_factory.mktemp("draft"), "qwen3_5")
    model = transformers.AutoModelForCausalLM.from_pretrained(draft)
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        if parameter.ndim == 2:
            noise = torch.randn(parameter.shape, generator=generator) * 0.1 * parameter.float().std()
            parameter.data.add_(noise.to(parameter.dtype))
    model.save_pretrained(draft)
    return target, draft


@pytest.fixture(scope="module")
def streaming(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    cache = str(tmp_path_factory.mktemp("cache"))
    engine = loaded(LoadOptions(str(folders[0]), str(folders[1]), weights="float32", place="ssd", cache_dir=cache))
    yield engine
    engine.close()


def answer(engine: Engine, prompt: tuple[int, ...], method: str, budget: int = 8) -> tuple[list[int], int, int]:
    """The tokens of an answer, its rounds, and how many tokens of the prompt were cached."""
    options = GenerateOptions(
        SamplingOptions(),
        SpeculationOptions(method=method, budget=budget, depth=4),
        max_new_tokens=NEW_TOKENS,
        ignore_eos=True,
    )
    tokens: list[int] = []
    events = list(engine.generate(1, Prompt(prompt), options))
    rounds = [event for event in events if isinstance(event, Round)]
    for event in rounds:
        said = memoryview(event.tree.tokens).cast("i")
        tokens += [*(said[node] for node in event.accepted[1:]), event.bonus]
    assert isinstance(events[-1], Finished)
    prefilled = next(event for event in events if isinstance(event, Prefilled))
    return tokens[:NEW_TOKENS], len(rounds), prefilled.cached_tokens


def generated(folder: Path, prompt: tuple[int, ...]) -> list[int]:
    """Greedy text of transformers alone."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    made = model.generate(
        torch.tensor([prompt]), max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    return list(made[0, len(prompt) :].tolist())


def test_every_method_and_budget_writes_what_transformers_does(folders: tuple[Path, Path], streaming: Engine) -> None:
    expected = generated(folders[0], PROMPT)
    for budget in choose((8,), (1, 8, 64, 256)):
        tokens, rounds, _ = answer(streaming, PROMPT, "specexec", budget)
        assert tokens == expected
        assert rounds < NEW_TOKENS, "nothing was ever accepted, so nothing was tested"
    for method in METHODS:
        assert answer(streaming, PROMPT, method)[0] == expected


def test_a_second_turn_and_an_edited_message_read_only_what_is_new(
    folders: tuple[Path, Path], streaming: Engine
) -> None:
    first = tuple(range(80, 110))
    said, _, _ = answer(streaming, first, "specexec")
    second = (*first, *said, *range(20, 30))
    again, _, cached = answer(streaming, second, "specexec")
    assert cached == len(first) + len(said) - 1, "all but the last token, which nobody has read yet"
    assert again == generated(folders[0], second)
    edited = (*first, *said[:3], *range(200, 210))
    text, _, cached = answer(streaming, edited, "specexec")
    assert cached == len(first) - 1, "where the first prompt had been read"
    assert text == generated(folders[0], edited)


@pytest.mark.skipif(not is_whole(), reason="loads another engine; contexts show it too: for the proofs")
def test_a_target_that_drafts_for_itself_writes_the_same(folders: tuple[Path, Path], tmp_path: Path) -> None:
    engine = loaded(LoadOptions(str(folders[0]), "self", weights="float32", place="ssd", cache_dir=str(tmp_path)))
    tokens, rounds, _ = answer(engine, PROMPT, "specexec")
    engine.close()
    assert tokens == generated(folders[0], PROMPT)
    assert rounds < NEW_TOKENS


def test_the_plan_counts_states_and_takes_more_snapshots_where_ram_is_left(folders: tuple[Path, Path]) -> None:
    pair = open_pair(LoadOptions(str(folders[0]), str(folders[1])))
    cpu = torch.device("cpu")

    def planned(ram: int) -> Plan:
        return plan_pair(pair.target, pair.draft, cpu, Question("float32", 200, 8, memory=Memory(ram)))

    ample = planned(1 << 33)
    assert (ample.snapshots, ample.fits) == (MOST_SNAPSHOTS, True)
    snapshot = ample.bytes.snapshots // MOST_SNAPSHOTS
    scarce = planned(ample.bytes.device + ample.bytes.ram - (MOST_SNAPSHOTS - LEAST_SNAPSHOTS) * snapshot)
    assert (scarce.snapshots, scarce.fits) == (LEAST_SNAPSHOTS, True)
    assert scarce.bytes.states == ample.bytes.states > snapshot
