"""The table of families says what the engine knows of them, and a few of its rows are made again."""

from pathlib import Path

import pytest

from engine.model.families.verified_families import REFUTED, VERIFIED
from tests.campaigns.extent import choose
from tests.engine.family_models import families
from tests.engine.family_proof import judge
from tests.engine.family_table import TABLE, gguf_section, read_table, refuted, verified

# Chunked attention, shared keys and values, latent attention, a decoder without a head of its own, a recurrent state,
# indexed attention under names that the wrapper's checkpoints have, n-grams of tokens, nothing that attends.
REMADE = (
    "llama4", "gemma3n_text", "deepseek_v3", "qwen2_vl", "qwen3_next", "nemotron_h", "mistral_large4", "qwen4_exp",
    "falcon_mamba", "minimax", "glm5_next", "deepseek_v4", "bloom",
)  # fmt: skip


def test_the_table_has_exactly_the_families_of_transformers() -> None:
    """After another version of transformers: `python -m tests.campaigns.families --fresh`."""
    assert [row.family for row in read_table()] == families()


def test_the_engine_knows_what_the_table_says() -> None:
    rows = read_table()
    assert sorted(VERIFIED) == verified(rows)
    assert sorted(REFUTED) == refuted(rows)


def test_the_networks_in_gguf_files_are_named_behind_the_table() -> None:
    assert TABLE.read_text("utf-8").endswith(gguf_section())


@pytest.mark.parametrize("family", choose(("qwen2_vl",), REMADE))
def test_a_row_of_the_table_comes_out_the_same_again(family: str, tmp_path: Path) -> None:
    row = next(row for row in read_table() if row.family == family)
    assert judge(family, tmp_path) == row
