"""Indexed attention over trees: the indexer chooses among a node's own path, and its keys move as the others do."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.passes import tree_attention
from engine.model.passes.block_choice import BlockChooser, BlockPlan, BlockScores
from engine.model.passes.pool_choice import PoolPlan
from engine.model.passes.sight import Span
from engine.model.passes.slot_forms import EIGHT_BITS
from engine.model.passes.tree_cache import CompressedTreeLayer, IndexedTreeLayer
from engine.model.shape import INDEXED, model_sizes
from tests.campaigns.extent import choose
from tests.engine.family_models import OWN, SMALL, save_tiny
from tests.engine.family_proof import loaded
from tests.engine.model.state.test_hybrid_context import PROMPT, assert_paths, made, path_to, random_tree
from tests.engine.model.state.trees import ancestor_mask

CHOSEN = SMALL["index_topk"]


def test_more_tokens_are_read_than_an_indexer_may_choose() -> None:
    assert len(PROMPT) > CHOSEN
    assert len(PROMPT) > OWN["qwen4_exp_text"]["indexer_budget"]


# Single tokens are chosen, by layers that share the choice of an earlier one, and of blocks of tokens; beside states.
QUICK = ("glm_moe_dsa", "qwen4_exp_text", "minimax_m3_vl_text", "deepseek_v4")


@pytest.mark.parametrize("family", choose(QUICK, (*QUICK, "deepseek_v32", "axk2", "hy_v4")))
def test_trees_kept_paths_and_rewinds_are_those_of_paths_alone(family: str) -> None:
    context = Context(made(family), 48)
    context.prefill(PROMPT)
    tokens, parents = random_tree(16, seed=1)
    tokens[1] = OWN["qwen4_exp_text"]["eos_token_id"]
    assert_paths(context, context.score(tokens, parents), tokens, parents)
    context.keep(path_to(15, parents)[:2])
    more, above = random_tree(9, seed=2)
    assert_paths(context, context.score(more, above), more, above)
    context.rewind(len(PROMPT) - 3)
    assert_paths(context, context.score(more, above), more, above)


def test_blocks_are_chosen_by_positions_of_a_text_and_not_by_slots() -> None:
    """Behind six tokens that all see stand a chain of two nodes and, in later slots, a branch of three."""
    size, parents = 4, [-1, 0, -1, 2, 3]
    visible = torch.cat([torch.ones(5, 6, dtype=torch.bool), ancestor_mask(parents)], 1)
    plan = BlockPlan.of(visible, size)
    assert (plan.whole, plan.count) == (4, 3)
    assert plan.own.tolist() == [1, 1, 1, 1, 2]
    scores = torch.arange(11.0).expand(1, 5, -1)
    highest = plan.highest(scores)[0]
    assert highest[:, 0].tolist() == [3.0] * 5
    assert highest[:, 1].tolist() == [6.0, 7.0, 8.0, 9.0, 9.0]
    assert highest[4, 2] == 10.0
    assert highest[:4, 2].isneginf().all()
    of_last = torch.tensor([[[False, True, False]]]).expand(1, 5, -1)
    seen = plan.slots_in(of_last)[0]
    assert seen[4].nonzero().flatten().tolist() == [4, 5, 8, 9], "the branch's own first nodes, not the chain's"
    assert seen[1].nonzero().flatten().tolist() == [4, 5, 6, 7]


def test_pools_are_of_neighbours_on_a_path() -> None:
    """The tree of the test above; pools of four: one of the text, and one of it with the first nodes of each branch."""
    parents = [-1, 0, -1, 2, 3]
    visible = torch.cat([torch.ones(5, 6, dtype=torch.bool), ancestor_mask(parents)], 1)
    plan = PoolPlan.of(visible, 4)
    assert plan.pools.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5, 8, 9]]
    assert plan.visible.int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 1]]
    assert [sorted({*row} - {-1}) for row in plan.tails.tolist()] == [[4, 5, 6], [], [4, 5, 8], [], [10]]


def test_pools_of_a_later_pass_over_a_tree_are_those_of_one_pass() -> None:
    """Its rows see of the nodes before them their ancestors alone, and no row tells what others saw."""
    parents = [-1, 0, -1, 2, 3, 1, 4, 5]
    visible = torch.cat([torch.ones(8, 5, dtype=torch.bool), ancestor_mask(parents)], 1)
    whole, later = (PoolPlan.of(rows, 3) for rows in (visible, visible[5:]))
    for row in range(3):
        of_both = [plan.pools[plan.visible[number]].tolist() for plan, number in ((whole, row + 5), (later, row))]
        assert of_both[0] == of_both[1]
        assert set(whole.tails[row + 5].tolist()) == set(later.tails[row].tolist())


def test_trees_over_pooled_keys_are_those_of_paths_alone(tmp_path: Path) -> None:
    save_tiny("glm5_next", tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    assert {layer.index_width for layer in model_sizes(checkpoint).layers} == {0, 2 * SMALL["index_head_dim"]}
    assert len(PROMPT) > SMALL["index_topk"]
    context = Context(loaded(checkpoint), 48)
    for length in (len(PROMPT), len(PROMPT) - 1, len(PROMPT) - 3):
        context.prefill(PROMPT[:length])
        tokens, parents = random_tree(12, seed=1)
        assert_paths(context, context.score(tokens, parents), tokens, parents)
        more, above = random_tree(9, seed=2, pending=12)
        assert_paths(context, context.score(more, above), [*tokens, *more], [*parents, *above])
        context.keep(path_to(20, [*parents, *above]))
        assert_paths(context, context.score(tokens, parents), tokens, parents)


def test_entries_of_committed_tokens_are_made_once_and_forgotten_with_them() -> None:
    context = Context(made("deepseek_v4"), 48)
    context.prefill(PROMPT)
    layers = [layer for layer in context._cache.attention if isinstance(layer, CompressedTreeLayer)]
    sizes = [4 if "compressed_sparse" in kind else 6 for kind in context.network.model.config.layer_types]

    def remembered() -> list[int]:
        return [len(entries) for layer in layers for _, entries in layer.entries.values()]

    context.score([5, 6], [-1, 0])
    assert remembered() == [len(PROMPT) // size for size in sizes]
    context.keep([0, 1])
    before = [entries for layer in layers for _, entries in layer.entries.values()]
    context.score([7], [-1])
    after = [entries for layer in layers for _, entries in layer.entries.values()]
    assert [len(entries) for entries in after] == [(len(PROMPT) + 2) // size for size in sizes]
    assert all(torch.equal(one, other[: len(one)]) for one, other in zip(before, after, strict=True))
    context.rewind(9)
    assert remembered() == [9 // size for size in sizes]


def test_a_text_that_was_set_aside_is_compressed_as_before() -> None:
    network = made("deepseek_v4")
    first, second = Context(network, 48), Context(network, 48)
    first.prefill(PROMPT)
    tokens, parents = random_tree(9, seed=4)
    expected = first.score(tokens, parents)
    second.prefill(list(range(60, 80)))
    second.restore(first.copied_text(), len(PROMPT))
    assert torch.equal(second.score(tokens, parents), expected)


def test_a_checkpoint_as_it_was_published_is_sized_and_opened_as_the_library_saves_it(tmp_path: Path) -> None:
    """MiniMax M3 tells of its layers in lists of zeros and ones, and its language model is called one of M2."""
    reference = save_tiny("minimax_m3_vl", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    text = config["text_config"]
    said = {"sparse_num_index_heads": "index_n_heads", "sparse_index_dim": "index_head_dim"}
    said |= {"sparse_block_size": "index_block_size", "sparse_topk_blocks": "index_topk_blocks"}
    sparse = {name: text.pop(entry) for name, entry in said.items()}
    text["sparse_attention_config"] = {**sparse, "sparse_attention_freq": [0, 1, 0, 1]}
    text["moe_layer_freq"] = [int(kind == "sparse") for kind in text.pop("mlp_layer_types")]
    del text["layer_types"]
    text["model_type"] = "minimax_m2"
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    checkpoint = open_checkpoint(str(tmp_path))
    assert any(name.endswith("index_k_proj.weight") for name in checkpoint.tensors)
    sizes = model_sizes(checkpoint)
    assert [layer.index_width for layer in sizes.layers] == [0, SMALL["index_head_dim"]] * 2
    assert (sizes.block_choosers, sizes.eager) == (2, False)
    context = Context(loaded(checkpoint), 48)
    context.prefill(PROMPT)
    with torch.inference_mode():
        expected = reference(input_ids=torch.tensor([[*PROMPT, 5]])).logits[0, -1]
    torch.testing.assert_close(context.score([5], [-1])[0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shared", [1, 2, 4])
def test_groups_of_heads_attend_to_the_blocks_that_were_chosen_for_them(shared: int) -> None:
    """Also where keys and values are packed, which the attention of trees unpacks for some heads at a time."""
    torch.manual_seed(0)
    query, states = torch.randn(1, 4, 3, 32), torch.randn(1, shared, 20, 32)
    indexer: Any = SimpleNamespace(block_size=4, topk_blocks=2, local_blocks=1)
    chosen = BlockScores(torch.randn(2, 3, 20), indexer, BlockChooser())
    mask = torch.ones(3, 20, dtype=torch.bool).tril_(17)[None, None]
    keys, values = EIGHT_BITS.unpack(EIGHT_BITS.pack(states, states), torch.float32)
    found, _ = tree_attention.tree_attention(torch.nn.Module(), query, keys, values, mask, block_indices=chosen)
    seen = chosen.seen(mask)
    assert seen.sum(-1).max() <= 8
    assert not torch.equal(seen[0], seen[1])
    plain = keys.heads(0, shared).repeat_interleave(4 // shared, 1)  # type: ignore[attr-defined]  # packed
    expected = scaled_dot_product_attention(query, plain, plain, attn_mask=seen.repeat_interleave(2, 0)[None])
    torch.testing.assert_close(found, expected.transpose(1, 2))


def test_more_blocks_beside_a_token_than_there_are_take_no_memory() -> None:
    scores, mask = torch.randn(1, 3, 20), torch.ones(3, 20, dtype=torch.bool).tril_(17)[None, None]
    all_of_them, billions = (
        BlockChooser().seen(SimpleNamespace(block_size=4, topk_blocks=2, local_blocks=count), scores, mask)
        for count in (5, 10**13)
    )
    assert torch.equal(all_of_them, billions)


def test_keys_of_an_indexer_are_appended_kept_and_forgotten_apart_from_others() -> None:
    layer = IndexedTreeLayer(4, Span(INDEXED))
    keys = torch.arange(12.0).view(1, 6, 2)
    layer.indexer_position_ids = torch.arange(6).expand(3, 1, 6)
    assert torch.equal(layer.update_indexer(keys[:, :3]), keys[:, :3])
    assert torch.equal(layer.update_indexer(keys[:, 3:]), keys), "they find room behind the capacity"
    layer.keep(2, torch.tensor([3, 5]))
    kept = keys[:, [0, 1, 3, 5]]
    assert torch.equal(layer.update_indexer(keys[:, :1]), torch.cat([kept, keys[:, :1]], 1))
    assert layer.indexer_position_ids is not None
    assert layer.indexer_position_ids[0, 0].tolist() == [0, 1, 3, 5]
    layer.crop(2)
    assert torch.equal(layer.update_indexer(keys[:, 4:5]), keys[:, [0, 1, 4]])
    assert layer.indexer_position_ids.shape == (3, 1, 2)
    layer.reset()
    assert torch.equal(layer.update_indexer(keys[:, :1]), keys[:, :1])
    assert layer.indexer_position_ids is None


def test_the_plan_knows_keys_and_scores_of_indexers(tmp_path: Path) -> None:
    save_tiny("axk2", tmp_path)
    sizes = model_sizes(open_checkpoint(str(tmp_path)))
    latent = SMALL["kv_lora_rank"] + SMALL["qk_rope_head_dim"]
    assert {layer.kv_width for layer in sizes.layers} == {latent + SMALL["index_head_dim"]}
    assert (sizes.eager, sizes.heads) == (True, SMALL["index_n_heads"])
