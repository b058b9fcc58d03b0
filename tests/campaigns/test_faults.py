"""A few cases of every row of the faults campaign, so that no row becomes blind between two campaigns."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns import faults
from tests.campaigns.fence import Fence
from tests.campaigns.files import chat_cases, recording_cases
from tests.campaigns.networks import download_cases, setup_cases
from tests.campaigns.outcome import GOOD, Kind, Outcome, Tally, table

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits are those of POSIX")


def bad(outcomes: Iterator[Outcome]) -> list[Outcome]:
    return [each for each in outcomes if each.kind not in GOOD]


def test_mutated_recordings_are_read_or_refused(tmp_path: Path) -> None:
    assert bad(recording_cases(tmp_path, range(150))) == []


def test_mutated_chats_are_kept_whole_or_refused(tmp_path: Path) -> None:
    found = list(chat_cases(tmp_path, range(60)))
    assert [each for each in found if each.kind is Kind.OUTSIDE] == []
    assert {Kind.SURVIVED, Kind.TOLD} <= {each.kind for each in found}
    assert bad(iter(found)) == []


def test_downloads_through_a_failing_hub_are_finished_later(tmp_path: Path) -> None:
    assert bad(download_cases(tmp_path, range(8))) == []


def test_set_ups_that_are_cut_off_are_finished_later(tmp_path: Path) -> None:
    assert bad(setup_cases(tmp_path, range(2))) == []


def test_a_restless_person_finds_what_nobody_catches(tmp_path: Path) -> None:
    """Fewer clicks than in the campaign; how long the window was held is no matter of a test."""
    program = (
        "import sys; from pathlib import Path; from tests.campaigns import clicks; clicks.STEPS = 60\n"
        "if sys.argv[2]: clicks.Person._touch = lambda *_: 1 / 0\n"
        "for found in clicks.click_cases(Path(sys.argv[1]), range(1)): print(found.kind.value, found.words)"
    )
    for planted in ("", "a fault"):
        command = [sys.executable, "-c", program, str(tmp_path / planted), planted]
        done = subprocess.run(command, cwd=faults.ROOT, capture_output=True, text=True, check=True)
        if planted:
            assert done.stdout.startswith("traceback")
            assert "ZeroDivisionError" in done.stdout
        else:
            assert done.stdout.startswith(("survived", "slow"))


def test_a_row_runs_in_its_own_process_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["faults", "--only", "recordings", "--state", str(tmp_path), "--json"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--count", "3"])
    assert faults.main() == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*arguments, "--count", "5"])
    assert faults.main() == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["count"] == 5
    lines = (tmp_path / "recordings.jsonl").read_text().splitlines()
    assert [json.loads(line)["seed"] for line in lines] == list(range(5))


def test_a_process_that_dies_is_a_failure_and_the_row_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [[{"seed": 0, "kind": "told", "words": "No."}], [{"seed": 2, "kind": "survived", "words": ""}]]
    script = "import sys; print(sys.argv[1]); sys.exit(9 if '2' not in sys.argv[1] else 0)"

    def begin(*_: object, **options: object) -> "subprocess.Popen[str]":
        text = "\n".join(map(json.dumps, lines.pop(0)))
        return popen([sys.executable, "-c", script, text], stdout=subprocess.PIPE, text=True)

    popen = subprocess.Popen
    monkeypatch.setattr("tests.campaigns.faults.subprocess.Popen", begin)
    found = list(faults.run("chats", range(3), tmp_path))
    assert [(each.seed, each.kind) for each in found] == [(0, Kind.TOLD), (1, Kind.TRACEBACK), (2, Kind.SURVIVED)]
    assert "ended with 9" in found[1].words


def test_what_is_written_elsewhere_is_noted(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    fence = Fence([inside])
    for path in (inside / "a", tmp_path / "b", inside / ".." / "c", "/dev/null", 7):
        fence.note(path)
    assert fence.take() == [str(tmp_path / "b"), str(tmp_path / "c")]
    descriptor = os.open(inside, os.O_RDONLY)
    fence.note("d", descriptor)
    os.close(descriptor)
    assert fence.take() == []


def test_the_table_counts_every_kind() -> None:
    tally = Tally("chats mutated", 1200)
    for seed in range(1199):
        tally.add(Outcome(seed, Kind.TOLD, "No."))
    tally.add(Outcome(1199, Kind.LOST, "gone"))
    assert table([tally.as_row]).splitlines()[-1] == "| chats mutated | 1,200 | 0 | 1,199 | 1 | 0 | 0 | 0 | 0.0 |"
    assert [each.seed for each in tally.failures] == [1199]
