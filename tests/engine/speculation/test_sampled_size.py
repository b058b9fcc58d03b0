"""How large sampled trees of a mixture are."""

import pytest

from engine.speculation.trees.tree_program import PRIOR, AcceptanceVector
from engine.speculation.tuning.sampled_size import Mixture, size_for


@pytest.mark.parametrize(
    ("mixture", "acceptance", "least", "most"),
    [
        (Mixture(128, 4, 0.6, 0.05), (0.9, 0.05), 2, 8),
        (Mixture(128, 4, 0.6, 0.05), PRIOR, 0, 0),
        (Mixture(8, 2, 0.9, 0.02), PRIOR, 32, 64),  # all experts are touched soon, and then nodes cost nothing
    ],
)
def test_sampled_trees_are_as_large_as_pays_for_their_experts(
    mixture: Mixture, acceptance: AcceptanceVector, least: int, most: int
) -> None:
    size = size_for(mixture, acceptance, 64, 32)
    assert least <= size[0] <= most
    assert size == size_for(mixture, acceptance, 64, 32), "from nothing that was measured"
    seconds = [mixture.relative_seconds(rows) for rows in range(1, 65)]
    assert seconds[0] == pytest.approx(1.0)
    assert seconds == sorted(seconds)
