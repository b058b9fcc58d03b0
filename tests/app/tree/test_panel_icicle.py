"""The panel as an icicle: switched to by key, coloured, zoomed."""

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.tree.panel import TreePanel
from app.tree.picture.icicle_layout import IciclePicture
from app.ui.colors import DARK, LIGHT
from tests.app.tree.panels import button, canvas, caption, colours, image, show, shown, wheel
from tests.app.tree.trees import random_round, round_of

pytestmark = pytest.mark.qt_log_ignore(r"This plugin does not support (propagateSizeHints|raise)")  # of every window


def test_keys_and_buttons_switch_between_chips_and_icicle(qtbot: QtBot, panel: TreePanel) -> None:
    show(qtbot, panel, random_round(1024, seed=3))
    few = len(shown(panel).layout.places) - 1
    with qtbot.waitSignal(panel.way_chosen) as chosen:
        QTest.keyClick(panel, Qt.Key.Key_2)
    assert chosen.args == ["icicle"]
    picture = canvas(panel).picture
    assert isinstance(picture, IciclePicture)
    assert picture.shown > few
    assert f"{picture.shown:,} shown" in caption(panel).text()
    with qtbot.waitSignal(panel.way_chosen) as chosen:
        button(panel, "Chips").click()
    assert chosen.args == ["chips"]
    assert len(shown(panel).layout.places) - 1 == few


@pytest.mark.parametrize("dark", [True, False])
def test_icicle_shows_path_bonus_and_rejected_in_the_colours_of_the_theme(
    qtbot: QtBot, panel: TreePanel, dark: bool
) -> None:
    panel.set_theme(DARK if dark else LIGHT)
    panel.set_way("icicle")
    panel.show_round(round_of([0, 1, 2, 3], [-1, 0, 1, 0], [0, -0.1, -0.2, -3], (0, 1, 2)))
    qtbot.waitUntil(lambda: canvas(panel).picture is not None)
    colour = (DARK if dark else LIGHT).tree
    fills = {colour.accepted.fill, colour.bonus.fill, colour.root.fill, colour.rejected[3].fill}
    assert fills <= colours(image(panel))


def test_icicle_zooms_at_the_pointer_and_fits_again(qtbot: QtBot, panel: TreePanel) -> None:
    panel.set_way("icicle")
    panel.show_round(random_round(1024, seed=3))
    qtbot.waitUntil(lambda: canvas(panel).picture is not None)
    view = canvas(panel)
    before = view.picture
    assert before is not None
    wheel(view, QPointF(200, 300), notches=6)
    after = view.picture
    assert after is not None
    assert after.shown > before.shown
    button(panel, "Fit").click()
    assert view.picture is not None
    assert view.picture.shown == before.shown
