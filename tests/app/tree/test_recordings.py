"""Recordings in the panel: saved, opened in place of the conversation's rounds, and closed again."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from app.tree.bars import RecordingBar, Timeline
from app.tree.panel import TreePanel
from app.tree.rounds.recording import read_recording, recording_line
from engine.protocol.messages import Round
from tests.app.tree.panels import canvas, caption, image, news, shown
from tests.app.tree.trees import random_round, round_of

FORK = round_of(
    [1, 2, 3], [-1, 0, 0], [0, -0.1, -3], (0, 1), bonus=4, pieces=("The", " cat", " dog"), bonus_piece=" sat"
)
LONG = 2500  # rounds


def arrive(panel: TreePanel, *rounds: Round) -> None:
    for each in rounds:
        panel.show_round(each)


def look_at(qtbot: QtBot, panel: TreePanel, place: int) -> None:
    """Show the round, and wait until the timeline, which takes room from the tree, knows of all rounds too."""
    panel.player.seek(place)
    (timeline,) = panel.findChildren(Timeline)
    whole = f"{place + 1} / {len(panel.player.history)}"
    qtbot.waitUntil(lambda: timeline.place.text() == whole and caption(panel).text().startswith(f"Round {place + 1} "))
    QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)


def picture_of(panel: TreePanel) -> QImage:
    return image(panel)


@pytest.mark.parametrize("way", ["chips", "icicle"])
def test_recording_replays_to_the_same_pictures(qtbot: QtBot, panel: TreePanel, tmp_path: Path, way: str) -> None:
    panel.set_way(way)
    qtbot.waitUntil(lambda: not panel._throttle._timer.isActive())
    rounds = [random_round(nodes, seed=nodes, index=index) for index, nodes in enumerate((0, 3, 64, 300))]
    arrive(panel, *rounds)
    assert caption(panel).text().startswith("Round 1 ")  # it is shown at once, the others with the next frame
    before = []
    for place in range(4):
        look_at(qtbot, panel, place)
        before.append(picture_of(panel))
    assert [each.size() for each in before] == [canvas(panel).size()] * 4
    panel.exports.save_to(tmp_path / "rounds.jsonl")
    qtbot.waitUntil(lambda: news(panel).words.text() == "4 rounds were saved in rounds.jsonl.")
    news(panel).close_.click()
    qtbot.waitUntil(lambda: canvas(panel).size() == before[0].size())
    assert [each.name for each in tmp_path.iterdir()] == ["rounds.jsonl"]
    panel.clear()
    panel.exports.open_from(tmp_path / "rounds.jsonl")
    qtbot.waitUntil(lambda: len(panel.player.history) == 4)
    qtbot.waitUntil(lambda: canvas(panel).height() < before[0].height())  # the recording's line takes some room
    panel.resize(panel.width(), panel.height() + before[0].height() - canvas(panel).height())
    qtbot.waitUntil(lambda: canvas(panel).size() == before[0].size())
    for place in range(4):
        look_at(qtbot, panel, place)
        assert picture_of(panel) == before[place]


def test_the_conversation_goes_on_behind_a_recording_and_comes_back(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path
) -> None:
    path = tmp_path / "old.jsonl"
    rounds = [random_round(20, seed=index, index=index) for index in range(30)]
    path.write_text("".join(map(recording_line, rounds)), encoding="utf-8")
    arrive(panel, FORK)
    panel.exports.open_from(path)
    bar = panel.findChildren(RecordingBar)[0]
    qtbot.waitUntil(lambda: bar.words.text() == "Recording “old.jsonl”: 30 rounds")
    bar.show_recording("one.jsonl", 1, True)
    assert bar.words.text() == "Recording “one.jsonl”: 1 round"
    bar.show_recording("old.jsonl", 30, True)
    panel.show_round(replace(FORK, index=1))
    assert len(panel.player.history) == 30
    look_at(qtbot, panel, 7)
    with qtbot.assertNotEmitted(panel.command_wanted):
        canvas(panel).asked.emit(1)  # the engine knows nothing of a recording's rounds
    bar.close_.click()
    qtbot.waitUntil(lambda: caption(panel).text().startswith("Round 2 "))
    assert len(panel.player.history) == 2
    assert bar.isHidden()


def test_a_round_is_known_by_the_recording_that_it_is_of(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    arrive(panel, FORK)
    for name in ("a", "b"):
        other = replace(FORK, tree=replace(FORK.tree, pieces=(name, "", "")))
        (tmp_path / name).write_text(recording_line(other), encoding="utf-8")

    def shows(piece: str) -> bool:
        return panel.shown_tree is not None and panel.shown_tree.pieces[0] == piece

    for name in ("a", "b"):
        panel.exports.open_from(tmp_path / name)
        qtbot.waitUntil(lambda name=name: shows(name))  # type: ignore[misc]
    panel.player.go_live()
    qtbot.waitUntil(lambda: shows("The"))


def test_rounds_alike_in_a_recording_are_all_shown(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    rounds = [random_round(nodes, seed=nodes) for nodes in (3, 30, 9)]
    path.write_text("".join(map(recording_line, rounds)), encoding="utf-8")
    panel.exports.open_from(path)
    qtbot.waitUntil(lambda: len(panel.player.history) == 3)
    for place, nodes in enumerate((3, 30, 9)):
        panel.player.seek(place)
        qtbot.waitUntil(lambda nodes=nodes: shown(panel).tree.drafted == nodes)  # type: ignore[misc]


@pytest.fixture
def long_recording(tmp_path: Path) -> Path:
    """More rounds than are read or written at a time."""
    path = tmp_path / "long.jsonl"
    path.write_text("".join(recording_line(replace(FORK, index=index)) for index in range(LONG)), encoding="utf-8")
    return path


def test_live_ends_the_reading_of_a_recording(qtbot: QtBot, panel: TreePanel, long_recording: Path) -> None:
    arrive(panel, FORK)
    panel.exports.open_from(long_recording)
    bar = panel.findChildren(RecordingBar)[0]
    qtbot.waitUntil(bar.isVisible)
    assert len(panel.player.history) < LONG
    panel.player.go_live()
    assert panel.exports.recordings._reading is None
    qtbot.waitUntil(bar.isHidden)
    assert len(panel.player.history) == 1


def test_live_ends_the_saving_of_a_recording_and_tells_it(qtbot: QtBot, panel: TreePanel, long_recording: Path) -> None:
    arrive(panel, FORK)
    panel.exports.open_from(long_recording)
    qtbot.waitUntil(lambda: len(panel.player.history) == LONG)
    panel.exports.save_to(long_recording.with_name("again.jsonl"))
    assert panel.exports.recordings.saving.is_running
    panel.player.go_live()
    qtbot.wait(100)
    assert news(panel).words.text() == "The recording was not saved: other rounds are shown now."
    assert [each.name for each in long_recording.parent.iterdir()] == [long_recording.name]


def test_a_recording_that_is_being_saved_is_not_given_up_for_another(
    qtbot: QtBot, panel: TreePanel, tmp_path: Path
) -> None:
    arrive(panel, *(replace(FORK, index=index) for index in range(LONG)))
    panel.exports.save_to(tmp_path / "first.coppice")
    said: list[str] = []
    panel.exports.told.connect(said.append)
    panel.exports.save_to(tmp_path / "second.coppice")
    assert said == ["Another recording is still being saved. Save this one when that is done."]
    qtbot.waitUntil(lambda: said[-1] == "2,500 rounds were saved in first.coppice.")
    assert [each.name for each in tmp_path.iterdir()] == ["first.coppice"]
    panel.exports.save_to(tmp_path / "second.coppice")
    qtbot.waitUntil(lambda: said[-1] == "2,500 rounds were saved in second.coppice.")


def test_a_malformed_round_is_left_out_of_what_is_saved(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    arrive(panel, FORK, replace(FORK, index=1, accepted=(0, 99)), replace(FORK, index=2))
    panel.exports.save_to(tmp_path / "rounds.coppice")
    words = "2 rounds were saved in rounds.coppice. 1 are not kept any more."
    qtbot.waitUntil(lambda: news(panel).words.text() == words)
    assert not panel.exports.recordings.saving.is_running
    assert [each.index for each in read_recording(tmp_path / "rounds.coppice")] == [0, 2]


def test_what_is_no_recording_is_said_and_changes_nothing(qtbot: QtBot, panel: TreePanel, tmp_path: Path) -> None:
    arrive(panel, FORK)
    path = tmp_path / "x.jsonl"
    path.write_text("hello\n", encoding="utf-8")
    panel.exports.open_from(path)
    assert "Line 1 of 'x.jsonl' is no round" in news(panel).words.text()
    assert len(panel.player.history) == 1
