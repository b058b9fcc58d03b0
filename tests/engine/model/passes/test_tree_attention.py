"""Attention on grouped keys gives what transformers' own gives; masks are those of all slots, made from little."""

import random
from importlib import import_module

import pytest
import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from engine.model.context import Context
from engine.model.passes import tree_attention, tree_cache
from engine.model.passes.sight import Sight, Span
from engine.model.passes.tree_attention import tree_mask
from engine.model.passes.tree_cache import PendingTree, TreeCache, TreeMasks
from engine.model.shape import CHUNKED, SLIDING
from tests.campaigns.extent import choose
from tests.engine.model.test_context import PREFIX, path_to, random_tree
from tests.engine.tiny_models import FAMILIES, SOME, tiny_network

CPU = torch.device("cpu")
SPANS = (Span(), Span(SLIDING, 7), Span(CHUNKED, 8))


class Grouped(torch.nn.Module):
    num_key_value_groups = 4


def of_transformers(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **others: object) -> Tensor:
    found: Tensor = sdpa_attention_forward(Grouped(), query, key, value, mask, **others)[0]
    return found


def inputs(rows: int, slots: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of 8 heads as networks make them, keys and values of 2 as a cache hands them out; values are narrower."""
    generator = torch.Generator().manual_seed(rows)
    query = torch.randn(1, rows, 8, 16, generator=generator, dtype=dtype).transpose(1, 2)
    key, value = (torch.randn(1, 2, slots + 9, width, generator=generator, dtype=dtype) for width in (16, 12))
    return query, key[:, :, :slots], value[:, :, :slots]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 40])
def test_a_mask_is_obeyed_as_by_transformers(rows: int, dtype: torch.dtype, tolerance: float) -> None:
    tensors = inputs(rows, 50, dtype)
    mask = torch.rand(1, 1, rows, 50, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[..., 3] = True
    additive = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)
    expected = of_transformers(*tensors, mask, scaling=0.3)
    for each in (mask, additive):
        found, _ = tree_attention.tree_attention(Grouped(), *tensors, each, scaling=0.3)
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("rows", "slots"), [(1, 1), (1, 50), (5, 5), (5, 50), (30, 50)])
def test_without_a_mask_every_row_sees_what_stands_before_it(rows: int, slots: int) -> None:
    tensors = inputs(rows, slots, torch.float32)
    causal = torch.arange(slots)[None] <= torch.arange(slots - rows, slots)[:, None]
    found, _ = tree_attention.tree_attention(Grouped(), *tensors, None)
    torch.testing.assert_close(found, of_transformers(*tensors, causal[None, None]), atol=1e-6, rtol=1e-6)


def test_flash_is_asked_for_rows_behind_a_cache_in_torch_s_own_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no such kernel is, torch makes the mask of `causal_lower_right` itself."""
    monkeypatch.setattr(tree_attention, "_flash_takes", lambda *_tensors: True)
    test_without_a_mask_every_row_sees_what_stands_before_it(5, 50)
    test_without_a_mask_every_row_sees_what_stands_before_it(5, 5)


def test_what_else_a_network_asks_for_is_left_to_the_library() -> None:
    tensors = inputs(5, 20, torch.float32)
    bias = torch.randn(1, 8, 5, 20)
    causal = torch.ones(5, 20, dtype=torch.bool).tril(15)[None, None]
    expected = of_transformers(*tensors, causal, position_bias=bias)
    found, _ = tree_attention.tree_attention(Grouped(), *tensors, None, position_bias=bias)
    torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="softcap"):
        tree_attention.tree_attention(Grouped(), *tensors, causal, softcap=30.0)


def test_a_mask_that_transformers_makes_is_left_out_only_where_rows_are_causal() -> None:
    sizes = {"batch_size": 1, "q_length": 3, "kv_length": 8, "q_offset": 5, "kv_offset": 0}
    assert tree_mask(**sizes) is None
    for more in ({"local_size": 4}, {"attention_mask": torch.ones(1, 8, dtype=torch.bool)}, {"kv_length": 9}):
        assert tree_mask(**{**sizes, **more}) is not None
    assert tree_mask(**sizes, allow_is_causal_skip=False) is not None


def dense(span: Span, visible: Tensor, positions: Tensor, base: int) -> Tensor:
    """bool [rows, slots]: every slot asked for itself."""
    slots = torch.cat([torch.arange(base), positions])
    mask = torch.cat([torch.ones(len(visible), base, dtype=torch.bool), visible], 1)
    return mask & span.reaches(positions[-len(visible) :], slots) if span.is_bounded else mask


@pytest.mark.parametrize("attention", ["sdpa", tree_attention.NAME, "eager"])
@pytest.mark.parametrize("as_on_gpu", [False, True])
def test_masks_are_those_of_every_slot(attention: str, as_on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_cache, "is_accelerator", lambda _device: as_on_gpu)
    for seed in range(6):
        chance = random.Random(seed)
        base, nodes = chance.choice([0, 1, 19]), chance.choice([1, 2, 25])
        tokens, parents = random_tree(nodes, seed)
        pending = PendingTree()
        pending.append(tokens, parents)
        rows = chance.randint(1, nodes)
        visible, positions = pending.visible()[nodes - rows :], pending.positions(base)
        masks = TreeMasks(SPANS, attention, torch.float32, CPU)
        cache = TreeCache(SPANS, 64)
        found = masks.build(Sight(base, rows, positions, visible), cache)
        assert isinstance(found, dict)
        for span, layer in zip(SPANS, cache.attention, strict=True):
            expected = dense(span, visible, positions, base)
            assert not expected[:, : layer.start].any()
            expected, mask = expected[:, layer.start :], found[span.kind]
            if mask is None:
                assert torch.equal(expected, torch.ones_like(expected).tril(expected.shape[1] - rows))
                continue
            seen = mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0
            assert torch.equal(seen, expected)
            assert mask.stride(-2) % tree_attention.ALIGNMENT == 0 or not as_on_gpu or attention != tree_attention.NAME


@pytest.mark.parametrize("pending", [1, 6, 12])
def test_one_row_sees_no_farther_than_its_window_whatever_is_pending(pending: int) -> None:
    chain, base = PendingTree(), 2
    chain.append([1] * pending, [-1, *range(pending - 1)])
    visible, positions, cache = chain.visible()[-1:], chain.positions(base), TreeCache(SPANS, 64)
    found = TreeMasks(SPANS, tree_attention.NAME, torch.float32, CPU).build(Sight(base, 1, positions, visible), cache)
    assert isinstance(found, dict)
    for span, layer in zip(SPANS, cache.attention, strict=True):
        expected, mask = dense(span, visible, positions, base), found[span.kind]
        seen = torch.ones(1, base + pending - layer.start, dtype=torch.bool) if mask is None else mask[0, 0]
        assert torch.equal(seen, expected[:, layer.start :])
        assert not expected[:, : layer.start].any()


def test_a_text_needs_no_mask_where_the_attention_sees_it_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    masks, cache = TreeMasks((Span(),), tree_attention.NAME, torch.float32, CPU), TreeCache((Span(),), 64)
    chain = Sight(19, 3, torch.arange(19, 22), torch.ones(3, 3, dtype=torch.bool).tril())
    assert masks.build(Sight.of_text(0, 19), cache) is None
    assert masks.build(Sight.of_text(19, 20), cache) is None
    assert masks.build(chain, cache) is not None, "on a CPU every layer would make one"
    monkeypatch.setattr(tree_cache, "is_accelerator", lambda _device: True)
    assert masks.build(chain, cache) is None
    siblings = Sight(19, 2, torch.tensor([19, 19]), torch.eye(2, dtype=torch.bool))
    assert masks.build(siblings, cache) is not None


def test_only_what_is_pending_goes_to_the_device() -> None:
    visible = torch.ones(4, 6, dtype=torch.bool)
    there = Sight(100_000, 4, torch.arange(6), visible).on(torch.device("meta"))
    assert sum(each.nbytes for each in (there.positions, there.visible) if each is not None) == 6 * 8 + 4 * 6
    assert there.mask(0).shape == (4, 100_006)
    assert there.mask(0).device.type == "meta"


@pytest.mark.parametrize("family", choose((*SOME, "qwen3_5", "mistral_sliding"), tuple(FAMILIES)))
def test_passes_are_as_on_a_cpu_with_the_masks_of_a_gpu(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny_network(family)
    here, there = Context(network, 96), Context(network, 96)
    for context in (here, there):
        context.prefill_rows = 8  # so that most rows stand behind a cache
    tokens, parents = random_tree(20, seed=2)
    path = path_to(15, parents)

    def passes(context: Context) -> list[Tensor]:
        context.prefill(PREFIX)
        logits = [context.score(tokens, parents)]
        context.keep(path)
        logits += [context.score([7, 8, 9], [-1, 0, 1]), context.score([3], [0])]
        return logits

    expected = passes(here)
    monkeypatch.setattr(tree_cache, "is_accelerator", lambda _device: True)
    for found, each in zip(passes(there), expected, strict=True):
        torch.testing.assert_close(found, each, atol=1e-4, rtol=1e-4)


def test_networks_that_ask_for_names_of_attention_keep_the_library_s() -> None:
    for name, expected in (("deepseek_v32", True), ("falcon", True), ("llama", False), ("qwen3_moe", False)):
        module = import_module(f"transformers.models.{name}.modeling_{name}")
        assert tree_attention._names_attention(module.__name__) == expected
    assert tiny_network("llama").attention == tree_attention.NAME
    assert tiny_network("gpt_oss").attention == "eager"
