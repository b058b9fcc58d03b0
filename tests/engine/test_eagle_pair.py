"""EAGLE-3 heads beside the embedded target: its own text, in fewer passes; and what does not fit is refused."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.cli import plan as command
from engine.cli.arguments import Parser
from engine.engine import Engine
from engine.errors import CoppiceError, DraftError
from engine.loading.estimate import Estimator
from engine.loading.pair import open_pair
from engine.model.heads.head_context import HeadContext
from engine.protocol.messages import Appraise, Finished, Loaded, Round
from engine.protocol.options import GenerateOptions, LoadOptions, SamplingOptions, SpeculationOptions
from tests.campaigns.extent import choose, for_the_proofs
from tests.engine.eagle_heads import head_tensors, write_head
from tests.engine.tensor_files import read_tensors
from tests.engine.test_self_draft import loaded

WIDTH, VOCABULARY = 256, 4096  # the embedded target's
QUESTION = "<|bos|><|user|>Tell me a story about a fox.<|end|><|assistant|>"
AGAIN = "<|end|><|user|>And now about a bear.<|end|><|assistant|>"


def paired(draft: str, **options: Any) -> tuple[Engine, Loaded]:
    """The embedded target with this draft."""
    return loaded(LoadOptions(draft=draft, weights="float32", device="cpu", **options))


def answered(engine: Engine, text: str, method: str, temperature: float = 0.0) -> tuple[list[int], int]:
    """The tokens of an answer, and the passes that it took."""
    options = GenerateOptions(
        SamplingOptions(seed=4, temperature=temperature),
        SpeculationOptions(method=method, budget=0 if method == "none" else 64, lookup=False),
        max_new_tokens=24,
    )
    tokens: list[int] = []
    for event in engine.generate(1, engine.raw_prompt(text), options):
        if isinstance(event, Round):
            said = memoryview(event.tree.tokens).cast("i")
            tokens += [*(said[node] for node in event.accepted[1:]), event.bonus]
        if isinstance(event, Finished):
            assert event.statistics
            return tokens, event.statistics.passes
    raise AssertionError("no ending")


@dataclass(frozen=True)
class Beside:
    """The target alone, and with a head that knows the tokens of its first answer and no others."""

    plain: Engine
    folder: Path
    engine: Engine
    told: Loaded


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    plain, _ = paired("none")
    said = torch.tensor(sorted(set(answered(plain, QUESTION, "none")[0])))
    tensors = head_tensors(WIDTH, VOCABULARY)
    tensors |= {"d2t": said - torch.arange(len(said)), "lm_head.weight": tensors["lm_head.weight"][: len(said)] / 4}
    del tensors["t2d"]
    sizes = {"hidden_size": WIDTH, "vocab_size": VOCABULARY, "draft_vocab_size": len(said)}
    unnamed = {"eagle_aux_hidden_state_layer_ids": None}
    folder = write_head(tmp_path_factory.mktemp("heads") / "fox", tensors, **sizes, **unnamed)
    engine, told = paired(str(folder))
    yield Beside(plain, folder, engine, told)
    for each in (plain, engine):
        each.close()


@pytest.mark.parametrize("method", choose(["specexec"], ["auto", "specexec", "sequoia", "specinfer", "chain"]))
def test_the_greedy_text_is_the_target_s(method: str, beside: Beside) -> None:
    expected, passes = answered(beside.plain, QUESTION, "none")
    found, fewer = answered(beside.engine, QUESTION, method)
    assert found == expected
    assert fewer < passes, "every token of the answer can be guessed"
    other = answered(beside.plain, QUESTION + AGAIN, "none")[0]
    assert answered(beside.engine, QUESTION + AGAIN, method)[0] == other


@for_the_proofs
def test_the_same_seed_writes_the_same_text(beside: Beside) -> None:
    expected, _ = answered(beside.plain, QUESTION, "none", 0.8)
    assert answered(beside.engine, QUESTION, "specexec", 0.8)[0] == expected


@for_the_proofs
def test_beside_a_target_that_streams_it_drafts_too(beside: Beside, tmp_path: Path) -> None:
    expected, passes = answered(beside.plain, QUESTION, "none")
    engine, _ = paired(str(beside.folder), place="ssd", cache_dir=str(tmp_path))
    found, fewer = answered(engine, QUESTION, "specexec")
    engine.close()
    assert found == expected
    assert fewer < passes


def test_it_is_told_as_the_draft(beside: Beside) -> None:
    assert isinstance(beside.engine.draft, HeadContext)
    draft = beside.told.draft
    assert draft
    assert (draft.name, draft.layers) == ("fox", 1)
    assert draft.bytes == sum(
        4 * tensor.numel()
        for name, tensor in read_tensors(beside.folder / "model.safetensors").items()
        if name != "d2t"
    )


def test_it_is_planned_for_and_estimated(beside: Beside, capsys: pytest.CaptureFixture[str]) -> None:
    found = Estimator(loaded=True).estimate(Appraise(3, LoadOptions(draft=str(beside.folder), weights="float32")))
    assert found.verdict == "device"
    # Whether a tree pays is for what this machine was measured to be, busy or not.
    assert found.seconds_per_pass > 0
    assert any(way.nodes and way.tokens_per_pass > 1 for way in found.ways), found.ways
    parser = Parser(prog="plan")
    command.add_arguments(parser)
    command.plan(parser.parse_args(["--draft", str(beside.folder), "--json"]))
    assert json.loads(capsys.readouterr().out)["common_tokens"] is None


def refusal(**sources: str) -> str:
    with pytest.raises(CoppiceError) as refused:
        open_pair(LoadOptions(**sources))  # type: ignore[arg-type]  # sources alone
    estimate = Estimator(loaded=True).estimate(Appraise(3, LoadOptions(**sources)))  # type: ignore[arg-type]
    error = refused.value
    reason = error.reason if isinstance(error, DraftError) else error.message  # which model it is stands beside it
    assert (estimate.verdict, estimate.reason) == ("no", reason)
    return str(error.message)


def test_what_does_not_fit_is_refused_in_a_sentence(beside: Beside, tmp_path: Path) -> None:
    small = write_head(tmp_path / "small", head_tensors())
    assert refusal(draft=str(small)) == "The head 'small' was made for a model of another size than 'demo-target'."
    assert refusal(target=str(beside.folder), draft="none") == "'fox' is a head that drafts for a larger model."
    merged = refusal(draft=f"{beside.folder}+heads")
    assert merged == "'fox' is a head, and is not merged with the target's own."
    pickled = shutil.copytree(beside.folder, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    assert "a format that can run code; only safetensors are opened" in refusal(draft=str(pickled))
