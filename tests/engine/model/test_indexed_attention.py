"""Indexed attention over trees: the indexer chooses among a node's own path, and its keys move as the others do."""

from pathlib import Path

import pytest
import torch

from engine.model.checkpoint import open_checkpoint
from engine.model.context import Context
from engine.model.passes.sight import Span
from engine.model.passes.tree_cache import IndexedTreeLayer
from engine.model.shape import INDEXED, model_sizes
from tests.campaigns.extent import choose
from tests.engine.family_models import OWN, SMALL, save_tiny
from tests.engine.model.state.test_hybrid_context import PROMPT, assert_paths, made, path_to, random_tree

CHOSEN = SMALL["index_topk"]


def test_more_tokens_are_read_than_an_indexer_may_choose() -> None:
    assert len(PROMPT) > CHOSEN
    assert len(PROMPT) > OWN["qwen4_exp_text"]["indexer_budget"]


# Single tokens are chosen, by layers that share the choice of an earlier one, and of blocks of tokens; beside states.
@pytest.mark.parametrize("family", choose(("glm_moe_dsa", "qwen4_exp_text"), ("deepseek_v32", "axk2", "hy_v4")))
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
