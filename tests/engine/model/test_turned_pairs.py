"""Families whose published weights turn pairs of neighbours, where the library's network turns halves of a head."""

from copy import deepcopy
from unittest.mock import patch

import pytest
import torch
from transformers.models.minimax import modeling_minimax
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import apply_rotary_pos_emb

from engine.model.context import Context
from engine.model.families.turned_pairs import FAMILIES
from engine.model.network import wrap
from tests.engine.family_models import IN_PAIRS, random_model, tiny_config, turn_pairs
from tests.engine.speculation.pairs import random_prompt

TEXT = random_prompt(20, seed=3)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_pairs_are_turned_as_by_a_network_whose_weights_were_put_in_order(family: str) -> None:
    model = random_model(tiny_config(family))
    published = deepcopy(model)
    turn_pairs(published)
    with torch.inference_mode():
        expected = published(torch.tensor([TEXT])).logits[0]
        halves = model(torch.tensor([TEXT])).logits[0]
    context = Context(wrap(model, "eager", family), 32)
    found = context.score(TEXT, list(range(-1, len(TEXT) - 1)))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(halves, expected, atol=0.1), "the order shows"


def test_a_part_of_a_head_turns_where_the_library_would_turn_all_of_it() -> None:
    """Against the library's function for such heads, which other networks of it have."""
    config = tiny_config("minimax")
    model = random_model(config)
    published = deepcopy(model)
    published.model.rotary_emb.inv_freq = config.rope_parameters["rope_theta"] ** (-torch.arange(0, 6, 2) / 6)
    with torch.inference_mode(), patch.object(modeling_minimax, "apply_rotary_pos_emb", apply_rotary_pos_emb):
        expected = published(torch.tensor([TEXT])).logits[0]
    with torch.inference_mode():
        all_turned = model(torch.tensor([TEXT])).logits[0]
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.rotary_dim = 6
    context = Context(wrap(model, "eager", "minimax"), 32)
    found = context.score(TEXT, list(range(-1, len(TEXT) - 1)))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(all_turned, expected, atol=0.1), "what does not turn shows"


def test_the_table_compares_them_with_what_was_published() -> None:
    assert FAMILIES == IN_PAIRS
