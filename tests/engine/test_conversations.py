"""Some cases of the campaign of random conversations, and that it finds what is wrong."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.campaigns import conversations
from tests.campaigns.conversations import ROUNDING, Said, _compare, run_case
from tests.campaigns.extent import choose
from tests.campaigns.random_pairs import RandomPair, random_pair

CASES = choose(((10, "llama", "quiet"),), ((10, "llama", "quiet"), (3, "llama", "plain"), (5, "qwen3_5_text", "plain")))


@pytest.mark.parametrize(("seed", "family", "variant"), CASES)
def test_a_random_conversation_is_as_transformers_would_have_it(seed: int, family: str, variant: str) -> None:
    asked, wrong = run_case(seed, [family], variant)
    assert not wrong, "\n".join(asked)
    assert len(asked) > 3, "nothing was asked, so nothing was tested"


def test_a_target_that_computes_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_pair(numbers: random.Random, folder: Path, families: list[str], variant: str = "") -> RandomPair:
        pair = random_pair(numbers, folder, families, variant)
        with torch.no_grad():
            pair.reference.lm_head.weight[100:] *= 1.1
        return replace(pair, draft="none")

    monkeypatch.setattr(conversations, "random_pair", wrong_pair)
    _, wrong = run_case(1, ["llama"], "plain")
    assert "off by" in wrong
    assert "transformers" in wrong


def test_a_text_that_parts_is_allowed_only_where_two_tokens_are_equally_likely() -> None:
    expected = Said([5, 6, 7], [-1.0, -1.5, -0.5])
    _compare(Said([5, 6], [-1.0, -1.5]), expected, ROUNDING)  # it was stopped
    _compare(Said([5, 9, 8], [-1.0, -1.5001, -3.0]), expected, ROUNDING)
    with pytest.raises(AssertionError, match="another one from token 1"):
        _compare(Said([5, 9, 8], [-1.0, -1.6, -3.0]), expected, ROUNDING)
    with pytest.raises(AssertionError, match="are off by"):
        _compare(Said([5, 6, 7], [-1.1, -1.5, -0.5]), expected, ROUNDING)
