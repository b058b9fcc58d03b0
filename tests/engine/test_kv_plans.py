"""The plan knows keys and values in 8 bits: their bytes, when they are taken, what is said, and a shorter context."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine import engine as engines
from engine.cli.serving_log import ServingLog
from engine.errors import Cancellation, InputError
from engine.loading import planning
from engine.loading.kept.model_names import model_names
from engine.loading.pair import open_pair
from engine.loading.planning import LEAST_CONTEXT, Question, needs_of, plan_pair, with_kv
from engine.model.checkpoint import Checkpoint
from engine.model.context import Context
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS
from engine.model.shape import model_sizes
from engine.protocol.messages import Loaded
from engine.protocol.options import LoadOptions
from engine.weights.planning.machine import Memory
from engine.weights.planning.needs import Workload
from tests.engine.resident import load_resident
from tests.engine.test_planning import saved

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return saved(tmp_path_factory.mktemp("long"), "llama", max_position_embeddings=65536)


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5"])
def test_a_cache_in_8_bits_takes_what_the_plan_counts(family: str, tmp_path: Path) -> None:
    checkpoint = saved(tmp_path, family)
    found = plan_pair(checkpoint, None, CPU, Question("float32", context_tokens=100, kv="8"))
    context = Context(load_resident(checkpoint, torch.float32, CPU), Workload(100).slots, form=EIGHT_BITS)
    context.score([5, 6, 7], [-1, 0, 1])
    taken = sum(part.nbytes for layer in context._cache.attention for part in layer.stored)
    assert (found.kv_form, found.bytes.kv) == ("8 bits", taken)
    assert "in 8 bits, each within 1/127" in found.reason
    assert found.reason.endswith(found.note)
    exact = plan_pair(checkpoint, None, CPU, Question("float32", context_tokens=100))
    assert (exact.kv_form, exact.bytes.kv > 2 * taken) == ("computed", True)
    assert "8 bits" not in exact.reason


def room_for(long: Checkpoint, tokens: int, kv: str) -> Memory:
    """Exactly what this context takes."""
    question = Question("float32", context_tokens=tokens, kv=kv, memory=Memory(1 << 40))
    return Memory(plan_pair(long, None, CPU, question).bytes.device)


def test_8_bits_are_taken_where_nothing_else_fits_if_a_person_allows_it(long: Checkpoint) -> None:
    question = Question("float32", context_tokens=32768, memory=room_for(long, 32768, "8"))
    assert plan_pair(long, None, CPU, question).verdict == "no"
    found = plan_pair(long, None, CPU, replace(question, kv="fit"))
    assert (found.fits, found.kv_form, found.context_tokens) == (True, "8 bits", 32768)
    roomy = replace(question, kv="fit", memory=Memory(1 << 40))
    assert plan_pair(long, None, CPU, roomy).kv_form == "computed"


def test_a_context_that_does_not_fit_is_shortened_where_it_was_left_open_and_told_where_not(long: Checkpoint) -> None:
    memory = room_for(long, 4096, "auto")
    short = plan_pair(long, None, CPU, Question("float32", memory=memory))
    assert short.fits
    assert LEAST_CONTEXT <= short.context_tokens < 8192
    assert f"The context is {short.context_tokens} tokens long, as no more fits." in short.reason
    asked = plan_pair(long, None, CPU, Question("float32", context_tokens=8192, memory=memory))
    assert asked.verdict == "no"
    assert f"A context of {short.context_tokens} tokens would fit." in asked.reason
    nothing = plan_pair(long, None, CPU, Question("float32", memory=Memory(1000)))
    assert (nothing.verdict, nothing.context_tokens) == ("no", 8192)
    assert "context of" not in nothing.reason


def test_what_is_unusual_about_the_context_is_told_once_it_is_loaded_also_by_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "The context is 2048 tokens long, as no more fits."
    monkeypatch.setattr(planning, "words_of_kv", lambda _form: told)
    pair = open_pair(LoadOptions(draft="none", cache_dir=str(tmp_path)))
    cancellation = Cancellation()
    cancellation.begin(1)
    events = list(engines.load(1, pair, cancellation))
    loaded = next(event for event in events if isinstance(event, Loaded))
    assert told in loaded.target.note
    ServingLog(quiet=False).tell_load(loaded)
    assert told in capsys.readouterr().err


def test_unpacking_costs_time_in_the_forecast(long: Checkpoint) -> None:
    sizes = model_sizes(long)
    needs = with_kv(needs_of(long, sizes, "float32", CPU), sizes, "8 bits")
    assert needs.kv_packed == sizes.kv_width
    question = Question("float32", context_tokens=32768, memory=Memory(1 << 40))
    exact, packed = (plan_pair(long, None, CPU, replace(question, kv=kv)).forecast for kv in ("auto", "8"))
    assert packed.compute_seconds != exact.compute_seconds


def test_texts_of_another_form_are_those_of_another_reader(long: Checkpoint) -> None:
    network = load_resident(long, torch.float32, CPU)
    contexts = [Context(network, 8, form=form) for form in (AS_COMPUTED, EIGHT_BITS)]
    assert len({model_names((context, long), (), "")[context] for context in contexts}) == 2


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(InputError, match="Keys and values '4' is out of range"):
        LoadOptions(kv="4").check()
