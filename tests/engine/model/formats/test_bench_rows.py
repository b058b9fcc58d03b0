"""Every format that the table knows is benchmarked."""

from pathlib import Path

from engine.model.formats.table import FINDERS
from tests.bench.formats import SAMPLES, measure_all
from tests.campaigns.extent import for_the_proofs


@for_the_proofs
def test_every_format_has_a_row(tmp_path: Path) -> None:
    assert SAMPLES.keys() == FINDERS.keys()
    titles = [sample.title for make in SAMPLES.values() for sample in make(128, 256)]
    rows = measure_all(tmp_path, (128, 256), turns=1, dtype_name="float32")
    assert [row["format"] for row in rows][-len(titles) :] == titles
    assert all(0.5 < row["bits"] < 17 for row in rows)


def test_what_does_not_fit_into_the_time_is_left_out(tmp_path: Path) -> None:
    assert measure_all(tmp_path, (128, 256), turns=1, seconds=-1) == []
