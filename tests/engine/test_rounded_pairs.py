"""Activations in 8 bits: planned, told, kept apart from exact ones; the same text with trees, nearly the same odds."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from engine.engine import Engine
from engine.errors import Cancellation
from engine.loading.kept.model_names import model_names
from engine.loading.learned import LearnedFiles
from engine.loading.loading import load_ready
from engine.loading.measurements.benchmark import target_benchmark
from engine.loading.pair import PairIdentity, open_pair
from engine.loading.planning import plan_pair
from engine.loading.rates import question_for
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.context import Context
from engine.model.products import arranged
from engine.protocol.messages import Loaded
from engine.protocol.options import LoadOptions
from engine.text.tokenizer import Tokenizer
from engine.weights.planning.placement import Plan
from tests.engine.gguf_files import write_gguf
from tests.engine.test_planning import saved
from tests.engine.test_self_draft import answered, loaded
from tests.engine.text.conftest import EMBEDDED

CPU = torch.device("cpu")
LIKELY, WITHIN = 0.05, 0.15  # of probabilities above the first, logarithms are off by less than the second
DIVERGENCE = 1e-3  # nats, in the mean


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded target in 4 bits."""
    model = transformers.AutoModelForCausalLM.from_pretrained(EMBEDDED)
    return write_gguf(tmp_path_factory.mktemp("target") / "target.gguf", model, "Q4_0", tokenizer=EMBEDDED)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def options_for(target: Path, activations: str, cache: Path, draft: str = "none") -> LoadOptions:
    return LoadOptions(str(target), draft, place="ssd", activations=activations, cache_dir=str(cache))


@pytest.fixture(scope="module")
def rounding(target: Path, cache: Path) -> Iterator[tuple[Engine, Loaded]]:
    """The engine with a draft."""
    if not arranged.rounds_blocks(["Q4_0"]):
        pytest.skip("this processor has no loop for rows in 8 bits")
    engine, told = loaded(options_for(target, "int8", cache, "embedded"))
    yield engine, told
    engine.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_text_with_trees_is_the_text_without_them(rounding: tuple[Engine, Loaded], temperature: float) -> None:
    engine, _ = rounding
    plain = answered(engine, "none", temperature=temperature)
    drafted = answered(engine, "specexec", temperature=temperature)
    assert drafted.tokens == plain.tokens
    assert drafted.statistics.passes < plain.statistics.passes


def decoded(checkpoint: Checkpoint) -> Context:
    """With all weights in float32."""
    steps = load_ready(0, checkpoint, torch.float32, CPU, Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return Context(end.value, 64)


def test_log_probabilities_are_nearly_the_exact_ones(rounding: tuple[Engine, Loaded], target: Path) -> None:
    tokens = Tokenizer.open(EMBEDDED).encode("Long ago, in a little house on a hill, there lived a funny dragon.")
    scored = []
    for context in (decoded(open_checkpoint(str(target))), rounding[0].target):
        context.prefill(tokens[:4])
        scored.append(torch.log_softmax(context.score(tokens[4:], [*range(-1, len(tokens) - 5)]).float(), -1))
    exact, rounded = scored
    assert not torch.equal(exact, rounded)
    assert float((exact - rounded)[exact > torch.tensor(LIKELY).log()].abs().max()) < WITHIN
    assert float((exact.exp() * (exact - rounded)).sum(-1).mean()) < DIVERGENCE


def test_a_person_is_told(rounding: tuple[Engine, Loaded]) -> None:
    assert "rounded to 8 bits" in rounding[1].target.note


def planned(target: Checkpoint, options: LoadOptions) -> Plan:
    return plan_pair(target, None, CPU, question_for(PairIdentity(target, None, options)))


def test_the_plan_says_where_nothing_is_rounded(
    target: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.loading.preparation.rounds_blocks", lambda kinds: "Q4_0" in kinds)
    checkpoint, options = open_checkpoint(str(target)), options_for(target, "int8", cache)
    found = planned(checkpoint, options)
    assert found.is_rounded
    assert found.reason.endswith("where two tokens are nearly equally likely.")
    exact = planned(checkpoint, replace(options, activations="exact"))
    assert (exact.is_rounded, "8 bits" in exact.reason) == (False, False)
    others = (replace(options, weights=weights) for weights in ("bfloat16", "nf4"))
    for other in others:
        found = planned(checkpoint, other)
        assert (found.is_rounded, "Nothing is rounded to 8 bits" in found.reason) == (False, True)
    mixture = saved(tmp_path, "qwen3_moe")
    assert not planned(mixture, replace(options, target=str(mixture.folder))).is_rounded


def test_what_is_measured_and_learned_is_kept_apart(target: Path, cache: Path) -> None:
    exact, rounded = (open_pair(options_for(target, way, cache)) for way in ("exact", "int8"))
    benches = [target_benchmark(pair.identity, CPU) for pair in (exact, rounded)]
    if arranged.rounds_blocks(["Q4_0"]):
        assert benches[0].key != benches[1].key
    assert exact.identity.by_folders(0).split(" | ")[2:] == ["auto", "auto"]
    assert exact.identity.by_files()["weights"] == "auto"
    assert rounded.identity.by_folders(0) != exact.identity.by_folders(0)
    assert LearnedFiles(exact, [], "cpu")._about != LearnedFiles(rounded, [], "cpu")._about


def test_texts_that_were_read_are_kept_apart(target: Path) -> None:
    checkpoint = open_checkpoint(str(target))
    reading = decoded(checkpoint), checkpoint
    names = [model_names(reading, (), "Q4_0", is_rounded)[reading[0]] for is_rounded in (False, True)]
    assert names[0] == model_names(reading, (), "Q4_0")[reading[0]]
    assert names[0] != names[1]
