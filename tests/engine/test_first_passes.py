"""What a network raises in its first passes is told as a fault of its model; later ones are faults of ours."""

from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from engine.engine import Engine, load
from engine.errors import Cancellation, OutOfMemory, UnrunnableError
from engine.loading.oom_retry import GuardedContext
from engine.loading.pair import open_pair
from engine.loading.probing import FirstPasses
from engine.model.context import Context
from engine.protocol.messages import Event
from engine.protocol.options import GenerateOptions, LoadOptions
from engine.serving.worker import failed_by
from engine.speculation.interfaces import Scorer
from engine.text.prompt import Prompt
from tests.engine.family_models import save_tiny
from tests.engine.served import raises
from tests.engine.text.tiny_tokenizers import library_tokenizer
from tests.engine.tiny_models import tiny_network

CPU = torch.device("cpu")


@pytest.fixture
def context() -> Context:
    return Context(tiny_network("llama", num_hidden_layers=2), 32)


def scorer(passes: FirstPasses, context: Context, device: torch.device = CPU) -> Scorer:
    return passes.of(GuardedContext(context, "the target"), "mine", device)


@pytest.mark.parametrize("error", [KeyError("a"), ZeroDivisionError("b"), UnboundLocalError("c"), RuntimeError("d")])
def test_a_first_pass_that_fails_is_the_models_fault(
    context: Context, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(context.network.model, "forward", raises(error))
    with pytest.raises(UnrunnableError, match="'mine' cannot be run: ") as raised:
        scorer(FirstPasses(), context).prefill([1, 2, 3])
    failed = failed_by(1, raised.value)
    assert failed.kind == "internal", "who asks has done nothing wrong"
    assert failed.hint
    assert type(error).__name__ in capsys.readouterr().err, "the log has all of it"


def test_memory_and_gpus_are_not_the_models_fault(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(context.network.model, "forward", raises(MemoryError("boom")))
        with pytest.raises(OutOfMemory):
            scorer(FirstPasses(), context).prefill([1, 2, 3])
    monkeypatch.setattr(context.network.model, "forward", raises(RuntimeError("CUDA error: device-side assert")))
    with pytest.raises(RuntimeError, match="device-side"):
        scorer(FirstPasses(), context, torch.device("cuda")).prefill([1, 2, 3])


def test_what_has_run_before_is_not_the_models_fault(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = FirstPasses()
    first = scorer(passes, context)
    first.prefill([1, 2, 3])
    with monkeypatch.context() as patch:
        patch.setattr(context.network.model, "forward", raises(KeyError("boom")))
        with pytest.raises(UnrunnableError):
            scorer(passes, context).score([4, 5], [-1, 0])  # a tree was never read
        with pytest.raises(KeyError):
            scorer(passes, context).prefill([1, 2, 3, 4])
    first.score([4, 5], [-1, 0])
    assert isinstance(scorer(passes, context), GuardedContext)
    assert passes.of(GuardedContext(context, "the draft"), "another", CPU) is not first


@pytest.mark.parametrize(
    ("family", "usual", "changed"),
    [
        ("minimax", '"full_attention"', '"chunked_attention"'),
        ("deepseek_v4", '"partial_rotary_factor": 0.5', '"partial_rotary_factor": 0.0'),
    ],
)
def test_a_config_that_its_class_has_no_code_for(family: str, usual: str, changed: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_tiny(family, folder)
    library_tokenizer("byte level", "{{ messages[0].content }}").save_pretrained(folder)
    config = (folder / "config.json").read_text()
    assert usual in config
    (folder / "config.json").write_text(config.replace(usual, changed))
    options = LoadOptions(str(folder), "none", "cpu", context_tokens=64, cache_dir=str(tmp_path / "cache"))
    cancellation = Cancellation()
    cancellation.begin(1)
    engine = result_of(load(1, open_pair(options), cancellation))
    steps = engine.generate(2, Prompt((3, 4, 5, 6, 7, 8)), GenerateOptions(max_new_tokens=4))
    with pytest.raises(UnrunnableError, match="'model' cannot be run: "):
        list(steps)


def result_of(steps: Generator[Event, None, Engine]) -> Engine:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            engine: Engine = end.value
            return engine
