"""The embedded target with drafts of other vocabularies: its own text, in few passes, and told what is common."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.cli import plan as command
from engine.cli.arguments import Parser
from engine.cli.contenders import assisted
from engine.engine import Engine, load
from engine.errors import Cancellation, InputError, ModelError
from engine.loading import pair as pairs
from engine.loading.pair import open_pair
from engine.protocol.messages import CommonTokens, Finished, Loaded, Loading, Round, Statistics
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.text.prompt import Prompt
from tests.campaigns.extent import choose
from tests.engine.other_drafts import permuted, reduced

QUESTION = "Tell me a story about a fox."


@dataclass
class Answered:
    tokens: list[int]
    trees: list[tuple[bytes, bytes]]
    statistics: Statistics


def loaded(draft: str) -> tuple[Engine, Loaded, list[str]]:
    steps = load(0, open_pair(LoadOptions(draft=draft, weights="float32", device="cpu")), Cancellation())
    told: Loaded | None = None
    stages: list[str] = []
    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            assert told
            return end.value, told, stages
        told = event if isinstance(event, Loaded) else told
        stages += [event.stage] if isinstance(event, Loading) else []


def answered(engine: Engine, method: str, temperature: float = 0.0, text: str = QUESTION) -> Answered:
    options = GenerateOptions(
        SamplingOptions(seed=4, temperature=temperature),
        SpeculationOptions(method=method, budget=0 if method == "none" else 24, lookup=False),
        max_new_tokens=24,
    )
    found = Answered([], [], Statistics())
    for event in engine.generate(1, raw_or_chat(engine, text), options):
        if isinstance(event, Round):
            said = memoryview(event.tree.tokens).cast("i")
            found.tokens += [*(said[node] for node in event.accepted[1:]), event.bonus]
            found.trees.append((event.tree.tokens, event.tree.parents))
        if isinstance(event, Finished):
            assert event.statistics
            found.statistics = event.statistics
    return found


def raw_or_chat(engine: Engine, text: str) -> Prompt:
    return engine.raw_prompt(f"<|bos|><|user|>{text}<|end|><|assistant|>")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("drafts")
    return permuted(base / "permuted"), reduced(base / "reduced")


@pytest.fixture(scope="module")
def engines(folders: tuple[Path, Path]) -> Iterator[list[tuple[Engine, Loaded, list[str]]]]:
    """With the original draft, the permuted and the reduced one."""
    found = [loaded(source) for source in ("auto", *map(str, folders))]
    yield found
    for engine, _, _ in found:
        engine.close()


Engines = list[tuple[Engine, Loaded, list[str]]]


@pytest.mark.parametrize("method", choose(["specexec"], ["specexec", "sequoia", "specinfer", "chain"]))
def test_under_other_ids_the_same_trees_are_grown(engines: Engines, method: str) -> None:
    original, other = (answered(engine, method) for engine, _, _ in engines[:2])
    assert other.tokens == original.tokens
    assert other.trees == original.trees
    assert other.statistics.passes == original.statistics.passes < 24


@pytest.mark.parametrize("method", choose(["specexec", "chain"], ["specexec", "sequoia", "specinfer", "chain"]))
def test_with_fewer_tokens_the_greedy_text_is_the_target_s(engines: Engines, method: str) -> None:
    plain, found = answered(engines[0][0], "none"), answered(engines[2][0], method)
    assert found.tokens == plain.tokens
    assert found.statistics.tokens_per_pass > 1


def test_with_fewer_tokens_the_same_seed_writes_the_same_text(engines: Engines) -> None:
    plain, found = answered(engines[0][0], "none", 0.8), answered(engines[2][0], "auto", 0.8)
    assert found.tokens == plain.tokens
    assert found.statistics.tokens_per_pass > 1


def test_what_is_common_is_told(engines: Engines) -> None:
    same, renumbered, fewer = (told.common_tokens for _, told, _ in engines)
    assert same is None
    assert renumbered == CommonTokens(1.0, 1.0)
    assert fewer
    assert 0.66 < fewer.of_vocabulary < fewer.of_text < 1
    words = "Common tokens: 99 % of an ordinary text, 68 % of the target's vocabulary."
    assert CommonTokens(0.6879, 0.999).words == words
    assert [fewer.words in stages for _, _, stages in engines] == [False, False, True]


def test_the_baseline_with_the_draft_of_transformers_is_refused(engines: Engines) -> None:
    assert not engines[0][0].translates
    with pytest.raises(InputError, match="needs a draft with the target's tokenizer"):
        assisted(engines[1][0], GenerateOptions())


def test_too_little_in_common_is_refused_with_the_number(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "LEAST_COMMON", 0.999)
    with pytest.raises(ModelError, match=r"another tokenizer .* only 9\d % of the tokens of an ordinary text"):
        open_pair(LoadOptions(draft=str(folders[1])))
    assert open_pair(LoadOptions(draft=str(folders[0]))).intersection


def test_plan_tells_it_too(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="plan")
    command.add_arguments(parser)
    command.plan(parser.parse_args(["--draft", str(folders[1]), "--json"]))
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["common_tokens"]["of_vocabulary"] == pytest.approx(0.688, abs=0.001)
    command.plan(parser.parse_args(["--draft", str(folders[1])]))
    assert "Common tokens: 9" in capsys.readouterr().out
    command.plan(parser.parse_args(["--json"]))
    assert json.loads(capsys.readouterr().out)["common_tokens"] is None
