"""The panel as a person meets it: rounds come in, the tree is looked at, closed and opened again."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDockWidget, QLabel, QMainWindow, QToolTip
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel
from app.tree.picture.picture import BONUS_NODE
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT, LIGHT_CONTRAST, Colors
from engine.protocol.messages import Tree
from tests.app.tree.panels import button, canvas, caption, colours, image, message, news, show, shown, wheel
from tests.app.tree.trees import random_round, round_of

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window

EMPTY = "The speculation tree appears here while an answer is written."


def test_empty_panel_says_what_will_appear(panel: TreePanel) -> None:
    assert message(panel) == EMPTY
    assert caption(panel).text() == ""


@pytest.mark.parametrize("key", [Qt.Key.Key_E, Qt.Key.Key_A])
def test_what_needs_a_round_says_so_where_there_is_none(panel: TreePanel, key: Qt.Key) -> None:
    panel.setFocus()
    QTest.keyClick(panel, key)
    assert news(panel).words.text() == "There is no round to look at yet."


def test_round_is_shown_with_its_figures(qtbot: QtBot, panel: TreePanel) -> None:
    newest = random_round(64, seed=3, index=11)
    show(qtbot, panel, newest)
    accepted = len(newest.accepted) - 1
    assert message(panel) == ""
    assert caption(panel).text().startswith(f"Round 12 · {accepted} accepted + 1 bonus = {accepted + 1} token")
    assert caption(panel).text().endswith(f" · 64 nodes · depth {shown(panel).tree.depth}")
    said = canvas(panel).accessibleDescription()
    assert said.startswith(caption(panel).text())
    assert "Accepted: " in said
    assert "Bonus token: " in said
    assert "are folded" not in said


def test_the_buttons_stay_in_their_place_when_the_first_figures_come(qtbot: QtBot, panel: TreePanel) -> None:
    chips = button(panel, "Chips")
    before = chips.mapTo(panel, QPoint())
    show(qtbot, panel, random_round(32, 1))
    panel.layout().activate()  # type: ignore[union-attr]
    assert caption(panel).text()
    assert chips.mapTo(panel, QPoint()) == before


def test_every_figure_is_defined(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(64, seed=3))
    labels = caption(panel).findChildren(QLabel)
    assert len(labels) == 4
    assert all(len(label.toolTip()) > 30 for label in labels)


def test_burst_of_rounds_ends_with_the_newest_and_skips_what_nobody_could_see(qtbot: QtBot, panel: TreePanel) -> None:
    composed: list[int] = []
    canvas(panel).composed.connect(lambda: composed.append(shown(panel).tree.number))
    for index in range(200):
        panel.show_round(random_round(20, seed=index, index=index))
    qtbot.waitUntil(lambda: composed[-1:] == [200])
    assert composed == sorted(composed)
    assert len(composed) < 100


def test_clear_brings_back_the_empty_panel(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(20))
    panel.show_round(random_round(20, index=1))
    panel.clear()
    assert message(panel) == EMPTY
    assert caption(panel).text() == ""
    show(qtbot, panel, random_round(20, index=2))
    assert message(panel) == ""


def test_round_without_a_draft_is_root_and_bonus(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(0))
    assert "0 accepted + 1 bonus = 1 token · nothing drafted" in caption(panel).text()
    found = colours(image(panel))
    assert {DARK.tree.bonus.line, LIGHT.tree.bonus.line} & found
    assert {DARK.tree.root.fill, LIGHT.tree.root.fill} & found


@pytest.mark.parametrize("colors", [DARK, LIGHT, DARK_CONTRAST, LIGHT_CONTRAST])
def test_theme_colours_what_is_shown(qtbot: QtBot, panel: TreePanel, colors: Colors) -> None:
    other = LIGHT if colors is DARK else DARK
    panel.set_theme(other)
    show(qtbot, panel, round_of([0, 1, 2, 3], [-1, 0, 1, 0], [0, -0.1, -0.2, -3], (0, 1, 2)))
    panel.set_theme(colors)
    tree, found = colors.tree, colours(image(panel))
    assert {tree.background, tree.accepted.fill, tree.bonus.fill, tree.root.fill} <= found
    assert other.tree.background not in found
    assert panel.grab().toImage().pixelColor(2, 2).name() == tree.background


def test_closed_dock_rests_and_catches_up_when_opened_again(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    dock, panel = QDockWidget("Tree", window), TreePanel()
    dock.setWidget(panel)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    window.resize(900, 600)
    with qtbot.waitExposed(window):
        window.show()
    show(qtbot, panel, random_round(30, index=0))
    dock.close()
    for index in range(1, 6):
        panel.show_round(random_round(30, seed=index, index=index))
    with qtbot.assertNotEmitted(canvas(panel).composed, wait=100):
        panel.show_round(random_round(30, seed=9, index=9))
    dock.show()
    qtbot.waitUntil(lambda: shown(panel).tree.number == 10)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Tree(b"", b"", b"", ()), "no nodes"),
        (Tree(b"\x01", b"\x01", b"\x01", ("x",)), "in the middle of a number"),
        (replace(random_round(5).tree, pieces=()), "0 texts"),
    ],
)
def test_malformed_tree_is_a_message_and_the_next_round_is_shown(
    qtbot: QtBot, panel: TreePanel, broken: Tree, reason: str
) -> None:
    show(qtbot, panel, random_round(20))
    panel.show_round(replace(random_round(20, index=1), tree=broken))
    qtbot.waitUntil(lambda: reason in message(panel))
    assert "round 2 cannot be shown" in message(panel)
    show(qtbot, panel, random_round(20, index=2))
    assert message(panel) == ""


def test_wheel_unfolds_around_the_pointer_and_fit_folds_again(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(1024, seed=3))
    view, before = canvas(panel), shown(panel)
    node = max(before.layout.places, key=lambda node: before.layout.places[node].row)
    box = before.chip(node)
    at = QPointF(box.x + box.width / 2 - view.origin.x, box.y + box.height / 2 - view.origin.y)
    wheel(view, at, notches=3)
    after = shown(panel)
    assert len(after.layout.places) > len(before.layout.places)
    assert f"{len(after.layout.places) - 1:,} shown" in caption(panel).text()
    assert after.chip(node).y - view.origin.y == pytest.approx(box.y, abs=after.grid.row)
    button(panel, "Fit").click()
    assert shown(panel).layout == before.layout
    assert view.origin == (0, 0)


def test_keys_zoom_and_fit(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(1024, seed=3))
    view = canvas(panel)
    panel.activateWindow()
    view.setFocus()
    qtbot.waitUntil(view.hasFocus)
    few = len(shown(panel).layout.places)
    QTest.keyClick(view, Qt.Key.Key_Plus)
    many = len(shown(panel).layout.places)
    QTest.keyClick(view, Qt.Key.Key_Minus)
    assert few == len(shown(panel).layout.places) < many
    QTest.keyClick(view, Qt.Key.Key_Plus)
    QTest.keyClick(view, Qt.Key.Key_F)
    assert len(shown(panel).layout.places) == few


def test_zoom_ends_where_there_is_no_more_to_see(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(12, seed=3))
    for _ in range(60):
        wheel(canvas(panel), QPointF(50, 50), notches=1)
    largest = shown(panel).size
    wheel(canvas(panel), QPointF(50, 50), notches=1)
    assert shown(panel).size == largest
    assert shown(panel).grid.scale == pytest.approx(3.0, rel=0.3)


def test_drag_moves_the_picture_and_ends_following(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(1024, seed=3))
    view, follow = canvas(panel), button(panel, "Follow")
    wheel(view, QPointF(350, 240), notches=5)
    before = view.origin
    assert follow.isChecked()
    viewport = view.viewport()
    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, pos=QPoint(300, 300))
    QTest.mouseMove(viewport, QPoint(280, 250))
    QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=QPoint(280, 250))
    assert view.origin == (before.x + 20, before.y + 50)
    assert not follow.isChecked()
    show(qtbot, panel, random_round(1024, seed=4, index=1))
    assert view.origin == (before.x + 20, before.y + 50)
    follow.click()
    box = shown(panel).chip(BONUS_NODE)
    assert view.origin.x <= box.x <= view.origin.x + view.width()
    assert view.origin.y <= box.y <= view.origin.y + view.height()


def test_chips_explain_themselves_where_they_are_seen(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, round_of([0, 1, 2], [-1, 0, 0], [0, -0.1, -3], (0, 1), pieces=("<i>", " a", "b")))
    view, picture = canvas(panel), shown(panel)
    said = {}
    for node in (0, 1, 2, BONUS_NODE):
        box = picture.chip(node)
        found = view.tooltip_at(QPointF(box.x + box.width / 2, box.y + box.height / 2))
        assert found is not None
        said[node] = found[0]
        assert found[1].contains(QPoint(round(box.x + 2), round(box.y + 2)))
    assert "<i>" in said[0]
    assert "Accepted" in said[1]
    assert "Rejected" in said[2]
    assert "Bonus" in said[BONUS_NODE]
    assert view.tooltip_at(QPointF(690, 400)) is None


def test_text_is_neither_mirrored_nor_stretched_by_the_view(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(64, seed=3))
    view = canvas(panel)
    chips = next(item for item in view.scene().items() if type(item).__name__ == "ChipsItem")
    for size in ((700, 500), (350, 250), (1000, 300)):
        panel.resize(*size)
        transform, scale = chips.deviceTransform(view.viewportTransform()), shown(panel).grid.scale
        assert (transform.m11(), transform.m22()) == pytest.approx((scale, scale))
        assert (transform.m12(), transform.m21()) == (0, 0)


def test_narrow_panel_keeps_the_telling_figures(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(1024, seed=3))
    panel.resize(350, 250)
    labels = caption(panel).findChildren(QLabel)
    assert panel.width() == 350
    assert [label.isVisible() for label in labels] == [True, True, True, True]
    assert labels[1].text() == " · 0 + 1 = 1 token", "in fewer words"
    assert "0 accepted + 1 bonus = 1 token" in caption(panel).text()
    panel.resize(210, 250)
    assert [label.isVisible() for label in labels] == [True, True, False, False]
    panel.resize(700, 250)
    assert labels[1].text() == " · 0 accepted + 1 bonus = 1 token"


def test_tooltip_follows_the_pointer_and_goes_with_the_tree(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, round_of([0, 1, 2], [-1, 0, 0], [0, -0.1, -3], (0, 1)))
    view = canvas(panel)
    box = shown(panel).chip(1)
    inside = QPoint(round(box.x + box.width / 2), round(box.y + box.height / 2))
    QTest.mouseMove(view.viewport(), QPoint(400, 300))
    QTest.mouseMove(view.viewport(), inside)
    qtbot.waitUntil(lambda: "Accepted" in QToolTip.text())
    QTest.mouseMove(view.viewport(), QPoint(400, 300))
    qtbot.waitUntil(lambda: not QToolTip.isVisible())
