"""What the ways of a real pair rest on: published figures, what it showed, and what is known of its experts."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.loading.answered import Answered
from engine.loading.estimate import Estimator
from engine.loading.measurements.rates_file import LastAnswer, RatesFile
from engine.loading.pair import open_pair
from engine.loading.planning import Question, expected_tokens_per_pass, needs_of, plan_pair, tree_yields
from engine.loading.ways import small_trees, ways_for
from engine.model.checkpoint import open_checkpoint
from engine.model.shape import model_sizes
from engine.protocol.messages import Appraise
from engine.protocol.options import LoadOptions
from engine.weights.planning.ways import TreeYield
from tests.engine.tiny_models import tiny_model

CPU = torch.device("cpu")


def test_trees_give_what_is_published_or_scaled_or_what_the_pair_showed() -> None:
    published = tree_yields(Question())
    assert all(each.tokens_per_pass <= each.nodes + 1 for each in published), "no more tokens than rows"
    assert [each.tokens_per_pass for each in published] == sorted(each.tokens_per_pass for each in published)
    assert {each.nodes: each.tokens_per_pass for each in published}[64] == expected_tokens_per_pass(64)
    halved = tree_yields(Question(tokens_per_pass=1 + (expected_tokens_per_pass(64) - 1) / 2))
    for whole, half in zip(published, halved, strict=True):
        assert half.tokens_per_pass - 1 == pytest.approx((whole.tokens_per_pass - 1) / 2)
    own = (TreeYield(4, 2.0, 3.0),)
    assert tree_yields(Question(tokens_per_pass=3.0, trees=own)) == list(own)


def test_what_trees_gave_is_kept_with_the_last_answer(tmp_path: Path) -> None:
    answer = LastAnswer(3.0, 0.5, (TreeYield(4, 2.0, 3.0), TreeYield(16, 3.1, 6.0)))
    RatesFile(tmp_path).remember_answer("pair", answer)
    assert RatesFile(tmp_path).recall_answer("pair") == answer


def test_a_mixture_says_of_how_many_experts_a_token_is_routed(tmp_path: Path) -> None:
    tiny_model("qwen3_moe").save_pretrained(tmp_path)
    mixture = open_checkpoint(str(tmp_path))
    layer = needs_of(mixture, model_sizes(mixture), "auto", CPU).layers[0]
    assert (layer.experts, layer.chosen) == (8, 2)
    assert layer.expert_elements == 8 * 3 * 48 * 64
    assert layer.distinct(1) == pytest.approx(2)
    found = plan_pair(mixture, None, CPU, Question(context_tokens=64))
    ways = ways_for(mixture, None, CPU, Question(context_tokens=64), found, tmp_path)
    assert [way.name for way in ways.all] == ["plain"]


def test_an_estimate_tells_ways_and_where_its_figures_come_from(tmp_path: Path) -> None:
    options = LoadOptions(device="cpu", context_tokens=64, cache_dir=str(tmp_path))
    found = Estimator(loaded=False).estimate(Appraise(1, options))
    assert found.ways[0].name == "plain"
    assert found.trees.startswith("A tree ")
    assert found.basis.startswith("Tokens per pass are assumed")
    assert (found.measured_at, found.advice) == ("", ())
    assert found.tokens_per_second == max(way.tokens_per_second for way in found.ways), "the best of what is possible"


def test_small_trees_are_explained_where_the_plan_knows_why(tmp_path: Path) -> None:
    options = LoadOptions(device="cpu", context_tokens=64, cache_dir=str(tmp_path))
    pair = open_pair(options).identity
    found = plan_pair(pair.target, pair.draft, CPU, Question(context_tokens=64))
    told = small_trees(pair, CPU, found)
    assert told == "" or told.startswith("A tree ")
    alone = open_pair(replace(options, draft="none")).identity
    assert small_trees(alone, CPU, plan_pair(alone.target, None, CPU, Question(context_tokens=64))) == ""


def test_the_speed_that_is_told_is_that_of_the_best_way(tmp_path: Path) -> None:
    for budget in (0, 8):
        options = LoadOptions("embedded", "auto", cache_dir=str(tmp_path), budget=budget)
        found = Estimator(False).estimate(Appraise(1, options))
        asked = [way for way in found.ways if way.name in ("plain", "small", "tree")]
        best = max(asked, key=lambda way: way.tokens_per_second)
        assert found.tokens_per_second == best.tokens_per_second
        assert found.seconds_per_pass == best.pass_seconds
        assert all(way.nodes <= (budget or way.nodes) for way in asked)


def test_the_plan_tells_how_far_texts_and_pairs_may_be_from_it(tmp_path: Path) -> None:
    options = LoadOptions("embedded", "auto", cache_dir=str(tmp_path))
    assert "Pairs differ: the best tree may give" in Estimator(False).estimate(Appraise(1, options)).basis
    pair = open_pair(options).identity
    answers = tuple(Answered(tokens, 20, 5.0, 80) for tokens in (50, 80, 60))
    answer = LastAnswer(3.0, 0.5, (TreeYield(4, 2.0, 3.0),), answers=answers)
    RatesFile(tmp_path).remember_answer(pair.by_folders(0), answer)
    basis = Estimator(False).estimate(Appraise(1, options)).basis
    assert "Texts differ: its last answers had 2.5 to 4.0 tokens per pass." in basis
