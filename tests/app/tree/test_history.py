"""Rounds come back as they were, take little room, and recordings of them are read with care."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.tree.rounds.history import FileSpill, History
from app.tree.rounds.player import Player
from app.tree.rounds.recording import TruncatedError, read_recording, recording_line
from app.tree.rounds.snapshot import snapshot
from app.tree.rounds.text import as_text
from engine.errors import InputError
from engine.protocol.messages import Round, Seconds
from engine.protocol.watching import TargetLogProbs
from tests.app.tree.trees import random_round, round_of


def judged(nodes: int, seed: int, index: int = 0) -> Round:
    """A round as an engine sends it that is watched."""
    chance = np.random.default_rng(seed)
    log_probs = (-chance.exponential(2, nodes + 2)).astype("<f4").tobytes()
    ranks = chance.integers(1, 5000, nodes + 2).astype("<i4").tobytes()
    made = random_round(nodes, seed, index=index)
    return replace(made, verdicts=TargetLogProbs(log_probs, ranks), seconds=Seconds(decode=0.5, draft=0.1))


def test_rounds_come_back_but_for_their_text() -> None:
    history = History()
    rounds = [judged(64, seed, index=seed) for seed in range(5)] + [random_round(0, index=5)]
    for each in rounds:
        history.append(replace(each, text="hello"))
    assert len(history) == 6
    assert [history.round(place) for place in range(6)] == rounds


def test_memory_is_bounded_and_the_oldest_rounds_are_still_there() -> None:
    history = History(memory_bytes=100_000, spill=FileSpill())
    rounds = [judged(256, seed, index=seed) for seed in range(40)]
    for each in rounds:
        history.append(each)
        assert history.memory_bytes <= 100_000
    assert [history.round(place) for place in range(40)] == rounds
    history.clear()
    assert (len(history), history.memory_bytes) == (0, 0)


def test_a_full_disk_loses_the_oldest_rounds_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.tree.rounds.history.tempfile.TemporaryFile", full)
    history = History(memory_bytes=30_000, spill=FileSpill())
    for seed in range(20):
        history.append(judged(256, seed, index=seed))
    assert history.round(0) is None
    newest = history.round(19)
    assert newest is not None
    assert newest.index == 19


def test_a_full_disk_keeps_no_recording_open(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(BytesIO):
        def close(self) -> None:
            super().close()
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.tree.rounds.history.tempfile.TemporaryFile", lambda **_: Full())
    recording = History(memory_bytes=1, spill=FileSpill())
    for seed in range(3):
        recording.append(judged(8, seed, index=seed))
    player = Player()
    player.open_recording(recording)
    player.close_recording()
    assert not player.is_recording
    assert len(recording) == 0


@pytest.mark.parametrize("leave", [Player.clear, lambda player: player.open_recording(History())])
def test_nothing_is_kept_of_a_recording_that_is_left(qtbot: QtBot, leave: Callable[[Player], None]) -> None:
    player, recording = Player(), History(spill=FileSpill())
    recording.append(judged(8, 1))
    player.open_recording(recording)
    with qtbot.waitSignal(player.recording_closed):
        leave(player)
    assert (len(recording), recording.memory_bytes) == (0, 0)


def test_live_follows_and_paused_stays(qtbot: QtBot) -> None:
    player = Player()
    player.step(1)
    player.play()
    assert player.current is None
    for index in range(3):
        player.add(random_round(4, seed=index, index=index))
    assert player.place == 2
    player.step(-1)
    player.add(random_round(4, seed=3, index=3))
    assert (player.place, player.is_live) == (1, False)
    player.step(-9)
    assert player.place == 0
    player.go_live()
    assert (player.place, player.is_live) == (3, True)
    assert player.find(1, 2) == 2
    assert player.find(1, 9) is None
    player.clear()
    assert (player.place, player.is_live, player.find(1, 2)) == (-1, True, None)


def test_playing_goes_on_to_the_last_round_at_its_speed(qtbot: QtBot) -> None:
    player = Player()
    player.speed = 4.0
    for index in range(4):
        player.add(random_round(4, seed=index, index=index))
    told: list[tuple[int, bool]] = []
    player.moved.connect(lambda: told.append((player.place, player.is_playing)))
    player.play()
    assert player.is_playing
    qtbot.waitUntil(lambda: not player.is_playing and player.place == 3)
    assert told == [(0, True), (1, True), (2, True), (3, True), (3, False)], "the button says Pause until the end"


def test_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    impossible = round_of([1, 2], [-1, 0], [0.0, -np.inf], (0,), bonus=3, index=3)
    rounds = [judged(40, 1), random_round(0, index=1), judged(7, 2, index=2), impossible]
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(map(recording_line, rounds)), encoding="utf-8")
    assert list(read_recording(path)) == rounds
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert {"round", "tokens", "parents", "log_probs", "depths", "accepted", "bonus", "seconds"} <= first.keys()


def test_trace_without_texts_is_a_recording_too(tmp_path: Path) -> None:
    line = {"round": 0, "tokens": [5, 6], "parents": [-1, 0], "log_probs": [0.0, -0.5], "depths": [0, 1],
            "accepted": [0, 1], "bonus": 9, "seconds": {"decode": 0.25, "unheard_of": 1.0}}  # fmt: skip
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(line) + "\n\n", encoding="utf-8")
    (read,) = read_recording(path)
    assert (read.new_tokens, read.seconds.decode, read.tree.pieces) == (2, 0.25, ("", ""))


def test_truncated_recording_gives_what_is_there_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    rounds = [random_round(9, index=index) for index in range(3)]
    path.write_text("".join(map(recording_line, rounds)), encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    reading = read_recording(path)
    assert len(list(islice(reading, 2))) == 2
    with pytest.raises(TruncatedError, match="breaks off in the middle of round 3; the 2 before"):
        next(reading)


GOOD = '{"tokens":[1,2],"parents":[-1,0],"log_probs":[0,-1],"accepted":[0],"bonus":1}\n'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x89PNG\xff\xfe", "it is not text"),
        (b"hello\n", "Line 1 of 'x.jsonl' is no round"),
        (b"[1]\n", "not an object"),
        (b"{}\n", "there is no 'tokens'"),
        (GOOD.encode() + b'{"tokens":[1\n', "Line 2"),
        (GOOD.replace("[-1,0]", "[-1,7]").encode(), "before its parent"),
        (GOOD.replace("[1,2]", "[1,99999999999]").encode(), "Line 1"),
        (GOOD.replace("[0]", "[0,1,1]").encode(), "does not lead"),
        (b"[" * 100_000 + b"\n", "Line 1"),
        (GOOD.encode() + b"[" + b"[]," * 1_000_000 + b"[]]\n", "Line 2 .* consists mostly of brackets"),
        (b"\n" * 1_000 + GOOD.encode(), "Line 1"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        list(read_recording(path))


@pytest.mark.parametrize(("told", "seconds"), [("NaN", 0.0), ("-Infinity", 0.0), ("1e400", 1e9), ("1e308", 1e9)])
@pytest.mark.parametrize("form", ['"seconds":{}', '"seconds":{{"decode":{}}}'])
def test_times_of_a_recording_can_be_played(qtbot: QtBot, tmp_path: Path, form: str, told: str, seconds: float) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(GOOD.replace("}", f",{form.format(told)}}}"), encoding="utf-8")
    (read,) = read_recording(path)
    assert read.seconds.decode == seconds
    recording = History()
    recording.append(read)
    player = Player()
    player.open_recording(recording)
    player.play()
    assert player.is_playing
    player.pause()


def test_huge_and_missing_files_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    with pytest.raises(InputError, match="cannot be read"):
        next(read_recording(path))
    path.write_text(GOOD * 50, encoding="utf-8")
    monkeypatch.setattr("app.tree.rounds.recording._LONGEST_LINE", 20)
    with pytest.raises(InputError, match="longer than"):
        next(read_recording(path))
    monkeypatch.setattr("app.tree.rounds.recording.LARGEST_BYTES", 100)
    with pytest.raises(InputError, match="larger than"):
        next(read_recording(path))


def test_text_is_an_outline_with_marks() -> None:
    pieces = ("The", " cat", " dog", " sat")
    made = round_of([1, 2, 3, 4], [-1, 0, 0, 1], [0, -0.1, -2, -0.5], (0, 1), pieces=pieces, bonus_piece=" ran")
    assert as_text(snapshot(made)).splitlines() == [
        "Round 1: 3 nodes, 1 accepted",
        "* The  1.000",
        "*   ·cat  0.905",
        "+     ·ran",
        "      ·sat  0.670",
        "    ·dog  0.135",
    ]
