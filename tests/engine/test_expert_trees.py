"""A loaded mixture's answers: trees are grown by what its routers chose, and the text stays its own."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine, load
from engine.errors import Cancellation
from engine.loading.pair import open_pair
from engine.protocol.messages import Finished, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from engine.speculation.experts.accuracy import Accuracy
from engine.speculation.experts.costs import ExpertPrices
from engine.speculation.experts.seconds import ExpertTime
from engine.speculation.trees.tree import Tree
from engine.text.prompt import Prompt
from tests.campaigns.extent import choose
from tests.engine.tiny_models import save_tiny_model

DEMO = Path(__file__).parents[2] / "resources" / "models" / "demo-target"
PROMPT, NEW = Prompt(tuple(range(40, 52))), 48


def save_mixture(folder: Path) -> Path:
    """A random mixture that reads and writes as the embedded target does."""
    save_tiny_model("qwen3_moe", folder, vocab_size=4096, num_hidden_layers=2, hidden_size=32, intermediate_size=32)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (DEMO / name).exists():
            shutil.copy(DEMO / name, folder / name)
    return folder


@pytest.fixture(scope="module", params=choose(["ssd"], ["ssd", "device"]))
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    target, draft = (save_mixture(tmp_path_factory.mktemp("models") / name) for name in ("target", "draft"))
    cache = str(tmp_path_factory.mktemp("cache"))
    options = LoadOptions(str(target), str(draft), place=request.param, weights="float32", cache_dir=cache)
    steps = load(0, open_pair(options), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            yield end.value
            end.value.close()
            return


def answered(engine: Engine, method: str, temperature: float = 0.0) -> list[int]:
    options = GenerateOptions(
        SamplingOptions(temperature, seed=4), SpeculationOptions(method=method, depth=2), NEW, ignore_eos=True
    )
    tokens: list[int] = []
    for event in engine.generate(1, PROMPT, options):
        if isinstance(event, Round):
            said = memoryview(event.tree.tokens).cast("i")
            tokens += [*(said[node] for node in event.accepted[1:]), event.bonus]
    return tokens


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_trees_of_a_loaded_mixture_know_its_experts(
    engine: Engine, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[int] = []
    grow = ExpertPrices.worthwhile

    def counted(prices: ExpertPrices, tree: Tree, rows: object) -> list[int] | None:
        found = grow(prices, tree, rows)  # type: ignore[arg-type]
        grown.extend([] if found is None else [len(found)])
        return found

    monkeypatch.setattr(ExpertPrices, "worthwhile", counted)
    monkeypatch.setattr(ExpertTime, "seconds_per_expert", 1e-6)  # whatever this machine does meanwhile
    monkeypatch.setattr(Accuracy, "is_better", True)
    expected = answered(engine, "none", temperature)
    assert answered(engine, "specexec", temperature) == expected
    assert grown, "no tree was grown by its experts"


def test_only_experts_of_a_mixture_stream_where_they_come_one_by_one(engine: Engine) -> None:
    residence = engine.describe(1, 0.0).residence
    assert residence is not None
    assert residence.only_experts


def test_sampled_trees_of_a_mixture_are_small(engine: Engine) -> None:
    """Its draft is as large as itself: no further node pays for its level, and the answer says so."""
    options = GenerateOptions(SamplingOptions(1.0, seed=4), SpeculationOptions(method="sequoia"), 8, ignore_eos=True)
    events = list(engine.generate(1, PROMPT, options))
    assert max(len(event.tree.tokens) // 4 for event in events if isinstance(event, Round)) == 2
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.statistics
    assert finished.statistics.note.startswith("A sampled tree cannot pay here")
    asked = replace(options, speculation=SpeculationOptions(method="sequoia", budget=5))
    *rounds, finished = engine.generate(2, PROMPT, asked)
    assert max(len(event.tree.tokens) // 4 for event in rounds if isinstance(event, Round)) == 6
    assert isinstance(finished, Finished)
    assert finished.statistics
    assert "cannot pay" not in finished.statistics.note
