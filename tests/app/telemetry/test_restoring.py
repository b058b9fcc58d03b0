"""The figures of a conversation that was opened again are those that were seen when it was written."""

import numpy as np
import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.engine.round_packing import pack
from app.shell.window import MainWindow
from app.telemetry.charts.scope import Scope
from app.telemetry.figures.history import History, Restoring
from app.telemetry.panel import TelemetryPanel
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import round_of

MANY = 250  # rounds: more than are read together


def history_of(indices: range, request: int = -2) -> History:
    history = History()
    for index in indices:
        history.add(round_of(index, request=request))
    return history


def assert_same(one: History, other: History) -> None:
    assert one.count == other.count
    assert one.seconds == pytest.approx(other.seconds)
    for name in one.rows.dtype.names or ():
        np.testing.assert_allclose(one.rows[name], other.rows[name])
    np.testing.assert_array_equal(one.acceptance.tried, other.acceptance.tried)
    np.testing.assert_array_equal(one.acceptance.accepted, other.acceptance.accepted)


def test_rounds_put_before_stand_as_if_they_had_come_in_turn() -> None:
    history = history_of(range(7, 12))
    history.put_before(history_of(range(7)))
    assert_same(history, history_of(range(12)))


def test_of_too_many_rounds_put_before_the_oldest_are_only_counted() -> None:
    history = History(10)
    for index in range(8, 12):
        history.add(round_of(index))
    history.put_before(history_of(range(8)))
    assert history.rows["index"].tolist() == list(range(2, 12))
    assert (history.count, history.first) == (12, 2)


def test_what_is_pointed_at_and_in_view_stays_when_rounds_come_before_it() -> None:
    scope, history = Scope(), history_of(range(5, 55))
    scope.take(history.rows, history.first)
    scope.point(0.013)
    scope.zoom(4, 0.013)
    assert scope.row is not None
    index, span = history.rows[scope.row]["index"], scope.span
    older = history_of(range(5))
    history.put_before(older)
    scope.shift(older.count, older.seconds)
    scope.take(history.rows, history.first)
    assert history.rows[scope.row]["index"] == index
    assert scope.span == pytest.approx([each + older.seconds for each in span])


def test_what_is_kept_is_read_in_portions_and_only_while_somebody_looks(qtbot: QtBot) -> None:
    history, parent, asked = History(), QObject(), list[int]()
    restoring = Restoring(history, parent)
    stored = {(-2, index): pack(round_of(index, request=-2)) for index in range(MANY)}

    def read(keys: list[tuple[int, int]]) -> None:
        asked.append(len(keys))
        restoring.take([(key, stored[key]) for key in keys])

    restoring.wanted.connect(read)
    restoring.begin(list(stored))
    assert not asked
    restoring.set_wanted(True)
    qtbot.waitUntil(lambda: restoring.left == 0)
    assert len(asked) > 1
    assert_same(history, history_of(range(MANY)))


def test_damaged_and_lost_rounds_are_left_out_and_late_ones_of_another_chat_too(qtbot: QtBot) -> None:
    history, parent = History(), QObject()
    restoring = Restoring(history, parent)
    asked = list[list[tuple[int, int]]]()
    restoring.wanted.connect(asked.append)
    restoring.set_wanted(True)
    restoring.begin([(-9, 0)])
    restoring.begin([(-2, index) for index in range(3)])
    restoring.take([((-9, 0), pack(round_of(0)))])
    whole = pack(round_of(2, request=-2))
    restoring.take([((-2, 0), None), ((-2, 1), whole[:-3]), ((-2, 2), whole)])
    qtbot.waitUntil(lambda: restoring.left == 0)
    assert history.rows["index"].tolist() == [2]
    assert asked == [[(-9, 0)], [(-2, 0), (-2, 1), (-2, 2)]]


def converse(window: MainWindow, link: FakeLink, *pieces: str) -> None:
    window.chat.ask("Count, please.")
    link.say(*pieces)
    link.finish()


def test_a_chat_of_another_day_has_its_figures_when_the_panel_is_opened(
    qtbot: QtBot, open_window: OpenWindow, link: FakeLink
) -> None:
    first = open_window(link)
    link.become_ready()
    converse(first, link, "One ", "two ", "three.")
    seen = first.telemetry.history
    first.close()
    other = FakeLink()
    window = open_window(other)
    other.become_ready()
    autosave = window.conversations.autosave
    qtbot.waitUntil(lambda: bool(autosave.records))
    autosave.open(autosave.records[0].id)
    player = window.tree_panel.player
    qtbot.waitUntil(lambda: len(player.history) == 3)
    history = window.telemetry.history
    converse(window, other, "Four.")
    assert history.count == 1, "nobody has looked yet"
    window.telemetry.dock.show()
    qtbot.waitUntil(lambda: history.count == 4)
    assert history.rows["seconds"][:3].tolist() == seen.rows["seconds"].tolist()
    panel = window.telemetry.panel
    assert isinstance(panel, TelemetryPanel)
    qtbot.waitUntil(lambda: panel.caption.startswith("Round 4"))
    panel.round_chosen.emit(1)
    qtbot.waitUntil(lambda: player.place == 1)
    window.chat.start_new_chat()
    assert history.count == 0
