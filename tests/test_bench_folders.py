"""The folders that benchmarks are told: made where they are missing."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from tests.bench.folders import made_folder

BENCH = Path(__file__).parent / "bench"


def test_a_folder_is_made_and_one_that_cannot_be_is_refused(tmp_path: Path) -> None:
    assert made_folder(str(tmp_path / "a" / "b")).is_dir()
    assert made_folder(str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentTypeError, match="cannot be made"):
        made_folder(str(tmp_path / "file" / "below"))


def test_every_benchmark_makes_its_folder() -> None:
    lines = [line for path in BENCH.glob("*.py") for line in path.read_text("utf-8").splitlines()]
    joined = "".join(lines).replace(" ", "")
    assert joined.count('add_argument("--folder",type=made_folder') == joined.count('add_argument("--folder"') > 10
