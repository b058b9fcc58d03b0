"""What was measured is remembered as it was; whatever else lies in the file counts as nothing."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.loading import store
from engine.loading.measurements.rates_file import NAME, LastAnswer, RatesFile, SeenHere
from engine.speculation.tuning.pass_time import PassTime
from engine.weights.planning.seen import Seen
from engine.weights.planning.usual_rates import CPU_RATES
from engine.weights.planning.ways import TreeYield

RATES = replace(CPU_RATES, products=PassTime((1, 64), (0.2, 0.4)), attention=PassTime((1,), (0.1,)))


def test_rates_come_back_as_they_were_measured(tmp_path: Path) -> None:
    measured = RatesFile(tmp_path / "new").remember("this machine", RATES)
    assert measured.rates == RATES
    assert RatesFile(tmp_path / "new").recall("this machine") == measured
    assert RatesFile(tmp_path / "new").recall("another machine") is None


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps a person's folders from others by itself")
def test_nobody_else_reads_what_was_learnt(tmp_path: Path) -> None:
    before = os.umask(0o022)
    RatesFile(tmp_path / "cache").remember("this machine", RATES)
    os.umask(before)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "cache", tmp_path / "cache" / NAME)]
    assert modes == [0o700, 0o600]


def test_machines_and_pairs_are_kept_side_by_side(tmp_path: Path) -> None:
    file = RatesFile(tmp_path)
    measured = file.remember("a", RATES)
    file.remember_answer("a", LastAnswer(3.5, 0.8))
    file.remember_answer("b", LastAnswer(7.0, 0.9))
    assert file.recall("a") == measured
    assert (file.recall_answer("a"), file.recall_answer("b")) == (LastAnswer(3.5, 0.8), LastAnswer(7.0, 0.9))


def test_what_rounds_took_is_kept_with_the_machine_they_ran_on(tmp_path: Path) -> None:
    rounds = Seen((0, 0, 8), PassTime((1.0, 17.5), (0.4, 0.9)), 0.25, PassTime((2.0,), (0.01,)))
    for seen in (
        SeenHere("this", rounds),
        SeenHere("this", replace(rounds, hidden=0.0, levels=None, kv_form="8 bits")),
        None,
    ):
        answer = LastAnswer(3.5, 0.8, (TreeYield(4, 2.0, 3.0, 6),), seen)
        RatesFile(tmp_path).remember_answer("a", answer)
        assert RatesFile(tmp_path).recall_answer("a") == answer


def test_overheads_are_rates_too_and_older_entries_are_measured_anew(tmp_path: Path) -> None:
    rates = replace(RATES, calls=PassTime((1, 16), (0.001, 0.002)), pass_seconds=0.01, host=PassTime((1,), (0.3,)))
    assert RatesFile(tmp_path).remember("a", rates).rates == rates
    assert RatesFile(tmp_path).recall("a")
    document = json.loads((tmp_path / NAME).read_text())
    del document["machines"]["a"]["rates"]["unpack"]
    (tmp_path / NAME).write_text(json.dumps(document))
    assert RatesFile(tmp_path).recall("a"), "nothing depends on it but a guess for 8-bit keys and values"
    del document["machines"]["a"]["rates"]["calls"]
    (tmp_path / NAME).write_text(json.dumps(document))
    assert RatesFile(tmp_path).recall("a") is None


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_KEPT", 2)
    file = RatesFile(tmp_path)
    for key in ("a", "b", "a", "c"):
        file.remember(key, RATES)
    assert [bool(file.recall(key)) for key in ("a", "b", "c")] == [True, False, True]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"version": 0, "machines": {}}', b'{"version": 1, "machines": [1]}']
)
def test_a_damaged_or_foreign_file_is_empty_and_is_written_anew(content: bytes, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(content)
    file = RatesFile(tmp_path)
    assert file.recall("a") is None
    file.remember("a", RATES)
    assert file.recall("a")


def test_a_file_of_a_newer_version_is_empty_and_stays_as_it_is(tmp_path: Path) -> None:
    newer = '{"version": 2, "machines": {}}'
    (tmp_path / NAME).write_text(newer)
    file = RatesFile(tmp_path)
    assert file.remember("a", RATES).rates == RATES
    assert file.recall("a") is None
    assert (tmp_path / NAME).read_text() == newer


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ssd", 0),
        ("ssd", -1.0),
        ("ssd", "fast"),
        ("ssd", None),
        ("ssd", float("nan")),
        ("link", float("inf")),
        ("products", {"points": []}),
        ("products", {"points": [[64, 0.4], [1, 0.2]]}),
        ("products", {"points": [[1, 0.0]]}),
        ("products", None),
        ("attention", {"points": [[1]]}),
        ("attention", {"points": 3}),
    ],
)
def test_numbers_that_cannot_be_are_measured_anew(field: str, value: Any, tmp_path: Path) -> None:
    file = RatesFile(tmp_path)
    file.remember("a", RATES)
    document = json.loads((tmp_path / NAME).read_text())
    document["machines"]["a"]["rates"][field] = value
    (tmp_path / NAME).write_text(json.dumps(document))
    assert file.recall("a") is None


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    file = RatesFile(tmp_path / "file")
    assert file.remember("a", RATES).rates == RATES
    assert file.recall("a") is None
