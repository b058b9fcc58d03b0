"""The benchmark for a CUDA machine runs to its end without one, on models that are as small as they can be."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench import cuda
from tests.campaigns.extent import is_whole


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["cuda", "--device", "cpu", "--json", "--passes", "1", *arguments])
    cuda.main()
    return json.loads(capfd.readouterr().out)


@pytest.mark.skipif(not is_whole(), reason="writes and measures models of some size: for the proofs")
def test_it_runs_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shapes = ["--only", "70b,30b", "--scale", "small", "--budgets", "4,16"]
    found = run(monkeypatch, capfd, *shapes, "--folder", str(tmp_path))
    names = [model["name"] for model in found["models"]]
    assert names == ["70b", "30b"]
    for model in found["models"]:
        assert "error" not in model
        assert model["placement"] == {"device": 0, "ram": 0, "ssd": 8}
        assert [row["rows"] for row in model["passes"]] == [1, 5, 17]
        assert all(row["seconds_over_transfer"] > 0 for row in model["passes"])
        plain, *trees = model["answers"]
        assert plain["tokens_per_pass"] == 1
        assert min(tree["tokens_per_pass"] for tree in trees) > 1.5, "the models write the embedded target's text"
        assert model["memory"]["peak_rss_bytes"]["real"] > 0
    assert not list(tmp_path.iterdir()), "models are removed"


def test_flat_ends_where_a_pass_first_takes_longer() -> None:
    rows = [{"rows": rows, "seconds": seconds} for rows, seconds in ((1, 1.0), (17, 1.04), (65, 1.2), (257, 1.0))]
    assert cuda.flat_up_to(rows) == 17
