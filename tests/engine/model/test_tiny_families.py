"""The tiny models that families are tried with have what makes each of them what it is, so that mistakes show."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import torch

from tests.campaigns.extent import choose
from tests.engine.family_models import families, random_model, tiny_config
from tests.engine.family_proof import PROMPT_TOKENS

FACTORS = re.compile(r"(?!block_ffn)\w*(scaling_factor|multiplier|route_scale)")
ONE_KIND = {"ministral", "unlimited_ocr_text"}  # of windows, in all layers
FAMILIES = choose(("glm_moe_dsa", "granitemoe", "qwen3_5_moe_text"), ("falcon_h1", "gemma3_text", "gpt_oss", "mellum"))


@cache
def texts() -> Mapping[str, Any]:
    """The config of the language model of every family that a tiny model can be made of, by its own model_type."""
    return {text.model_type: text for text in _texts()}


def _texts() -> Iterator[Any]:
    for family in families():
        try:
            yield tiny_config(family).get_text_config(decoder=True)
        except Exception:  # noqa: BLE001 # some are no language models, or cannot be made small
            continue


def said(name: str) -> dict[str, Any]:
    """What configs have under a name, by the model_type."""
    return {family: vars(text)[name] for family, text in texts().items() if vars(text).get(name) is not None}


def test_windows_and_chunks_cut_through_the_texts_that_are_read() -> None:
    for name in ("sliding_window", "attention_chunk_size"):
        found = said(name)
        assert found
        assert {family for family, tokens in found.items() if not tokens < PROMPT_TOKENS} == set()


def test_layers_are_of_several_kinds() -> None:
    alike = {family for family, kinds in said("layer_types").items() if len({*kinds}) == 1}
    bounded = {family for family in alike if vars(texts()[family]).get("sliding_window")}
    assert bounded == ONE_KIND
    sparse = said("mlp_layer_types")
    assert len(sparse) > 10
    alike = {family for family, kinds in sparse.items() if {*kinds} not in ({"dense", "sparse"}, {"hash_moe", "moe"})}
    assert alike == set()


def test_factors_are_not_one_and_groups_not_alone() -> None:
    names = {name for text in texts().values() for name in vars(text) if FACTORS.fullmatch(name)}
    assert {"routed_scaling_factor", "attention_multiplier", "route_scale"} <= names
    ones = {(family, name) for name in names for family, value in said(name).items() if value == 1}
    assert ones == set()
    for name in ("n_group", "num_expert_group"):
        assert {family for family, groups in said(name).items() if groups < 2} == set()


def test_heads_share_keys_and_are_wider_than_what_goes_into_them() -> None:
    heads, keys, widths = (said(name) for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    shared = [family for family in heads.keys() & keys.keys() if heads[family] > keys[family]]
    wider = [family for family in heads.keys() & widths.keys() if heads[family] * widths[family] > _width(family)]
    assert len(shared) > 60
    assert len(wider) > 30


def _width(family: str) -> int:
    width = vars(texts()[family]).get("hidden_size", 64)
    return width if isinstance(width, int) else max(width)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_weight_is_that_of_a_new_model(family: str) -> None:
    for name, weight in random_model(tiny_config(family)).state_dict().items():
        if weight.is_floating_point() and weight.numel() > 1:
            assert float(weight.to(torch.float32).std()) > 0, name
