"""A round in one motion: what is seen when, who may end it, and when there is none. The clock is moved by hand."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel
from app.tree.picture.canvas import CHIPS, ICICLE
from app.tree.picture.moving.motion import LONGEST_MS, SHORTEST_MS, Cost, Motion, moment
from app.tree.picture.moving.veil import Moment, grows_downwards, path_region
from app.ui.colors import DARK, LIGHT
from engine.protocol.messages import Round, Seconds
from tests.app.tree.panels import canvas, colours, image, wheel
from tests.app.tree.test_live import drafted
from tests.app.tree.trees import random_round, round_of

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def moving(panel: TreePanel, clock: Clock) -> Iterator[TreePanel]:
    """Frames are asked for by the test alone."""
    panel.follow(1)
    panel.set_motion(True)
    panel.set_theme(LIGHT)
    panel.motion._clock = clock
    panel.motion._timer.setInterval(10**6)
    yield panel
    panel.motion.end()


def slow(index: int = 0, nodes: int = 40, seconds: float = 2.0) -> Round:
    made = random_round(nodes, seed=5, agreement=0.9, index=index)
    assert len(made.accepted) > 3
    return replace(made, seconds=Seconds(decode=seconds, target=seconds))


def arrive(panel: TreePanel, *rounds: Round) -> None:
    """Have rounds come, and the newest be shown."""
    panel.on_events([*rounds])
    panel._throttle.flush()


def is_moving(panel: TreePanel) -> bool:
    return panel.motion.is_running


def at(panel: TreePanel, clock: Clock, milliseconds: float) -> set[str]:
    """The colours that are seen so long after a motion began."""
    clock.now = 100.0 + milliseconds / 1000
    panel.motion.frame()
    return colours(image(panel))


@pytest.mark.parametrize("way", [CHIPS, ICICLE])
def test_tree_grows_is_checked_and_is_cut(moving: TreePanel, clock: Clock, way: str) -> None:
    moving.set_way(way)
    arrive(moving, slow())
    assert is_moving(moving)
    tree = LIGHT.tree
    guess, gone = {each.fill for each in tree.ramp}, {each.fill for each in tree.rejected}
    background_only = at(moving, clock, 0)
    growing = at(moving, clock, 60)
    checked = at(moving, clock, 178)
    after = at(moving, clock, LONGEST_MS)
    assert len(background_only & guess) <= len(growing & guess)
    assert growing & guess
    assert tree.accepted.fill not in growing | background_only
    assert tree.bonus.fill not in growing
    assert {tree.accepted.fill, tree.bonus.fill} <= checked
    assert checked & guess
    assert not is_moving(moving)
    assert after & gone
    assert not after & guess


def test_last_frame_is_the_picture_itself(moving: TreePanel, clock: Clock) -> None:
    arrive(moving, slow())
    at(moving, clock, LONGEST_MS - 0.001)
    last = image(moving).convertToFormat(QImage.Format.Format_RGB32)
    assert is_moving(moving)
    moving.motion.end()
    whole = image(moving).convertToFormat(QImage.Format.Format_RGB32)
    one, other = (np.frombuffer(each.constBits(), np.uint8).astype(np.int16) for each in (last, whole))
    assert abs(one - other).max() <= 3


def test_tree_that_was_seen_growing_is_checked_at_once(moving: TreePanel, clock: Clock, qtbot: QtBot) -> None:
    whole = slow()
    moving.on_events([drafted(whole, 41, checking=41)])
    qtbot.waitUntil(lambda: canvas(moving).tree is not None)
    arrive(moving, whole)
    qtbot.waitUntil(lambda: is_moving(moving))
    assert LIGHT.tree.accepted.fill in at(moving, clock, 85)


@pytest.mark.parametrize("what", ["key", "click", "wheel", "size", "theme", "round", "other way", "no more motion"])
def test_whatever_a_person_or_the_engine_does_ends_it(moving: TreePanel, clock: Clock, qtbot: QtBot, what: str) -> None:
    arrive(moving, slow())
    assert is_moving(moving)
    view = canvas(moving)
    match what:
        case "key":
            QTest.keyClick(view, Qt.Key.Key_Left)
        case "click":
            QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(300, 300))
        case "wheel":
            wheel(view, QPointF(100, 100), 1)
        case "size":
            moving.resize(600, 400)
        case "theme":
            moving.set_theme(DARK)
        case "round":
            arrive(moving, slow(index=1))
            qtbot.waitUntil(lambda: canvas(moving).tree is not None and canvas(moving).tree.number == 2)  # type: ignore[union-attr]
        case "other way":
            moving.choose_way(ICICLE)
        case "no more motion":
            moving.set_motion(False)
    qtbot.waitUntil(lambda: not is_moving(moving))


def test_the_same_round_laid_out_again_moves_on(moving: TreePanel) -> None:
    arrive(moving, slow())
    moving.player.moved.emit()
    moving._refresh()
    assert is_moving(moving)


def test_there_is_none_where_passes_are_faster_or_nobody_wants_it(moving: TreePanel, clock: Clock) -> None:
    motion = moving.motion
    arrive(moving, slow(seconds=0.3))
    assert not motion.is_running, "the next tree grows before"
    for index, room in ((1, SHORTEST_MS - 1), (2, math.inf)):
        moving._canvas.show_tree(None)
        clock.now += 0.01
        motion.begin(None, room)
        assert not is_moving(moving), f"{index}: no room, no tree, or the one before was just now"
    moving.set_motion(False)
    clock.now += 10
    arrive(moving, slow(index=3))
    assert not is_moving(moving)


def test_who_drags_along_the_ribbon_sees_every_round_at_once(moving: TreePanel, clock: Clock, qtbot: QtBot) -> None:
    arrive(moving, *(slow(index) for index in range(4)))
    moving.motion.end()
    clock.now += 1
    moving.player.seek(0)
    qtbot.waitUntil(lambda: is_moving(moving))
    for place in (1, 2):
        clock.now += 0.03
        moving.player.seek(place)
        qtbot.waitUntil(lambda place=place: canvas(moving).tree.number == place + 1)  # type: ignore[misc, union-attr]
        assert not is_moving(moving)
    moving.glance_at(1, 0)
    clock.now += 10
    moving._refresh()
    assert not is_moving(moving), "what is only pointed at"


@pytest.mark.parametrize(("seconds", "moves"), [(1.0, True), (0.05, False)])
def test_rounds_that_are_played_move_where_they_stay_long_enough(
    moving: TreePanel, clock: Clock, qtbot: QtBot, seconds: float, moves: bool
) -> None:
    moving.on_events([slow(index, seconds=seconds) for index in range(3)])
    moving.player.seek(0)
    moving._refresh()
    clock.now += 10
    moving.player.play()
    moving.player._timer.stop()
    moving.player._play_on(1)
    moving._refresh()
    assert canvas(moving).tree.number == 2  # type: ignore[union-attr]
    assert is_moving(moving) is moves
    moving.player.pause()


def test_trees_that_cost_more_than_a_frame_do_not_move(panel: TreePanel) -> None:
    cost = Cost()
    assert cost.allows(300)
    cost.learn(400, 0.1)
    assert not cost.allows(400)
    assert cost.allows(50)
    cost.learn(10, 1.0)
    assert cost.allows(50), "what little trees cost says nothing of large ones"
    assert any(cost.allows(400) for _ in range(100)), "it is tried again"
    motion = Motion(canvas(panel))
    motion.cost.seconds_per_node = 1.0
    panel.show_round(slow())
    motion.begin(None, math.inf)
    assert not motion.is_running


def test_moments_follow_each_other_in_the_time_that_there_is() -> None:
    for length in (SHORTEST_MS, LONGEST_MS):
        seen = [moment(length * part / 50, length, has_grown=False) for part in range(50)]
        shares = [(each.grown, each.checked, each.cut) for each in seen if each]
        assert len(shares) == 50
        assert shares == sorted(shares)
        assert sum(shares[0]) == 0
        assert all(grown == 1 or checked == 0 for grown, checked, _ in shares)
        assert all(checked == 1 or cut == 0 for _, checked, cut in shares)
        assert moment(length, length, has_grown=False) is None
    assert moment(0, 160, has_grown=True) == Moment(1, 0, 0)


def test_path_appears_node_by_node_also_around_a_turn() -> None:
    boxes = tuple(QRect(x, y, 40, 16) for x, y in ((0, 0), (60, 0), (120, 0), (0, 60), (60, 60)))
    centers = [box.center() for box in boxes]
    seen = [[path_region(boxes, share).contains(center) for center in centers] for share in (0, 0.25, 0.5, 0.75, 1)]
    assert seen == [[place <= step for place in range(5)] for step in range(5)]
    half = path_region(boxes, 0.125)
    assert half.contains(QPoint(60, 8))
    assert not half.contains(centers[1])


@pytest.mark.parametrize(("way", "size", "downwards"), [(CHIPS, (200, 600), True), (ICICLE, (900, 300), False)])
def test_trees_appear_the_way_they_grow(panel: TreePanel, way: str, size: tuple[int, int], downwards: bool) -> None:
    panel.set_way(way)
    panel.resize(*size)
    chain = round_of(list(range(13)), list(range(-1, 12)), [-0.1 * node for node in range(13)], tuple(range(9)))
    panel.show_round(chain)
    panel._refresh()
    picture = canvas(panel).picture
    assert picture is not None
    assert grows_downwards(picture) == downwards
