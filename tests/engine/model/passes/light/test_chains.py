"""Layers in one go have the bits of layers one by one, are told of as such, and leave nothing behind when they fail."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.model.context import Context
from engine.model.network import Network
from engine.model.passes.layer_hooks import KnownHook, SettledHook
from engine.model.passes.light import chains
from engine.model.products.compiling import has_compiler
from engine.model.products.programs import Steps
from engine.weights.codecs.codec import codec_named
from engine.weights.streaming.stored_weight import StoredWeight
from tests.engine.model.passes.light.test_light import in_bfloats, light_layer, logits, narrow, ours

pytestmark = pytest.mark.skipif(not has_compiler(), reason="numba does not run here")

LAYERS = 4
DENSE = ["llama", "mistral_sliding", "qwen2", "qwen3"]
TEXT = [3, 4, 5]


@pytest.fixture
def goes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many layers were computed in each go, filled by what follows."""
    found: list[int] = []
    own = Steps.run_all

    def run_all(programs: Sequence[Steps]) -> None:
        found.append(len(programs))
        own(programs)

    monkeypatch.setattr(Steps, "run_all", run_all)
    return found


def behind(network: Network) -> Context:
    """A context that has read a text."""
    context = Context(network, 64)
    context.prefill(TEXT)
    return context


def row(context: Context) -> Tensor:
    """Logits of one more token, which is forgotten again."""
    found = context.score([7], [-1])
    context.rewind(context.length)
    return found


@pytest.mark.parametrize("model", [narrow, in_bfloats])
@pytest.mark.parametrize("family", DENSE)
def test_bits_are_those_of_layers_one_by_one(
    family: str, model: Callable[[str], Any], goes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = ours(model(family))
    found = logits(network)
    assert set(goes) == {LAYERS}
    times = len(goes)
    monkeypatch.setattr(chains, "MOST_PRODUCTS", 0)
    one_by_one = logits(ours(model(family)))
    assert len(goes) == times
    assert all(torch.equal(one, other) for one, other in zip(found, one_by_one, strict=True))


def test_no_more_is_computed_in_one_go_than_may_be(goes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    network = ours(narrow("llama"))
    context = behind(network)
    expected, numbers = row(context), light_layer(network).numbers
    for layers, gone in ((4, [4]), (3, [3]), (2, [2, 2]), (1, [])):
        monkeypatch.setattr(chains, "MOST_PRODUCTS", layers * numbers)
        goes.clear()
        assert torch.equal(row(behind(ours(narrow("llama")))), expected)
        assert goes == gone, layers


def test_a_layer_with_a_hook_that_nobody_knows_is_computed_by_itself(goes: list[int]) -> None:
    network = ours(narrow("llama"))
    context, seen = behind(network), list[Tensor]()
    expected = row(context)
    goes.clear()
    hook = network.layers[2].register_forward_hook(lambda _layer, _inputs, found: seen.append(found))
    assert torch.equal(row(context), expected)
    assert goes == [2]
    assert len(seen) == 1
    hook.remove()
    row(context)
    assert goes == [2, 2, 2], "and with others again, once it is gone"
    assert len(seen) == 1


def test_known_hooks_are_called_when_they_say(goes: list[int]) -> None:
    network = ours(narrow("llama"))
    context, calls, settled = behind(network), list[str](), list[bool]()
    for layer in network.layers:
        layer.register_forward_pre_hook(KnownHook(lambda _: calls.append("once"), "once"))
        layer.register_forward_pre_hook(KnownHook(lambda _: calls.append("each"), "each"))
        layer.register_forward_pre_hook(SettledHook(lambda: calls.append("unsettled"), lambda: bool(settled)))
    goes.clear()
    row(context)
    assert goes == []
    assert calls == ["once", "each", "unsettled"] * LAYERS
    calls.clear()
    settled.append(True)
    row(context)
    assert goes == [LAYERS]
    assert calls == ["once", *["each"] * LAYERS]


def test_what_is_raised_before_a_go_leaves_everything_as_it_was() -> None:
    network = ours(narrow("llama"))
    context, is_cancelled = behind(network), list[bool]()
    expected = row(context)

    def check(_inputs: Any) -> None:
        if is_cancelled:
            raise InterruptedError

    network.layers[0].register_forward_pre_hook(KnownHook(check, "once"))
    is_cancelled.append(True)
    with pytest.raises(InterruptedError):
        context.score([7], [-1])
    is_cancelled.clear()
    assert torch.equal(row(context), expected)


def test_what_interrupts_a_go_leaves_no_keys_that_were_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    context = behind(ours(narrow("llama")))
    expected, own = row(context), Steps.run_all

    def interrupted(programs: Sequence[Steps]) -> None:
        own(programs[:2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Steps, "run_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            context.score([7], [-1])
    assert [layer.length for layer in context._cache.attention] == [len(TEXT)] * LAYERS
    assert torch.equal(row(context), expected)


def test_a_weight_that_is_replaced_is_used(goes: list[int]) -> None:
    network = ours(in_bfloats("llama"))
    context = behind(network)
    before = row(context)
    module: Any = network.layers[1].mlp.down_proj  # type: ignore[union-attr]
    old = module._parameters["weight"]
    numbers = torch.zeros(old.shape, dtype=torch.bfloat16)
    other = StoredWeight("down", codec_named("plain"), torch.empty_like(numbers), 64)
    other.point({"down": numbers})
    module._parameters["weight"] = other
    changed = row(context)
    module._parameters["weight"] = old
    assert not torch.equal(changed, before)
    assert torch.equal(row(context), before)
    assert goes
    assert set(goes) == {LAYERS}


def test_another_number_of_threads_is_another_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    context, shared_out, own = behind(ours(narrow("llama"))), list[int](), Steps.run_all

    def run_all(programs: Sequence[Steps]) -> None:
        shared_out.append(programs[0].threads)
        own(programs)

    monkeypatch.setattr(Steps, "run_all", run_all)
    expected = row(context)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert torch.equal(row(context), expected)
    finally:
        torch.set_num_threads(threads)
    assert shared_out == [threads, threads + 1]


def test_chains_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "KEPT", 2)
    found: list[chains.Chains] = []
    own = chains.Chains.__init__

    def begun(self: chains.Chains) -> None:
        own(self)
        found.append(self)

    monkeypatch.setattr(chains.Chains, "__init__", begun)
    context = behind(ours(narrow("llama")))
    for rows in range(1, 6):
        context.score([5] * rows, [-1] * rows)
        context.rewind(len(TEXT))
    (kept,) = found
    assert len(kept._kept) == 2
