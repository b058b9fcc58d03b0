"""Estimates: from facts alone they are those of the whole model, and within 5 % of what loading really takes."""

import ctypes
import gc
import shutil
import sys
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import pytest
import torch

from engine.engine import Engine, load
from engine.errors import Cancellation, DraftError
from engine.loading.estimate import Estimator
from engine.loading.pair import open_pair
from engine.loading.planning import Question, needs_of, plan_pair
from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.model_folder import EMBEDDED_MODELS
from engine.model.shape import model_sizes
from engine.protocol.messages import Appraise, Appraised
from engine.protocol.options import LoadOptions, Place
from engine.weights.planning.machine import Memory
from engine.weights.planning.placement import Override
from engine.weights.streaming.host_memory import HostArena
from engine.weights.streaming.pinning import Pinning
from tests.bench.inflate import inflate
from tests.campaigns.extent import choose
from tests.engine.model.test_facts import facts_of
from tests.engine.tiny_models import SOME, tiny_model

CPU = torch.device("cpu")
MIB = 1 << 20


def estimate(appraiser: Estimator, **options: Any) -> Appraised:
    return appraiser.estimate(Appraise(7, LoadOptions(**options)))


def with_tokenizer(folder: Path, family: str, **overrides: Any) -> Path:
    """A tiny model that can be loaded as a whole: with the embedded pair's tokenizer, and as many rows."""
    tiny_model(family, dtype=torch.bfloat16, vocab_size=4096, **overrides).save_pretrained(folder)
    for path in (EMBEDDED_MODELS / "demo-target").iterdir():
        if path.name.startswith(("tokenizer", "special")):
            shutil.copy(path, folder)
    return folder


def loaded(options: LoadOptions) -> Engine:
    steps = load(1, open_pair(options), Cancellation())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(Engine, end.value)


def held(context: Context) -> int:
    """Bytes of the parameters and of the caches that were really allocated."""
    context.prefill([5, 6, 7])
    caches = sum(layer.keys.nbytes + layer.values.nbytes for layer in context._cache.attention)
    return int(caches + sum(parameter.nbytes for parameter in context.network.model.parameters()))


def predicted(options: LoadOptions) -> tuple[int, int]:
    """What the plan counts for the target's weights and cache, and for the draft's."""
    pair = open_pair(options)
    asked = Question(weights=options.weights, context_tokens=options.context_tokens)
    plan = plan_pair(pair.target, pair.draft, CPU, asked)
    target = plan.bytes.layers + plan.bytes.rest + plan.bytes.kv
    if pair.draft is None:
        return target, 0
    draft = needs_of(pair.draft, model_sizes(pair.draft), options.weights, CPU)
    slots = plan.bytes.kv // needs_of(pair.target, model_sizes(pair.target), options.weights, CPU).kv_bytes
    return target, sum(layer.run_bytes for layer in draft.layers) + draft.rest_bytes + draft.kv_bytes * slots


def assert_predicted(options: LoadOptions) -> None:
    engine = loaded(options)
    target, draft = predicted(options)
    assert target == pytest.approx(held(engine.target), rel=0.05)
    if engine.draft:
        assert draft == pytest.approx(held(engine.draft), rel=0.05)


@pytest.mark.parametrize("weights", ["auto", "bfloat16"])
def test_the_embedded_pair_takes_what_was_said(weights: str) -> None:
    assert_predicted(LoadOptions(weights=weights))


@pytest.mark.parametrize("family", choose(("llama", "qwen3_moe"), SOME))
def test_every_family_takes_what_was_said(family: str, tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path, family)
    assert_predicted(LoadOptions(str(folder), "none", weights="bfloat16", context_tokens=300))


def test_an_inflated_model_takes_what_was_said(tmp_path: Path) -> None:
    folder = inflate(tmp_path, 48 * MIB)
    assert_predicted(LoadOptions(str(folder), str(EMBEDDED_MODELS / "demo-draft"), weights="bfloat16"))


@pytest.mark.parametrize("place", ["ram", "ssd"])
def test_a_streamed_model_takes_what_was_said(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arenas: WeakSet[HostArena] = WeakSet()  # the one that measuring needs is gone when the model is there
    make = HostArena.__init__

    def recorded(self: HostArena, nbytes: int, pinning: Pinning | None = None) -> None:
        make(self, nbytes, pinning)
        arenas.add(self)

    monkeypatch.setattr(HostArena, "__init__", recorded)
    folder = inflate(tmp_path, 48 * MIB)
    options = LoadOptions(str(folder), "none", weights="bfloat16", place=place)
    found = estimate(Estimator(loaded=False), target=str(folder), draft="none", weights="bfloat16", place=place)
    engine = loaded(options)
    context = engine.target
    context.prefill([5, 6, 7])
    inside = {id(parameter) for parameter in context.network.layers.parameters()}
    rest = sum(each.nbytes for each in context.network.model.parameters() if id(each) not in inside)
    caches = sum(layer.keys.nbytes + layer.values.nbytes for layer in context._cache.layers)
    plan = plan_pair(open_checkpoint(str(folder)), None, CPU, Question("bfloat16", override=Override(place=place)))
    gc.collect()
    in_arenas = sum(arena.nbytes for arena in arenas)
    engine.close()
    assert in_arenas
    counted = (
        plan.bytes.layers + plan.bytes.ring + plan.bytes.scratch + plan.bytes.ram + plan.bytes.rest + plan.bytes.kv
    )
    assert counted == pytest.approx(in_arenas + rest + caches, rel=0.05)
    assert sum(tier.bytes for tier in found.tiers[:2]) == plan.bytes.device + plan.bytes.ram


@pytest.mark.parametrize("family", choose(("llama", "qwen3_moe"), SOME))
def test_facts_alone_have_the_price_of_the_whole_model(family: str, tmp_path: Path) -> None:
    tiny_model(family, dtype=torch.bfloat16).save_pretrained(tmp_path / "model")
    facts = facts_of(tmp_path / "model", tmp_path / "facts")
    appraiser = Estimator(loaded=False)
    told, known = (estimate(appraiser, target=str(each), draft="none") for each in (facts, tmp_path / "model"))
    assert told == known
    assert told.verdict == "device"
    assert told.parameters == open_checkpoint(str(tmp_path / "model")).parameters
    assert told.tokens_per_second > 0


def test_context_budget_and_weights_change_the_price(tmp_path: Path) -> None:
    appraiser = Estimator(loaded=False)
    target = str(with_tokenizer(tmp_path, "llama", max_position_embeddings=9000, hidden_size=256))
    draft = str(EMBEDDED_MODELS / "demo-draft")
    plain = estimate(appraiser, target=target, draft=draft, weights="bfloat16", context_tokens=1000)
    longer = estimate(appraiser, target=target, draft=draft, weights="bfloat16", context_tokens=8000)
    packed = estimate(appraiser, target=target, draft=draft, weights="nf4", context_tokens=1000)
    wider = estimate(appraiser, budget=512, target=target, draft=draft, weights="bfloat16", context_tokens=1000)
    alone = estimate(appraiser, target=target, draft="none", weights="bfloat16", context_tokens=1000)
    assert longer.tiers[0].bytes > plain.tiers[0].bytes > alone.tiers[0].bytes
    assert packed.tiers[0].bytes != plain.tiers[0].bytes
    assert (plain.context_tokens, longer.context_tokens) == (1000, 8000)
    assert wider.tokens_per_pass == plain.tokens_per_pass > alone.tokens_per_pass == 1.0  # trees size themselves
    assert wider.tiers[0].bytes > plain.tiers[0].bytes


def test_what_does_not_fit_or_cannot_be_used_says_why(tmp_path: Path) -> None:
    appraiser = Estimator(loaded=False)
    tight = estimate(appraiser, target="embedded", ram_limit_bytes=MIB)
    assert tight.verdict == "no"
    assert "would be needed" in tight.reason
    assert "No such" not in tight.reason
    missing = estimate(appraiser, target=str(tmp_path / "nothing"))
    assert (missing.verdict, missing.tiers) == ("no", ())
    assert "no model folder" in missing.reason
    cut = tmp_path / "cut"
    shutil.copytree(EMBEDDED_MODELS / "demo-draft", cut)
    (cut / "model.safetensors").write_bytes((EMBEDDED_MODELS / "demo-draft" / "model.safetensors").read_bytes()[:-1])
    refused = estimate(appraiser, draft=str(cut))
    assert (refused.verdict, refused.faulty_draft) == ("no", "cut")
    assert "is cut off" in refused.reason
    assert estimate(appraiser, target=str(cut), draft="none").faulty_draft == ""
    with pytest.raises(DraftError, match=r"The draft 'cut' cannot be used: .*is cut off"):
        open_pair(LoadOptions(draft=str(cut)))
    too_long = estimate(appraiser, context_tokens=10**6)
    assert "reads at most" in too_long.reason


def test_a_loaded_pair_does_not_stand_in_its_own_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.loading.estimate.memory_now", lambda _device: Memory(ram_free=4096 * MIB))
    gc.collect()  # what earlier tests left would be freed in between, or hold a part of the loaded pair
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    appraiser = Estimator(loaded=False)
    engine = loaded(LoadOptions(str(inflate(tmp_path, 400 * MIB)), "none", weights="bfloat16"))
    assert appraiser._memory(CPU).ram_free > (4096 + 100) * MIB, (
        "a part of it: the rest lies where earlier tests freed theirs, as much as they happened to"
    )
    engine.close()


def test_a_checkpoint_that_changes_is_read_again(tmp_path: Path) -> None:
    appraiser = Estimator(loaded=False)
    with_tokenizer(tmp_path, "llama")
    small = estimate(appraiser, target=str(tmp_path), draft="none")
    with_tokenizer(tmp_path, "llama", num_hidden_layers=8)
    assert estimate(appraiser, target=str(tmp_path), draft="none").parameters > small.parameters
