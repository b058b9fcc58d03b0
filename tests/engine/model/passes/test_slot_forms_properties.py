"""Whatever is done to a text in 8 bits, it is read as if its keys and values had been rounded, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.loading.kept.text_parts import SavedText, save, saved_text
from engine.model.context import Context
from engine.model.network import Network
from engine.model.passes import tree_attention
from engine.model.passes.slot_forms import AS_COMPUTED, EIGHT_BITS, AsComputed, packed, unpacked
from engine.model.passes.tree_cache import FixedSlots, TreeLayer
from engine.model.shape import key_group
from tests.campaigns.extent import choose
from tests.engine.model.test_context import path_to, random_tree
from tests.engine.tiny_models import WINDOW, tiny_network

A_CODE = 0.05  # of logits of a few units, where rounding moved a number over the edge between two codes
FAMILIES = ("llama", "gemma3", "mistral_sliding", "gpt_oss", "qwen3_5")
"""Full attention, layers with a window and without, windows alone, eager attention with sinks, and states."""


class Rounded(AsComputed):
    """Keys and values as they come out of codes, kept as numbers: the plain way to read what 8 bits hold."""

    def pack(self, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """See `SlotForm.pack`."""
        groups = key_group(keys.shape[-1]), values.shape[-1]
        return tuple(unpacked(*packed(s, g), s.dtype) for s, g in zip((keys, values), groups, strict=True))


@dataclass(frozen=True)
class Step:
    """Something that is done to a text; `size` and `seed` say how much and what of it."""

    name: str
    size: int
    seed: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["read", "edit", "round", "pieces", "rewind", "copy", "file"]),
        st.integers(1, 3 * WINDOW),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=7,
)


@lru_cache(maxsize=1)
def network_of(family: str) -> Network:
    return tiny_network(family)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=choose(8, 60), deadline=None)
@given(steps=STEPS, capacity=st.sampled_from([8, 24, 200]))
def test_a_text_in_8_bits_is_one_of_rounded_numbers(family: str, steps: list[Step], capacity: int) -> None:
    network = network_of(family)
    context, plain = Context(network, capacity, form=EIGHT_BITS), Context(network, capacity, form=Rounded())
    for step in steps:
        context, found = done(context, step)
        plain, expected = done(plain, step)
        assert context.tokens == plain.tokens
        if found is not None and expected is not None:
            assert float((found - expected).abs().max()) < A_CODE, step
    tokens, parents = random_tree(11, seed=9)
    fresh = Context(network, 256, form=EIGHT_BITS)
    fresh.prefill(context.tokens)
    assert float((fresh.score(tokens, parents) - context.score(tokens, parents)).abs().max()) < A_CODE


def done(context: Context, step: Step) -> tuple[Context, Tensor | None]:
    """The context that goes on, and logits where there are some."""
    tokens, parents = random_tree(step.size, step.seed)
    match step.name:
        case "read":
            context.prefill([*context.tokens, *tokens])
        case "edit":
            context.prefill([*context.tokens[: -step.size], *tokens])
        case "rewind":
            context.rewind(max(0, context.length - step.size))
        case "round" | "pieces":
            cut = step.size if step.name == "round" else max(1, step.size // 2)
            found = [context.score(tokens[:cut], parents[:cut])]
            if cut < step.size:
                found.append(context.score(tokens[cut:], parents[cut:]))
            path = path_to(step.seed % step.size, parents)
            context.keep(path)
            return context, torch.cat(found)
        case "copy":
            other = Context(context.network, 16, form=context.form)
            other.restore(context.copied_text(), context.common_with(context.copied_text(), context.tokens))
            return other, None
        case "file":
            return through_a_file(context, step.size), None
    return context, None


def through_a_file(context: Context, length: int) -> Context:
    """Another context that found the beginning of the text in a file."""
    if not context.length:
        return context
    other = Context(context.network, 16, form=context.form)
    with TemporaryDirectory() as folder:
        saved = saved_text([save(Path(folder, "text"), context.text_in_place(), None, {}, lambda: None)])
        assert isinstance(saved, SavedText)
        length = other.common_with(saved.outline, context.tokens[:length])
        if length:
            with saved.opened(length) as kept:
                other.restore(kept, length)
    return other


@settings(max_examples=choose(30, 300), deadline=None)
@given(
    seed=st.integers(0, 1000),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    width=st.sampled_from([16, 32, 80, 128]),
    magnitude=st.sampled_from([1e-3, 1.0, 300.0]),
)
def test_no_number_is_off_by_more_than_is_told(seed: int, dtype: torch.dtype, width: int, magnitude: float) -> None:
    states = (torch.randn(1, 2, 40, width, generator=torch.Generator().manual_seed(seed)) * magnitude).to(dtype)
    for group in {key_group(width), width}:
        codes, scales = packed(states, group)
        grouped = states.float().view(-1, group)
        largest = grouped.abs().amax(-1, keepdim=True)
        for of, told in ((torch.float32, 1 / 253), (dtype, 1 / 253 if dtype == torch.float32 else 1 / 127)):
            off = (unpacked(codes, scales, of).float().view(-1, group) - grouped).abs()
            assert bool((off <= 1.0001 * told * largest).all())


@settings(max_examples=choose(20, 200), deadline=None)
@given(
    heads=st.integers(1, 5),
    slots=st.integers(1, 40),
    rows=st.integers(1, 12),
    at_once=st.integers(1, 1 << 12),
    seed=st.integers(0, 99),
)
def test_any_number_of_heads_at_once_gives_the_same(heads: int, slots: int, rows: int, at_once: int, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    key, value = torch.randn(1, heads, slots, 32, generator=chance), torch.randn(1, heads, slots, 16, generator=chance)
    query = torch.randn(1, 2 * heads, rows, 32, generator=chance)
    mask = torch.rand(1, 1, rows, slots, generator=chance) < 0.7
    mask[..., 0] = True
    module = torch.nn.Module()
    keys, values = EIGHT_BITS.unpack(EIGHT_BITS.pack(key, value), torch.float32)
    rounded = Rounded().pack(key, value)
    expected, _ = tree_attention.tree_attention(module, query, rounded[0], rounded[1], mask)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_attention, "UNPACKED", at_once)
        patch.setattr(tree_attention, "threads_allowed", lambda: 1)
        found, _ = tree_attention.tree_attention(module, query, keys, values, mask)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@settings(max_examples=choose(20, 100), deadline=None)
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_slots_that_a_recorded_pass_writes_hold_the_same_codes(lengths: Sequence[int], seed: int) -> None:
    span, whole = network_of("llama").spans[0], sum(lengths)
    chance = torch.Generator().manual_seed(seed)
    states = torch.randn(2, 1, 2, whole, 32, generator=chance)
    grown, fixed = TreeLayer(4, span, EIGHT_BITS), TreeLayer(whole, span, EIGHT_BITS)
    order = torch.randperm(whole, generator=chance)
    fixed.fixed = FixedSlots(order, whole)
    fixed.update(states[0][:, :, order], states[1][:, :, order])
    begin = 0
    for length in lengths:
        end = begin + length
        grown.update(states[0][:, :, begin:end], states[1][:, :, begin:end])
        begin = end
    for one, other in zip(grown.stored, fixed.stored, strict=True):
        assert torch.equal(one[:, :, :whole], other[:, :, :whole])


@pytest.mark.parametrize(("written", "read"), [(AS_COMPUTED, EIGHT_BITS), (EIGHT_BITS, AS_COMPUTED)])
def test_a_text_of_another_form_is_refused_not_misread(written: object, read: object) -> None:
    context, other = (Context(network_of("llama"), 64, form=form) for form in (written, read))  # type: ignore[arg-type]
    context.prefill(range(20, 39))
    for again in range(2):
        with pytest.raises(ValueError, match="kept in another form"):
            other.restore(context.copied_text(), 10)
        assert other.length == 0
        other.prefill(range(20, 25 + again))
