"""Families whose published weights turn pairs of neighbours, where the library's network turns halves of a head."""

from copy import deepcopy

import pytest
import torch

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


def test_the_table_compares_them_with_what_was_published() -> None:
    assert FAMILIES == IN_PAIRS
