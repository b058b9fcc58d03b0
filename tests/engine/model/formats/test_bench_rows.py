"""Every format that the table knows is benchmarked."""

from pathlib import Path

import torch

from engine.model.formats.table import FINDERS
from tests.bench.formats import SAMPLES, measure
from tests.campaigns.extent import for_the_proofs


@for_the_proofs
def test_every_format_has_a_row(tmp_path: Path) -> None:
    assert SAMPLES.keys() == FINDERS.keys()
    samples = [sample for make in SAMPLES.values() for sample in make(128, 256)]
    rows = measure(tmp_path, samples, torch.float32, turns=1)
    assert [row["format"] for row in rows] == [sample.title for sample in samples]
    assert all(0.5 < row["bits"] < 10 for row in rows)
