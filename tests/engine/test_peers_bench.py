"""The comparison with other programs: turns, ratios, groups that hold memory, and programs that end instead."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench import peer_files, peers
from tests.bench.memory_group import GroupError, held_to
from tests.bench.peer_files import Files
from tests.bench.peers import best_size, in_turns
from tests.bench.peers_table import Case, as_text, machine, rows
from tests.bench.programs import NONE, AnswerError, Asked, Setup, Turn

RATES = {("llama.cpp", NONE): 2.0, ("llama.cpp", "8"): 8.0, ("Coppice", NONE): 1.0, ("Coppice", "64"): 12.0}
PROMPTS = [(1, 2), (3, 4), (5, 6)]


class Invented:
    """A program whose rates are known; it notes who was asked."""

    asked: list[tuple[str, str, int]]

    def __init__(self, setup: Setup, _before: Sequence[str], _errors: Path) -> None:
        self.setup = setup

    def answer(self, _prompt: Sequence[int], count: int) -> Turn:
        self.asked.append((self.setup.program, self.setup.size, count))
        rate = RATES.get((self.setup.program, self.setup.size), 0.5)
        passes = count if self.setup.size == NONE else max(1, count // 4)
        return Turn(tuple(range(count)), count, count / rate, passes, 100, 10 / rate)

    def close(self) -> None:
        """Nothing runs."""


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    Invented.asked = []
    monkeypatch.setattr(peers, "Asked", Invented)
    model = tmp_path / "files" / "model.gguf"
    model.parent.mkdir()
    model.write_bytes(b"GGUF")
    return Case("Q8_0", model, model, tmp_path)


def test_the_fastest_size_is_taken_and_all_take_turns(case: Case) -> None:
    assert best_size(case, "Coppice", ["16", "64", "auto"], PROMPTS, 2) == "64"
    Invented.asked.clear()
    setups = [case.setup(program, size, 2) for program, size in RATES]
    turns = in_turns(case, setups, PROMPTS, 40)
    reads = {setup: turns[setup] for setup in setups if setup.size == NONE}
    found = {(row["program"], row["size"]): row for row in rows(case, turns, reads)}
    order = [who[:2] for who in Invented.asked]
    assert order == [*RATES, *RATES, *reversed(RATES)], "warmed up, then there and back"
    assert {who[2] for who in Invented.asked[4:]} == {peers.PLAIN_TOKENS["memory"], 40}
    best = found["Coppice", "64"]
    assert (best["over_plain_peer"], best["over_drafting_peer"]) == (6.0, 1.5)
    assert (best["tokens_per_second"], best["tokens_per_pass"], best["same_texts"]) == (12.0, 4.0, 2)
    text = as_text(
        {"rows": found.values(), "left_out": ["AirLLM: is not here"], "machine": machine(2, "auto", "grown")}
    )
    assert "| Q8_0 | memory | Coppice | 64 | 12.0 | 4.00 | 333 | 6.00 | 1.50 | 2 of 2 |  |" in text
    assert text.splitlines()[6].endswith("| 0.50 | 0.12 | 2 of 2 | 10, 0.50 |")
    assert "Left out: AirLLM: is not here" in text


def _arguments() -> Any:
    return peers._parser().parse_args([])


def test_from_disk_each_has_a_file_and_a_group_of_its_own(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []

    @contextmanager
    def held(limit: int) -> Iterator[list[str]]:
        groups.append(limit)
        yield []

    monkeypatch.setattr(peers, "held_to", held)
    cold = Case(case.kind, case.model, case.draft, case.scratch, held_bytes=7)
    with peers._running(cold, [cold.setup(program, size, 2) for program, size in RATES]) as running:
        files = {asked.setup.model for asked in running}
        assert len(files) == len(RATES)
        assert {asked.setup.place for asked in running} == {"auto"}
        peers._ask(cold, running[0], PROMPTS[0], 4)
    assert groups == [7] * len(RATES)
    assert not any(Path(file).exists() for file in files)


def test_files_that_are_ready_are_opened_and_missing_ones_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def write(_folder: Path, path: Path, kind: str) -> Path:
        written.append(kind)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"GGUF")
        return path

    monkeypatch.setattr(peer_files, "_write_gguf", write)
    monkeypatch.setattr(peer_files, "grown", lambda folder, *_: folder.mkdir())
    files = Files(tmp_path, "mixture", 1.6)
    (tmp_path / "draft-BF16.gguf").write_bytes(b"GGUF")
    files.write_all(["Q4_0", "Q8_0", "Q4_0"])
    assert written == ["Q4_0", "Q8_0"]
    assert files.target("Q8_0") == tmp_path / "Q8_0" / "target.gguf"
    assert written == ["Q4_0", "Q8_0"]


def test_without_groups_the_reason_is_noted(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_limit: int) -> Any:
        raise GroupError("no control group may be made: read-only")

    monkeypatch.setattr(peers, "held_to", refused)
    found: dict[str, Any] = {"rows": [], "left_out": []}
    cold = Case(case.kind, case.model, case.draft, case.scratch, held_bytes=7)
    peers._compare(cold, Files(case.scratch, "grown", 1.0), PROMPTS, _arguments(), found)
    assert found == {"rows": [], "left_out": ["Q8_0 from disk: no control group may be made: read-only"]}


@pytest.mark.parametrize(
    ("limit", "own", "line"),
    [
        ("memory.limit_in_bytes", "memory/user/app", "4:memory:/user/app"),
        ("memory.max", "user/app", "0::/user/app"),
    ],
)
def test_a_group_lies_below_one_s_own_and_goes(limit: str, own: str, line: str, tmp_path: Path) -> None:
    """Version 1 and 2, as far as folders show it."""
    (tmp_path / "membership").write_text(f"{line}\n")
    folder = tmp_path / own
    folder.mkdir(parents=True)
    made: list[Path] = []

    def mkdtemp(prefix: str, dir: Path) -> str:  # the library's own name
        made.append(dir / prefix)
        made[-1].mkdir()
        (made[-1] / limit).write_text("max")
        return str(made[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", mkdtemp)
        with held_to(1 << 30, tmp_path, tmp_path / "membership") as before:
            assert made[0].parent == folder
            assert (made[0] / limit).read_text() == str(1 << 30)
            done = subprocess.run([*before, "echo", "run"], capture_output=True, text=True, check=True)
            assert done.stdout == "run\n"
            assert (made[0] / "cgroup.procs").read_text().strip().isdecimal()
            for file in made[0].iterdir():  # files of a real group go with it
                file.unlink()
    assert not made[0].exists()


@pytest.mark.skipif(os.name != "posix", reason="needs control groups' words")
def test_where_no_group_may_be_made_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "membership").write_text("0::/nowhere\n")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(GroupError, match="no control group may be made"), held_to(1, tmp_path, tmp_path / "membership"):
        pass


@pytest.mark.skipif(os.name != "posix", reason="plays a program with a script of the shell")
def test_a_program_answers_by_the_line_or_its_last_words_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.dumps({"tokens": [7, 8], "counted": 2, "seconds": 0.5, "passes": 1})
    script = tmp_path / "program"
    script.write_text(
        f"#!/bin/sh\necho '\"loaded\"'\nread line\necho '{told}'\nread line\necho 'too bad' >&2\nexit 3\n"
    )
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    asked = Asked(Setup("llama.cpp", "model"), [], tmp_path / "errors.txt")
    turn = asked.answer([1], 2)
    assert (turn.tokens, turn.tokens_per_second) == ((7, 8), 4.0)
    with pytest.raises(AnswerError, match=r"llama\.cpp ended with 3: too bad"):
        asked.answer([1], 2)
    asked.close()
