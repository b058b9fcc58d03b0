"""The figures of every round stay at hand, whatever memory gave up and whatever was never read."""

import math
from dataclasses import replace

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.engine.round_packing import pack
from app.tree.rounds.figures import KNOWN, LOST, UNKNOWN, Figures
from app.tree.rounds.filling import Filling
from app.tree.rounds.history import FileSpill, History, Key
from engine.protocol.messages import Round, Seconds
from tests.app.tree.trees import random_round


def some_round(index: int, request: int = 1) -> Round:
    made = random_round(12, index, index=index)
    return replace(made, id=request, budget=16, method="specexec", seconds=Seconds(decode=0.25))


def states(history: History) -> list[int]:
    found: list[int] = history.figures.rows["state"].tolist()
    return found


def test_figures_stay_when_memory_gives_rounds_up() -> None:
    history = History(memory_bytes=3000, spill=FileSpill())
    rounds = [some_round(index) for index in range(300)]
    for each in rounds:
        history.append(each)
    rows = history.figures.rows
    assert history.memory_bytes <= 3000
    assert rows["tokens"].tolist() == [each.new_tokens for each in rounds]
    assert rows["accepted"].tolist() == [len(each.accepted) - 1 for each in rounds]
    assert set(rows["budget"].tolist()) == {16}
    assert set(rows["nodes"].tolist()) == {12}
    assert rows["seconds"][7] == 0.25
    assert history.figures.methods[rows["method"][7]] == "specexec"
    history.clear()
    assert len(history.figures) == 0


def test_older_rounds_have_figures_once_they_were_read_or_are_known_to_be_lost() -> None:
    history = History()
    history.append(some_round(0, request=5))
    history.put_before([(-2, 0), (-2, 1), (-2, 2)])
    assert states(history) == [UNKNOWN, UNKNOWN, UNKNOWN, KNOWN]
    assert history.without_figures(2) == [(-2, 1), (-2, 2)]
    history.bring((-2, 0), pack(some_round(0)))
    history.round(0)
    history.read_figures((-2, 1), pack(some_round(1)))
    history.read_figures((-2, 2), None)
    history.read_figures((-9, 9), None)  # another conversation's
    assert states(history) == [KNOWN, KNOWN, LOST, KNOWN]
    assert history.figures.rows["request"].tolist() == [-2, -2, -2, 5]
    assert history.round(1) is None, "only its figures were wanted"
    history.bring((-2, 2), pack(some_round(2)))
    history.round(2)
    assert states(history)[2] == KNOWN


def test_damaged_round_is_lost() -> None:
    history = History()
    history.put_before([(-2, 0)])
    history.read_figures((-2, 0), b"\x01nonsense")
    assert states(history) == [LOST]


@pytest.mark.parametrize("number", [10**40, -(10**40), -1])
def test_recordings_may_have_any_numbers(number: int) -> None:
    figures = Figures()
    figures.append(replace(some_round(0), id=number, index=number, budget=number, new_tokens=number))
    assert 0 <= figures.rows["budget"][0] < 2**31
    for seconds in (math.inf, math.nan, -1.0, 1e300):
        figures.append(replace(some_round(0), seconds=Seconds(decode=seconds)))
    assert all(math.isfinite(each) for each in figures.rows["seconds"].tolist())


def test_methods_that_a_recording_makes_up_are_few() -> None:
    figures = Figures()
    for name in range(300):
        figures.append(replace(some_round(0), method=f"m{name}"))
    assert figures.rows["method"][254 - 1] == 254
    assert figures.rows["method"][299] == 0


def test_kept_rounds_are_read_the_newest_first_and_only_while_they_are_wanted(qtbot: QtBot) -> None:
    history, asked = History(), list[list[Key]]()
    keys = [(-2, index) for index in range(150)]
    packed = pack(some_round(0))
    owner = QObject()
    filling = Filling(history, owner)
    filling.wanted.connect(asked.append)
    history.put_before(keys)
    assert asked == []
    filling.set_wanted(True)
    filling.set_wanted(True)
    assert asked == [keys[50:]]
    filling.take([(key, packed) for key in keys[50:]])
    qtbot.waitUntil(lambda: len(asked) == 2)
    assert asked[1] == keys[:50]
    filling.take([(keys[0], None), *((key, packed) for key in keys[1:50])])
    qtbot.waitUntil(lambda: UNKNOWN not in states(history))
    assert states(history).count(LOST) == 1
    assert len(asked) == 2
