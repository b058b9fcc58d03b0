"""A path that begins left of the view says so, and leads back to its root."""

import re
from random import Random

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton, QWidget
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel
from app.tree.picture.canvas import TreeCanvas
from app.tree.picture.chips.chips_picture import ChipsPicture as Picture
from app.tree.picture.picture import BONUS_NODE, Point
from app.tree.rounds.snapshot import snapshot
from app.ui.colors import DARK, LIGHT, Colors
from engine.protocol.messages import Round
from tests.app.tree.panels import colours
from tests.app.tree.trees import TEXTS, round_of

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window

LEFT = QPointF(4, 15)
"""A point of the view in the first row, where the sign stands."""


@pytest.fixture
def panel(qtbot: QtBot) -> TreePanel:
    panel = TreePanel()
    qtbot.addWidget(panel)
    panel.resize(500, 330)
    with qtbot.waitExposed(panel):
        panel.show()
    panel.activateWindow()
    return panel


def long_path(accepted: int, rejected: int = 90, bonus: int = 9) -> Round:
    """A round with an accepted path that is longer than all lines of a view, and rejected nodes all over it."""
    random = Random(5)
    parents = list(range(-1, accepted))
    log_probs = [-0.12 * node for node in range(accepted + 1)]
    for _ in range(rejected):
        parents.append(random.randrange(len(parents)))
        log_probs.append(log_probs[parents[-1]] - random.uniform(0.3, 3.0))
    tokens = [random.randrange(len(TEXTS)) for _ in parents]
    return round_of(tokens, parents, log_probs, tuple(range(accepted + 1)), bonus=bonus)


def show(qtbot: QtBot, panel: TreePanel, newest: Round) -> tuple[TreeCanvas, Picture]:
    view = panel.findChildren(TreeCanvas)[0]
    panel.show_round(newest)
    qtbot.waitUntil(lambda: view.picture is not None)
    return view, shown(view)


def shown(view: TreeCanvas) -> Picture:
    picture = view.picture
    assert isinstance(picture, Picture)
    return picture


def said(view: TreeCanvas) -> str:
    found = view.tooltip_at(LEFT)
    return found[0] if found else ""


def edge_colours(view: TreeCanvas, columns: range) -> set[str]:
    picture = view.grab().toImage()
    return colours(picture.copy(columns.start, 0, len(columns), picture.height()))


def test_long_path_says_how_many_tokens_are_to_the_left(qtbot: QtBot, panel: TreePanel) -> None:
    view, picture = show(qtbot, panel, long_path(200))
    in_view = [node for node in picture.path if picture.chip(node).x >= view.origin.x + picture.lead]
    hidden = len(picture.path) - len(in_view)
    assert 0 < hidden < 200
    assert re.search(rf"begins {hidden} tokens to the left: drag, or press Home", said(view))
    assert view.tooltip_at(QPointF(4, 150)) is None


def test_path_that_fits_has_no_sign(qtbot: QtBot, panel: TreePanel) -> None:
    view, _ = show(qtbot, panel, long_path(2))
    assert view.origin == Point(0, 0)
    assert "to the left" not in said(view)


def test_view_hardly_wider_than_the_bonus_token_has_no_room_for_the_sign(qtbot: QtBot) -> None:
    newest = snapshot(long_path(200, bonus=TEXTS.index(" internationalisation")))
    frame = QWidget()
    qtbot.addWidget(frame)
    view = TreeCanvas(DARK.tree, frame)
    view.resize(300, 200)
    view.show_tree(newest)
    assert "to the left" in said(view)
    view.resize(120, 200)
    frame.show()
    view.show_tree(newest)
    picture = shown(view)
    assert picture.view.width == 120
    assert not picture.has_lead
    assert "to the left" not in said(view)
    assert view.origin.x <= picture.chip(BONUS_NODE).x <= view.origin.x + 120


@pytest.mark.parametrize("colors", [DARK, LIGHT], ids=["dark", "light"])
def test_no_chip_is_cut_at_the_edge_while_following(qtbot: QtBot, panel: TreePanel, colors: Colors) -> None:
    panel.set_theme(colors)
    view, picture = show(qtbot, panel, long_path(200))
    fills = {
        ink.fill
        for ink in (colors.tree.root, colors.tree.accepted, colors.tree.bonus, *colors.tree.ramp, *colors.tree.rejected)
    }
    assert not fills & edge_colours(view, range(1))
    rejected = max(
        (node for node in picture.layout.places if node not in picture.path), key=lambda node: picture.chip(node).x
    )
    drag(view, round(view.origin.x - picture.chip(rejected).x - 10))
    assert fills & edge_colours(view, range(1))  # by hand they are pushed over the edge


def drag(view: TreeCanvas, to_the_right: int) -> None:
    QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(100, 100))
    QTest.mouseMove(view.viewport(), QPoint(100 + to_the_right, 100))
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(100 + to_the_right, 100))


def test_sign_hides_the_chips_below_it(qtbot: QtBot, panel: TreePanel) -> None:
    panel.set_theme(DARK)
    view, picture = show(qtbot, panel, long_path(200, rejected=0))
    in_first_row = QPointF(4, picture.chip(0).y + picture.chip(0).height / 2)
    view.set_following(False)
    QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(200, 100))
    for x in range(205, 290, 5):
        QTest.mouseMove(view.viewport(), QPoint(x, 100))
        found = view.tooltip_at(in_first_row)
        assert found is not None
        assert f"begins {picture.hidden(view.origin)} tokens" in found[0]
        seen = edge_colours(view, range(found[1].right() - 1))
        assert not {DARK.tree.accepted.fill, DARK.tree.accepted.line, DARK.tree.root.fill} & seen
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(285, 100))


def test_home_shows_the_root_and_end_the_bonus_token(qtbot: QtBot, panel: TreePanel) -> None:
    view, picture = show(qtbot, panel, long_path(200))
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    followed = view.origin
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.origin == Point(0, 0)
    assert not is_following(panel)
    assert "to the left" not in said(view)
    QTest.keyClick(view, Qt.Key.Key_End)
    assert view.origin == followed
    box = picture.chip(BONUS_NODE)
    assert view.origin.x <= box.x < box.x + box.width <= view.origin.x + view.width()


def is_following(panel: TreePanel) -> bool:
    return next(button for button in panel.findChildren(QToolButton) if button.text() == "Follow").isChecked()
