"""Keys and values in 8 bits: what a token leaves depends on it alone, and whatever moves slots moves its codes."""

import pytest
import torch
from torch import Tensor

from engine.model.context import Context
from engine.model.passes import tree_attention, tree_cache
from engine.model.passes.slot_forms import EIGHT_BITS, SCALE_TYPE, PackedStates, packed, unpacked
from engine.model.shape import KEY_GROUP, key_group
from tests.engine.model.test_context import PREFIX, path_to, random_tree
from tests.engine.tiny_models import SOME, tiny_network

CLOSE = 1e-4  # float32 logits of a few units
A_CODE = 0.05  # the same where rounding of other passes moved a number over the edge between two codes


def random_states(width: int = 64, slots: int = 20, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(width)
    states = torch.randn(1, 2, slots, width, generator=generator)
    states[..., 3] *= 100  # a channel that is large in all tokens, as keys have them
    return states.to(dtype)


@pytest.mark.parametrize("group", [KEY_GROUP, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_number_is_off_by_more_than_half_a_scale(group: int, dtype: torch.dtype) -> None:
    states = random_states(dtype=dtype)
    codes, scales = packed(states, group)
    assert (codes.dtype, scales.dtype, scales.shape[-1]) == (torch.int8, SCALE_TYPE, 64 // group)
    grouped = (*states.shape[:-1], 64 // group, group)
    off = (unpacked(codes, scales, torch.float32) - states.float()).abs().view(grouped)
    assert bool((off <= 0.5001 * scales.float()[..., None]).all())
    largest = states.float().abs().view(grouped).amax(-1)
    torch.testing.assert_close(scales.float() * 127, largest, rtol=1 / 128, atol=0)


def test_zeros_stay_zeros_what_is_no_number_stays_none_and_odd_widths_share_one_scale() -> None:
    states = torch.zeros(1, 1, 3, 32)
    states[0, 0, 1, 5], states[0, 0, 2, 5] = torch.nan, torch.inf
    found = unpacked(*packed(states, 32), torch.float32)
    assert bool((found[0, 0, 0] == 0).all())
    assert bool(found[0, 0, 1:, 5].isnan().all())
    assert (key_group(64), key_group(80), key_group(576)) == (32, 80, 32)
    assert unpacked(*packed(states[..., :0], 1), torch.float32).shape == (1, 1, 3, 0)


def test_codes_of_a_token_do_not_depend_on_others() -> None:
    states = random_states()
    together = EIGHT_BITS.pack(states, states)
    for token in (0, 7, 19):
        alone = EIGHT_BITS.pack(*2 * (states[:, :, token : token + 1],))
        assert all(torch.equal(a[:, :, 0], b[:, :, token]) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_attention_unpacks_some_heads_at_a_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    key, value = random_states(32), random_states(16)
    query = torch.randn(1, 8, rows, 32, generator=torch.Generator().manual_seed(1))
    mask = torch.rand(1, 1, rows, 20, generator=torch.Generator().manual_seed(0)) < 0.5
    mask[..., 3] = True
    keys, values = EIGHT_BITS.unpack(EIGHT_BITS.pack(key, value), torch.float32)
    whole, module = (rounded(key, 32), rounded(value, 16)), torch.nn.Module()
    expected, _ = tree_attention.tree_attention(module, query, whole[0], whole[1], mask)
    monkeypatch.setattr(tree_attention, "UNPACKED", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    taken: list[int] = []
    heads = PackedStates.heads

    def counted(states: PackedStates, begin: int, end: int) -> Tensor:
        taken.append(end - begin)
        return heads(states, begin, end)

    monkeypatch.setattr(PackedStates, "heads", counted)
    found, _ = tree_attention.tree_attention(module, query, keys, values, mask)
    torch.testing.assert_close(found, expected)
    assert taken == [1] * 4, "keys and values of one head after the other"


def rounded(states: Tensor, group: int) -> Tensor:
    return unpacked(*packed(states, group), states.dtype)


@pytest.mark.parametrize("family", [*SOME, "mistral_sliding", "qwen3_5"])
def test_a_tree_is_read_as_one_token_at_a_time_and_as_with_numbers_that_were_rounded(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = tiny_network(family)
    tokens, parents = random_tree(16, seed=1)
    context, alone = (Context(network, 64, form=EIGHT_BITS) for _ in range(2))
    context.prefill(PREFIX)
    found = context.score(tokens, parents)
    path = path_to(15, parents)
    for token in PREFIX:
        alone.score([token], [-1])
        alone.keep([0])
    for node in path:
        assert float((alone.score([tokens[node]], [-1])[0] - found[node]).abs().max()) < A_CODE
        alone.keep([0])
    update = tree_cache.TreeLayer.update
    monkeypatch.setattr(
        tree_cache.TreeLayer,
        "update",
        lambda self, keys, values, *rest: update(
            self, rounded(keys, key_group(keys.shape[-1])), rounded(values, values.shape[-1]), *rest
        ),
    )
    plain = Context(network, 64)
    plain.prefill(PREFIX)
    assert float((plain.score(tokens, parents) - found).abs().max()) < CLOSE


def test_greedy_text_with_trees_is_that_of_one_token_at_a_time() -> None:
    network = tiny_network("llama")
    context, alone = (Context(network, 128, form=EIGHT_BITS) for _ in range(2))
    for each in (context, alone):
        each.prefill(PREFIX)
    token = 7
    for seed in range(6):
        tokens, parents = random_tree(12, seed)
        tokens[0] = token
        parents = [-1, *(max(0, parent) for parent in parents[1:])]
        logits = context.score(tokens, parents)
        node, path = 0, [0]
        while below := [each for each, parent in enumerate(parents) if parent == node]:
            node = next((each for each in below if tokens[each] == int(logits[node].argmax())), below[0])
            if tokens[node] != int(logits[parents[node]].argmax()):
                break
            path.append(node)
        context.keep(path)
        for kept in path:
            expected = alone.score([tokens[kept]], [-1])[0]
            alone.keep([0])
            assert int(expected.argmax()) == int(logits[kept].argmax())
        token = int(logits[path[-1]].argmax())
    for one, other in zip(context._cache.attention, alone._cache.attention, strict=True):
        for name in ("keys", "values"):
            a, b = (layer.slots(context.length)[name] for layer in (one, other))
            assert int((a.int() - b.int()).abs().max()) <= 1, "codes moved with their slots"


def test_an_edit_a_copy_and_a_cache_that_grows_keep_the_codes() -> None:
    network = tiny_network("llama")
    context, other = Context(network, 24, form=EIGHT_BITS), Context(network, 64, form=EIGHT_BITS)
    context.prefill([*PREFIX, 50, 51, 52])
    kept = context.copied_text()
    assert {name: part.dtype for name, part in kept.slots[0].items()} == {  # type: ignore[index]  # a tuple here
        "keys": torch.int8, "key_scales": SCALE_TYPE, "values": torch.int8, "value_scales": SCALE_TYPE,
    }  # fmt: skip
    other.restore(kept, 20)
    context.prefill([*PREFIX, 50, 60])
    other.prefill([*PREFIX, 50, 60])
    tokens, parents = random_tree(20, seed=3)  # more than there was room for
    torch.testing.assert_close(context.score(tokens, parents), other.score(tokens, parents))


def test_whatever_a_network_does_with_packed_states_finds_their_numbers() -> None:
    states = random_states()
    keys, _ = EIGHT_BITS.unpack(EIGHT_BITS.pack(states, states), torch.float32)
    expected = rounded(states, KEY_GROUP)
    assert (keys.shape, keys.dtype) == (states.shape, torch.float32)
    torch.testing.assert_close(keys[:, :, 2:5] + 0, expected[:, :, 2:5])
    torch.testing.assert_close(torch.cat([keys, keys], 2), torch.cat([expected, expected], 2))
