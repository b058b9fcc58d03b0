"""The tree panel in front of engines elsewhere, which tell steps without trees, or nothing."""

import math

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.engine.steps import StepHistory
from app.tree.elsewhere import PLAIN, UNTOLD, WRITING
from app.tree.panel import TreePanel
from app.tree.picture.steps import StepsPicture, distribution, frame_of
from app.ui.colors import DARK, DARK_CONTRAST, LIGHT
from engine.protocol.messages import Failed, Finished, Statistics, Steps, Wrote
from tests.app.fake_engine import round_of
from tests.app.tree.panels import caption, colours, message, news

REQUEST = 7


def picture(panel: TreePanel) -> StepsPicture:
    return panel.findChildren(StepsPicture)[0]


def test_steps_are_shown_told_and_copied(panel: TreePanel, qtbot: QtBot) -> None:
    panel.follow(REQUEST)
    panel.on_events([Wrote(REQUEST, "Once", 1), Wrote(8, "others'", 1)])
    qtbot.waitUntil(lambda: message(panel) == WRITING)
    panel.on_events([Steps(REQUEST, (4, 4, 0, 2), (3, 0, 0, 2)), Steps(8, (9,), (9,))])
    qtbot.waitUntil(picture(panel).isVisible)
    qtbot.waitUntil(lambda: caption(panel).text() == "4 steps · 2.25 tokens per step · 50% accepted")
    shown = picture(panel)
    shown.setFocus()
    QTest.keyClick(shown, Qt.Key.Key_Home)
    assert shown.words.startswith("Step 1: 3 of 4 drafted tokens accepted")
    assert shown.accessibleDescription() == shown.words
    QTest.keyClick(shown, Qt.Key.Key_End)
    QTest.keyClick(shown, Qt.Key.Key_Right)
    QTest.keyClick(shown, Qt.Key.Key_Left)
    assert shown.words == "Step 3: nothing drafted, 1 token"
    column = shown._frame().column(1).center()
    QTest.mouseMove(shown, QPoint(1, 1))
    QTest.mouseMove(shown, column.toPoint())
    qtbot.waitUntil(lambda: shown.words.startswith("Step 2: 0 of 4"))
    panel.exports.copy_text()
    assert QGuiApplication.clipboard().text().splitlines()[1:] == ["1\t4\t3", "2\t4\t0", "3\t0\t0", "4\t2\t2"]
    assert "clipboard" in news(panel).words.text()
    for colors in (DARK, DARK_CONTRAST, LIGHT):
        panel.set_theme(colors)
        image = shown.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        seen = colours(image)
        assert {colors.tree.accepted.line, colors.tree.background} <= seen
    panel.follow(REQUEST + 2)
    panel.show_round(round_of(REQUEST + 2, 0, "a"))
    panel.on_events([round_of(REQUEST + 2, 0, "a")])
    qtbot.waitUntil(lambda: not shown.isVisible())
    panel.clear()
    assert not caption(panel).text()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, UNTOLD),
        (Statistics(method="", new_tokens=5), UNTOLD),
        (Statistics(method="none", new_tokens=5, passes=5), PLAIN),
        (Statistics(method="draft", new_tokens=30, passes=10, drafted_nodes=40), "50% of the drafted tokens accepted"),
        (Statistics(method="draft", new_tokens=10**30, passes=1, drafted_nodes=-4), UNTOLD),
    ],
)
def test_without_steps_it_says_what_is_known(
    panel: TreePanel, told: Statistics | None, words: str, qtbot: QtBot
) -> None:
    panel.follow(REQUEST)
    panel.on_events([Wrote(REQUEST, "Hi"), Finished(REQUEST, "stop", "", told)])
    qtbot.waitUntil(lambda: words in message(panel))


def test_an_answer_that_fails_tells_nothing_more(panel: TreePanel, qtbot: QtBot) -> None:
    panel.follow(REQUEST)
    panel.on_events([Wrote(REQUEST, "Hi"), Failed(REQUEST, "The connection broke.")])
    qtbot.waitUntil(lambda: message(panel) == UNTOLD)


def test_no_number_breaks_the_picture(qtbot: QtBot) -> None:
    shown = StepsPicture(LIGHT.tree)
    qtbot.addWidget(shown)
    strange: tuple[float, ...] = (10**30, -1, math.inf, math.nan, 3)
    for drafted in (strange, (3,) * 9000, tuple(range(200))):
        steps = StepHistory()
        steps.add(Steps(1, drafted, drafted))  # type: ignore[arg-type]
        shown.show_steps(steps)
        for width, height in ((30, 20), (360, 360), (2000, 90)):
            shown.resize(width, height)
            shown.grab()


def test_the_newest_steps_and_the_last_rows_are_what_has_room() -> None:
    steps = StepHistory()
    steps.add(Steps(1, (2,) * 300, (1,) * 300))
    frame = frame_of(steps, QRectF(0, 0, 400, 50))
    assert (frame.first, len(frame.steps), frame.width) == (200, 100, 4.0)
    assert frame.place_at(QPointF(399, 0).x()) == 99
    assert frame.place_at(401) is None
    assert distribution([5, 0, 2, 1], 9) == [("0", 5), ("1", 0), ("2", 2), ("3", 1)]
    assert distribution([5, 0, 2, 1], 3) == [("0", 5), ("1–2", 2), ("3", 1)]
    assert distribution([1, 1, 1, 1, 1, 1], 0) == [("0", 1), ("1–5", 5)]
    assert distribution([], 3) == []
