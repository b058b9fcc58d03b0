"""The random mixtures of the benchmark: their sizes, their files, and every way of having their experts."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from engine.model.checkpoint import open_checkpoint
from tests.bench import mixtures, random_mixtures
from tests.bench.mixtures_table import as_text
from tests.bench.peers_table import machine
from tests.bench.random_mixtures import LAYERS, SHAPES, Shape, config_of, write_random

NBYTES = 1_500_000_000
TINY = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
FEW = {"gpt_oss": "num_local_experts", "qwen3_moe": "num_experts", "glm4_moe": "n_routed_experts"}
ROWS = (1, 4)


def tiny(name: str) -> Shape:
    """The shape with eight experts, and thin ones."""
    shape = SHAPES[name]
    experts = {FEW[name]: 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "intermediate_size": 256}
    return replace(shape, settings=lambda width: {**shape.settings(width), **TINY, **experts})


@pytest.mark.parametrize("name", SHAPES)
def test_mixtures_are_as_large_as_asked_for_in_published_proportions(name: str) -> None:
    shape = SHAPES[name]
    config = config_of(shape, NBYTES)
    mixtures_layers = config.num_hidden_layers - getattr(config, "first_k_dense_replace", 0)
    assert mixtures_layers >= LAYERS
    held = mixtures_layers * random_mixtures._layer_bytes(shape, config.hidden_size)
    assert 0.7 * NBYTES < held <= NBYTES
    wide = config_of(shape, 1 << 40)
    assert shape.width - random_mixtures.STEP < wide.hidden_size <= shape.width


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A tiny mixture, from memory and from SSD."""
    folder = tmp_path_factory.mktemp("mixture")
    path = write_random(folder / "tiny.gguf", tiny("qwen3_moe"), 1)
    arguments = mixtures._parser().parse_args(["--passes", "1", "--rows", ",".join(map(str, ROWS)), "--threads", "1"])
    return [row for place in mixtures.TIERS for row in mixtures.measured("qwen3_moe", path, place, arguments)]


def test_every_way_finds_the_same(rows: list[dict[str, Any]]) -> None:
    assert [(row["place"], row["rows"]) for row in rows] == [*product(mixtures.TIERS, ROWS)]
    for row in rows:
        assert row["ways"]["single"]["same_bits"], "what is decoded is the same, whichever way it came"
        assert all(way["difference"] < 1e-2 for way in row["ways"].values())
        assert row["auto_over_best"] > 0


def test_the_table_has_every_row_and_says_what_was_left_out(rows: list[dict[str, Any]]) -> None:
    peers = [
        {"shape": "mixtral", "left_out": "it ended"},
        {
            "shape": "qwen3_moe",
            "tokens_per_second": {"llama.cpp": 2.0, "Coppice": 3.0},
            "over_peer": 1.5,
            "same_texts": 2,
            "texts": 3,
        },
    ]
    text = as_text({"machine": machine(1, "auto", "random"), "rows": rows, "peers": peers})
    assert text.count("| qwen3_moe | ssd |") == len(ROWS)
    assert "| qwen3_moe | 2.0 | 3.0 | 1.50 | 2 of 3 |" in text
    assert "left out: it ended" in text


@pytest.mark.parametrize("name", ["gpt_oss", "glm4_moe"])
def test_the_others_can_be_opened(name: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(str(write_random(tmp_path / "tiny.gguf", tiny(name), 1)))
    assert checkpoint.config["model_type"] == name
    assert checkpoint.config["num_experts_per_tok"] == 2
