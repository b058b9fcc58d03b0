"""The adversary finds what it is there for, and rounds over a target that it streams write the resident one's text."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.model.context import Context
from engine.protocol.options import SamplingOptions
from engine.speculation.interfaces import Fixed, Method
from engine.speculation.methods.rng import Rng
from engine.speculation.methods.sampled_trees import Drafting
from engine.speculation.methods.sequoia import Sequoia
from engine.speculation.methods.specexec import SpecExec
from engine.speculation.methods.specinfer import Chain
from engine.speculation.methods.verification import Sampler, Uniforms
from engine.speculation.rounds import Answer, Speculation, Stopwatch, rounds
from engine.weights.streaming.layer_source import DeviceRing
from engine.weights.streaming.layer_stream import LayerStream
from tests.campaigns.extent import choose
from tests.engine.resident import load_resident
from tests.engine.speculation.pairs import GREEDY, PUBLISHED, Silent, noisy_copy, random_prompt
from tests.engine.weights.slot_watch import OutOfTimeError
from tests.engine.weights.stand_in import StandInCopyStream
from tests.engine.weights.test_layer_stream import CPU, Llama, lasting_llama, llama, passes

__all__ = ["lasting_llama", "llama"]

WATCH_OPERATIONS = True  # of all layers

NEW_TOKENS = 12
PROMPT = random_prompt(19, seed=3)
SAMPLED = SamplingOptions(temperature=0.9, top_p=0.95, seed=8)


def assert_caught(llama: Llama, message: str) -> None:
    """A pass over layers that move ends with `message` and two stacks."""
    stream = llama.stream(llama.layouts, ["ram", "ssd", "ram", "ssd", "ram"], StandInCopyStream())
    try:
        with pytest.raises(OutOfTimeError, match=message) as caught:
            passes(llama.context)
        told = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
        assert any("layer_s" in line for line in told), "where the stream was is not told"
        assert len(str(caught.value).split("\nand ")) == 2
    finally:
        stream.close()


def test_a_copy_that_does_not_wait_for_the_computation_is_caught(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandInCopyStream, "record_event", lambda _copies: None)
    assert_caught(llama, "overtakes the computation")


def test_a_mark_that_is_set_too_early_is_caught(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the layer runs, not behind it."""
    early: dict[int, Any] = {}
    acquire = DeviceRing.acquire

    def acquire_and_mark(ring: DeviceRing, layer: int, *rest: Any) -> Tensor:
        slot = acquire(ring, layer, *rest)
        early[ring._taken[layer]] = ring._copy_stream.record_event()
        return slot

    def put_early_mark(ring: DeviceRing, layer: int) -> None:
        slot = ring._taken.pop(layer)
        ring._events[slot] = early[slot]
        ring.prefetch.release(layer)

    monkeypatch.setattr(DeviceRing, "acquire", acquire_and_mark)
    monkeypatch.setattr(DeviceRing, "release", put_early_mark)
    assert_caught(llama, "overtakes the computation")


def test_a_slot_that_is_read_when_it_was_given_back_is_caught(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    acquire = DeviceRing.acquire

    def acquire_and_release(ring: DeviceRing, layer: int, *rest: Any) -> Tensor:
        slot = acquire(ring, layer, *rest)
        ring.release(layer)
        return slot

    monkeypatch.setattr(DeviceRing, "acquire", acquire_and_release)
    assert_caught(llama, "uses a slot that was released")


def test_weights_that_are_not_there_yet_are_no_numbers(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that says it has arrived before it has: what is computed with it is NaN and not nearly right."""
    monkeypatch.setattr(StandInCopyStream, "finish", lambda _copies, _number: None)
    stream = llama.stream(llama.layouts, ["ram"] * 5, StandInCopyStream())
    assert all(bool(logits.isnan().all()) for logits in passes(llama.context))
    stream.close()


# ---- rounds ---------------------------------------------------------------------------------------------------------

METHODS = {"specexec": None, "sequoia": Sequoia, "chain": Chain}


def text_of(name: str, target: Context, sampling: SamplingOptions, stream: LayerStream | None) -> list[int]:
    """An answer of `target` by a method, which drafts on while layers are awaited."""
    vocabulary = target.network.vocabulary
    draft = Context(noisy_copy("llama", noise=0.05, num_hidden_layers=5), 128)
    sampler = Sampler(sampling, PROMPT, Uniforms(sampling.seed))
    make = METHODS[name]
    method: Method = SpecExec(draft, sampler, PUBLISHED, vocabulary)
    if make:
        method = make(Drafting(draft, sampler, sampling, PROMPT, vocabulary, Rng(sampling.seed, CPU)))
    answer = Answer(Silent(), frozenset(), NEW_TOKENS)
    parts = Speculation(target, Fixed(method, 12), answer, Stopwatch())
    target.prefill(PROMPT[:-1])
    method.prefill(PROMPT[:-1])
    if stream:
        stream.on_wait = parts.keep_drafting
    accepted = [len(result.path.nodes) for result in rounds(parts, PROMPT)]
    assert len(accepted) < NEW_TOKENS, "nothing was ever accepted"
    return answer.tokens


@pytest.mark.parametrize(
    ("name", "sampling"),
    choose([("specexec", GREEDY), ("sequoia", SAMPLED)], list(product(METHODS, (GREEDY, SAMPLED)))),
)
def test_rounds_over_layers_that_arrive_late_write_the_same_text(
    name: str, sampling: SamplingOptions, llama: Llama
) -> None:
    resident = Context(load_resident(llama.checkpoint, torch.float32, CPU), 96)
    expected = text_of(name, resident, sampling, None)
    stream = llama.stream(llama.layouts, ["ssd", "ram", "ssd", "device", "ssd"], StandInCopyStream(1), device_slots=1)
    assert text_of(name, llama.context, sampling, stream) == expected
    stream.close()
