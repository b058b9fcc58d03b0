"""Measurements of a pair on disk: they come back, to one pair and one way of sampling, and are checked."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from engine.loading.learned import PairMeasurement, PairMeasurements
from engine.loading.pair import open_pair
from engine.protocol.options import NO_DRAFT, LoadOptions, SamplingOptions
from engine.speculation.tuning.pass_time import PassTime

WARM = SamplingOptions(temperature=0.6, top_p=0.9, seed=3)
TIERS = ("device", "device", "ssd")
FOUND = PairMeasurement(
    acceptance=(0.6, 0.2, 0.1),
    placement="cpu, layers device 2 ssd 1",
    draft_seconds=PassTime((1, 8), (0.1, 0.2)),
    target_seconds=PassTime((1, 8, 64), (1.0, 1.5, 2.0)),
)


@pytest.fixture
def measurements(tmp_path: Path) -> PairMeasurements:
    return PairMeasurements(open_pair(LoadOptions(cache_dir=str(tmp_path))), TIERS, "cpu")


def test_what_was_measured_comes_back_under_the_same_settings_only(measurements: PairMeasurements) -> None:
    path = measurements.remember(WARM, FOUND)
    assert measurements.placement == FOUND.placement
    assert measurements.recall(WARM) == (FOUND, "")
    assert measurements.read(path) == FOUND
    assert measurements.recall(replace(WARM, seed=99)) == (FOUND, "")
    for other in (replace(WARM, temperature=0.0), replace(WARM, top_p=1.0), replace(WARM, repetition_penalty=1.1)):
        found, why = measurements.recall(other)
        assert found is None
        assert "never measured with these settings" in why
    assert [each.name for each in path.parent.iterdir()] == [path.name], "something half written was left"


def test_a_newer_measurement_takes_the_old_one_s_place(measurements: PairMeasurements) -> None:
    measurements.remember(WARM, FOUND)
    newer = replace(FOUND, acceptance=(0.5,))
    measurements.remember(WARM, newer)
    assert measurements.recall(WARM) == (newer, "")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused_and_ignored(measurements: PairMeasurements, content: bytes) -> None:
    path = measurements.remember(WARM, FOUND)
    path.write_bytes(content)
    assert_unusable(measurements, path, "damaged")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"acceptance": []}, "holds no measured acceptance"),
        ({"acceptance": None}, "holds no measured acceptance"),
        ({"version": 0}, "holds no measured acceptance"),
        ({"acceptance": [0.7, 0.7]}, "damaged"),
        ({"acceptance": [float("nan")]}, "damaged"),
        ({"acceptance": "often"}, "damaged"),
        ({"target": "0" * 64}, "another pair"),
        ({"draft": None}, "another pair"),
        ({"weights": "nf4"}, "another pair"),
        ({"draft_seconds": {"nodes": [8, 1], "seconds": [1.0, 2.0]}}, "damaged"),
        ({"draft_seconds": {"nodes": [1], "seconds": [-1.0]}}, "damaged"),
        ({"target_seconds": {"nodes": [], "seconds": []}}, "damaged"),
        ({"target_seconds": None}, "damaged"),
    ],
)
def test_a_file_with_something_else_is_refused_and_ignored(
    measurements: PairMeasurements, changes: dict[str, Any], words: str
) -> None:
    path = measurements.remember(WARM, FOUND)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert_unusable(measurements, path, words)


def test_a_list_is_no_measurement(measurements: PairMeasurements) -> None:
    path = measurements.remember(WARM, FOUND)
    path.write_text("[0.6, 0.2]")
    assert_unusable(measurements, path, "holds no measured acceptance")


def test_a_file_that_is_not_there_is_refused(measurements: PairMeasurements, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        measurements.read(tmp_path / "nowhere.json")


def test_without_a_draft_there_is_nothing_to_measure(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Without a draft"):
        PairMeasurements(open_pair(LoadOptions(draft=NO_DRAFT, cache_dir=str(tmp_path))), TIERS, "cpu")


def assert_unusable(measurements: PairMeasurements, path: Path, words: str) -> None:
    with pytest.raises(InputError, match=words):
        measurements.read(path)
    found, why = measurements.recall(WARM)
    assert found is None
    assert words in why
    assert "bench --calibrate" in why
