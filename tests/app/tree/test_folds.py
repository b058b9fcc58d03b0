"""What is folded opens by click and by key, beside what was seen before, and folds again."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel
from app.tree.picture.canvas import ICICLE, TreeCanvas
from app.tree.picture.chips.chips_layout import likeliest_first
from app.tree.picture.picture import BONUS_NODE
from tests.app.tree.panels import canvas, show, shown
from tests.app.tree.recorded import recorded_rounds, recorded_trees

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window


def opened_panel(qtbot: QtBot, panel: TreePanel) -> TreeCanvas:
    panel.resize(420, 700)
    panel.activateWindow()
    show(qtbot, panel, recorded_rounds()["hard 1024"])
    view = canvas(panel)
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    return view


def a_fold(panel: TreePanel) -> int:
    picture = shown(panel)
    return max((node for node in picture.layout.folded if node not in picture.path), key=picture.folded)


def count_of(panel: TreePanel, node: int) -> QPoint:
    """The middle of the count behind a node."""
    picture, view = shown(panel), canvas(panel)
    box, gap = picture.chip(node), picture.gap * picture.grid.scale
    return QPointF(box.x + box.width + gap / 2 - view.origin.x, box.y + box.height / 2 - view.origin.y).toPoint()


def test_a_click_on_a_count_unfolds_it_and_fit_folds_again(qtbot: QtBot, panel: TreePanel) -> None:
    view = opened_panel(qtbot, panel)
    node, before = a_fold(panel), shown(panel)
    place = count_of(panel, node)
    assert f"{before.folded(node)} guesses are folded here" in str(view.tooltip_at(QPointF(place)))
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    after = shown(panel)
    assert after.folded(node) < before.folded(node)
    assert after.layout.shape is before.layout.shape
    assert set(after.tree.accepted) <= set(after.layout.places)
    view.fit()
    assert shown(panel).layout.places == before.layout.places


def test_a_drag_that_begins_on_a_count_opens_nothing(qtbot: QtBot, panel: TreePanel) -> None:
    view, before = opened_panel(qtbot, panel), shown(panel)
    place = count_of(panel, a_fold(panel))
    QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    QTest.mouseMove(view.viewport(), place + QPoint(60, 60))
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=place + QPoint(60, 60))
    assert shown(panel) is before


def test_keys_reach_a_fold_open_it_and_close_it(qtbot: QtBot, panel: TreePanel) -> None:
    view, before = opened_panel(qtbot, panel), shown(panel)
    QTest.keyClick(view, Qt.Key.Key_Left)  # from the last accepted one
    while view.picked[0] != 0:
        QTest.keyClick(view, Qt.Key.Key_Left)
    while not before.folded(view.picked[0] or 0) or view.picked[0] in before.path:
        QTest.keyClick(view, Qt.Key.Key_Down)
    node = view.picked[0]
    assert node is not None
    assert "(press O to see them)" in view.accessibleDescription()
    QTest.keyClick(view, Qt.Key.Key_O)
    assert shown(panel).folded(node) < before.folded(node)
    assert view.picked[0] == node
    QTest.keyClick(view, Qt.Key.Key_Escape)
    assert shown(panel).layout.places == before.layout.places


def test_right_goes_into_a_fold(qtbot: QtBot, panel: TreePanel) -> None:
    view, picture = opened_panel(qtbot, panel), shown(panel)
    parents = {int(picture.tree.parents[node]) for node in picture.layout.places if node}
    closed = next(node for node in picture.layout.folded if node not in parents and node not in picture.path)
    box = picture.chip(closed)
    QTest.mouseMove(view.viewport(), QPointF(box.x + 4 - view.origin.x, box.y + 4 - view.origin.y).toPoint())
    assert view.picked[0] == closed
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.picked[0] is not None
    assert int(picture.tree.parents[view.picked[0]]) == closed


def test_bands_are_zoomed_instead(qtbot: QtBot, panel: TreePanel) -> None:
    view = opened_panel(qtbot, panel)
    panel.set_way(ICICLE)
    before = view.picture
    assert before is not None
    node = next(node for node in before.nodes() if before.folded(node))
    view.open_fold(node)
    assert view.picture is not None
    assert view.picture.shown > before.shown


def test_what_was_opened_is_forgotten_with_the_round(qtbot: QtBot, panel: TreePanel) -> None:
    view = opened_panel(qtbot, panel)
    view.open_fold(a_fold(panel))
    other = recorded_trees()["easy 256"]
    view.show_tree(other)
    places = shown(panel).layout.places
    view.fit()
    assert shown(panel).layout.places == places


@pytest.mark.parametrize("node", [0, 5, 300, 1000])
@pytest.mark.parametrize("times", [1, 3])
def test_the_order_of_unfolding_never_puts_a_node_before_its_parent(node: int, times: int) -> None:
    tree = recorded_trees()["hard 1024"]
    order = likeliest_first(tree, (node,) * times)
    ranks = {each: rank for rank, each in enumerate(order)}
    assert len(ranks) == len(tree.parents)
    assert all(ranks[int(tree.parents[each])] < ranks[each] for each in range(1, len(tree.parents)))


def test_nothing_is_folded_where_everything_fits(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, recorded_rounds()["easy 16"])
    view, before = canvas(panel), shown(panel)
    box = before.chip(BONUS_NODE)
    view.open_fold()
    QTest.mouseClick(
        view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(round(box.x + box.width + 8), round(box.y + 8))
    )
    assert shown(panel) is before
