"""The panel as a person meets it: empty, filling, pointed at, zoomed, in both themes."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QAction, QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine.state import EngineState, Phase
from app.engine.why import CausePlace
from app.system.plain_text import tip
from app.telemetry import cards
from app.telemetry.cards import Card
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.dock import TelemetryDock
from app.telemetry.figures.history import CAPACITY
from app.telemetry.panel import NOTHING_YET, CardGrid
from app.ui.theme import DARK, LIGHT
from engine.protocol.messages import Prefilled, Round
from engine.protocol.options import GenerateOptions
from tests.app.fake_link import FakeLink
from tests.app.telemetry.rounds import loaded, made_up_round, round_of


@pytest.fixture(scope="module")
def shared(qapp: QApplication) -> Iterator[TelemetryDock]:
    """The charts for all tests of this file: to make them takes longer than what most of these do with them."""
    room = TelemetryDock(FakeLink(), LIGHT)
    yield room
    room.dock.close()
    room.dock.deleteLater()


@pytest.fixture
def room(shared: TelemetryDock, qtbot: QtBot) -> TelemetryDock:
    """The charts as they are in a conversation that is new."""
    shared.clear()
    shared.history.capacity = CAPACITY
    shared.set_theme(LIGHT)
    shared.dock.resize(900, 1800)
    with qtbot.waitExposed(shared.dock):
        shared.dock.show()
    shared.panel.refresh()
    return shared


def fill(room: TelemetryDock, rounds: int, request: int = 2, streams: bool = True) -> None:
    random = Random(1)
    room.on_asked(request, (), GenerateOptions())
    room.on_events([Prefilled(request, 10, 0, 0.2)])
    room.on_events([made_up_round(index, random, request=request, streams=streams) for index in range(rounds)])
    room.panel.refresh()


def card(room: TelemetryDock, figure: cards.Figure) -> Card:
    return next(each for each in room.panel.cards if each.figure is figure)


def speed(room: TelemetryDock) -> TimeChart:
    chart = card(room, cards.SPEED).picture
    assert isinstance(chart, TimeChart)
    return chart


def spot(chart: TimeChart, seconds: float) -> QPointF:
    place = chart.mapFromScene(chart.view_box.mapViewToScene(QPointF(seconds, 1.0)))
    return QPointF(place)


def middle_of(room: TelemetryDock, row: int) -> float:
    return float(room.history.rows["begin"][row] + room.history.rows["seconds"][row] / 2)


def image(room: TelemetryDock) -> QImage:
    return room.panel.grab().toImage()


def test_without_rounds_every_figure_says_so_in_words(room: TelemetryDock) -> None:
    room.panel.refresh()
    assert room.panel.caption == NOTHING_YET
    assert {each.reading for each in room.panel.cards if isinstance(each.picture, TimeChart)} == {cards.NOT_MEASURED}


def test_every_figure_is_defined(room: TelemetryDock) -> None:
    titles = [each.figure.title for each in room.panel.cards]
    assert len(set(titles)) == len(titles) == 9
    for each in room.panel.cards:
        tips = {child.toolTip() for child in each.children() if hasattr(child, "toolTip")}
        assert tip(each.figure.explanation) in tips
        assert "{" not in each.figure.explanation


def test_rounds_are_read_off_the_legends(room: TelemetryDock) -> None:
    room.on_engine_state(EngineState(Phase.READY, pair=loaded()))
    room.on_asked(2, (), GenerateOptions())
    room.on_events([round_of(0), round_of(1, bytes_streamed=90_000_000)])
    room.panel.refresh()
    assert card(room, cards.SPEED).reading == "a round 222, mean 222"
    assert card(room, cards.TOKENS_PER_PASS).reading == "a round 2, mean 2"
    assert card(room, cards.TIME).reading.startswith("compute 6.0 ms, stream wait 0.0 ms")
    assert card(room, cards.BANDWIDTH).reading == "a round 10.0 GB/s, mean 5.00 GB/s, ceiling 19.0 GB/s"
    assert card(room, cards.BY_DEPTH).reading == "accepted at depth 1 100 %"
    assert card(room, cards.CALIBRATION).reading.endswith("nodes 4")
    assert room.panel.caption.startswith("Round 2, the newest")


def test_what_never_streamed_is_said(room: TelemetryDock) -> None:
    fill(room, 5, streams=False)
    assert card(room, cards.BANDWIDTH).reading == cards.BANDWIDTH.empty


def test_only_rounds_of_the_conversation_are_drawn(room: TelemetryDock) -> None:
    fill(room, 3)
    room.on_events([round_of(0, request=9)])
    assert room.history.count == 3
    room.clear()
    room.on_events([round_of(3)])
    room.panel.refresh()
    assert room.history.count == 0
    assert room.panel.caption == NOTHING_YET


def test_a_damaged_round_is_left_out(room: TelemetryDock) -> None:
    fill(room, 2)
    broken: Round = replace(round_of(2), accepted=(0, 9))
    room.on_events([broken, round_of(3)])
    assert room.history.count == 3


def test_pointing_reads_a_round_in_all_charts_and_a_click_chooses_it(room: TelemetryDock, qtbot: QtBot) -> None:
    fill(room, 40)
    at = spot(speed(room), middle_of(room, 7))
    QTest.mouseMove(speed(room).viewport(), at.toPoint())
    qtbot.waitUntil(lambda: room.panel.caption.startswith("Round 8 of 40"))
    with qtbot.waitSignal(room.panel.round_chosen) as chosen:
        QTest.mouseClick(speed(room).viewport(), Qt.MouseButton.LeftButton, pos=at.toPoint())
    assert chosen.args == [7]


def test_rounds_are_numbered_on_when_the_oldest_are_forgotten(room: TelemetryDock, qtbot: QtBot) -> None:
    fill(room, 30)
    room.history.clear()
    room.history.capacity = 10
    fill(room, 25)
    room.panel.scope.point(0.0)
    with qtbot.waitSignal(room.panel.round_chosen) as chosen:
        room.panel.scope.choose()
    assert chosen.args == [room.history.first] == [15]


def test_a_chosen_round_is_known_by_its_request(room: TelemetryDock) -> None:
    shown: list[tuple[int, int]] = []
    room.follow(QAction(checkable=True), lambda request, index: shown.append((request, index)))
    fill(room, 5, request=2)
    fill(room, 5, request=7)
    for number in (3, 8, 99):
        room.panel.round_chosen.emit(number)
    assert shown == [(2, 3), (7, 3)]


def test_arrow_keys_go_from_round_to_round(room: TelemetryDock, qtbot: QtBot) -> None:
    fill(room, 10)
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Right):
        QTest.keyClick(speed(room), key)
    with qtbot.waitSignal(room.panel.round_chosen) as chosen:
        QTest.keyClick(speed(room), Qt.Key.Key_Return)
    assert chosen.args == [8]


def test_zoom_and_drag_move_all_charts_and_stay_inside(room: TelemetryDock) -> None:
    fill(room, 200)
    scope, extent = room.panel.scope, room.panel.scope.extent
    QTest.keyClick(speed(room), Qt.Key.Key_Plus)
    room.panel.refresh()
    assert scope.span[1] - scope.span[0] < extent[1] - extent[0]
    for each in room.panel.cards:
        if isinstance(each.picture, TimeChart):
            assert each.picture.view_box.viewRange()[0] == pytest.approx(scope.span)
    scope.pan(1e6)
    assert scope.span[1] == pytest.approx(extent[1])
    QTest.keyClick(speed(room), Qt.Key.Key_Home)
    step = (extent[1] - extent[0]) / 100
    assert 0 <= extent[0] - scope.span[0] < step
    assert 0 <= scope.span[1] - extent[1] < step


def test_the_time_in_view_moves_on_in_small_steps_while_rounds_come(room: TelemetryDock) -> None:
    spans = set()
    for index in range(440):
        room.history.add(made_up_round(index, Random(index), nodes=8))
        if index < 400 and index % 40:
            continue
        room.panel.refresh()
        span, extent = room.panel.scope.span, room.panel.scope.extent
        assert span[0] <= extent[0] < extent[1] <= span[1]
        if index >= 400:
            spans.add(span)
    assert len(spans) < 30, "axes are painted anew with every step"


def test_themes_look_different_and_something_is_drawn(room: TelemetryDock) -> None:
    fill(room, 50)
    room.on_engine_state(EngineState(Phase.READY, pair=loaded()))
    room.panel.refresh()
    light = image(room)
    room.panel.set_theme(DARK)
    room.panel.refresh()
    dark = image(room)
    assert light.pixelColor(2, 2).lightness() > 200
    assert dark.pixelColor(2, 2).lightness() < 60
    colours = {dark.pixelColor(x, y).name() for x in range(0, 900, 3) for y in range(0, dark.height(), 3)}
    assert len(colours) > 20


def test_a_wider_panel_has_more_columns(room: TelemetryDock, qtbot: QtBot) -> None:
    grid = room.panel.findChildren(CardGrid)[0]
    assert grid.columns == 2
    room.dock.resize(400, 900)
    qtbot.waitUntil(lambda: grid.columns == 1)


def test_cards_that_need_more_width_stand_below_each_other(room: TelemetryDock, qtbot: QtBot) -> None:
    fill(room, 4)
    (grid,) = room.panel.findChildren(CardGrid)
    picture = room.panel.cards[0].picture
    qtbot.waitUntil(picture.isVisible)
    least = picture.minimumWidth()
    picture.setMinimumWidth(grid.width() // 2)
    qtbot.waitUntil(lambda: grid.columns == 1)
    viewport = grid.parentWidget()
    assert viewport is not None
    assert grid.width() == viewport.width(), "nothing is cut off at its side"
    picture.setMinimumWidth(least)
    qtbot.waitUntil(lambda: grid.columns == 2)


def test_a_hidden_panel_paints_nothing_and_catches_up(room: TelemetryDock, qtbot: QtBot) -> None:
    room.dock.hide()
    fill(room, 4)
    assert room.panel.caption == NOTHING_YET
    room.dock.show()
    qtbot.waitUntil(lambda: room.panel.caption.startswith("Round 4, the newest"))


@pytest.mark.parametrize("place", CausePlace)
def test_a_cause_is_shown_where_it_can_be_read(room: TelemetryDock, qtbot: QtBot, place: CausePlace) -> None:
    room.dock.resize(420, 400)
    room.show_cause(place)
    shown = card(room, cards.WHERE[place])
    assert shown.is_pointed_out
    qtbot.waitUntil(lambda: shown.visibleRegion().boundingRect().height() > 100)
    shown._pointing.stop()


def test_a_round_alone_is_a_point(room: TelemetryDock) -> None:
    room.on_asked(2, (), GenerateOptions())
    room.on_events([round_of(0)])
    room.panel.refresh()
    chart = speed(room)
    picture = chart.grab().toImage()
    wanted = {QColor(getattr(LIGHT.charts, each)).rgb() for each in ("pale", "strong")}
    seen = [
        (x, y)
        for x in range(picture.width())
        for y in range(picture.height())
        if picture.pixelColor(x, y).rgb() in wanted
    ]
    assert len(seen) > 12
    assert max(x for x, _ in seen) < chart.view_box.sceneBoundingRect().right() * picture.width() / chart.width()


def test_one_token_is_singular_in_every_language(room: TelemetryDock) -> None:
    room.on_asked(2, (), GenerateOptions())
    room.on_events([replace(round_of(0), new_tokens=7)])
    room.panel.refresh()
    assert room.panel.caption.endswith("into answering: 7 new tokens")
