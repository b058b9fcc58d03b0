"""The tour of the first run: three steps that point at what is really there, once, and never in the way."""

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.settings.store import SettingsFile
from app.shell.tour.callout import Callout, Side, placed
from app.shell.window import MainWindow
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.test_window import ask, press
from tests.app.tree.panels import canvas

ROOM = QRect(0, 0, 1000, 700)
SIZE = QSize(300, 150)


@pytest.mark.parametrize(
    ("target", "avoid", "side"),
    [
        (QRect(400, 300, 100, 30), QRect(), Side.BELOW),
        (QRect(400, 640, 100, 30), QRect(), Side.ABOVE),
        (QRect(400, 300, 100, 30), QRect(300, 340, 300, 200), Side.ABOVE),
        (QRect(10, 10, 60, 680), QRect(), Side.RIGHT),
        (QRect(930, 10, 60, 680), QRect(), Side.LEFT),
        (QRect(500, 20, 440, 660), QRect(), Side.LEFT),  # the tree: what is told of it stands at its end
        (ROOM, QRect(), Side.WITHIN),
    ],
)
def test_the_bubble_stands_where_it_covers_nothing(target: QRect, avoid: QRect, side: Side) -> None:
    place = placed(SIZE, target, ROOM, avoid)
    assert place.side is side
    assert ROOM.contains(place.rect)
    assert not place.rect.intersects(avoid)
    assert side is Side.WITHIN or not place.rect.intersects(target)
    assert place.rect.contains(place.tip)


def test_in_a_room_that_is_too_small_it_is_still_seen() -> None:
    place = placed(SIZE, QRect(0, 0, 320, 200), QRect(0, 0, 320, 200), QRect(0, 150, 320, 50))
    assert QRect(0, 0, 320, 200).contains(place.rect)


@pytest.fixture
def told(window: MainWindow, link: FakeLink) -> MainWindow:
    """A window with an answer of some rounds."""
    ask(window, "Hello")
    link.say("Good", " day")
    link.finish()
    return window


def callout(window: MainWindow) -> Callout:
    shown = window.tour.callout
    assert shown is not None
    return shown


def points_at(window: MainWindow, target: QWidget) -> bool:
    """Whether the ring is around a widget."""
    ring = window.tour._ring
    assert ring is not None
    seen = QRect(target.mapTo(window, QPoint()), target.size()).intersected(window.rect())
    return ring.geometry().contains(seen.intersected(ring.geometry())) and ring.geometry().intersects(seen)


def test_three_steps_with_the_numbers_of_what_is_shown(told: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: told.tree_panel.shown_tree is not None)
    told.actions_.tour.trigger()
    shown = callout(told)
    tree = told.tree_panel.shown_tree
    assert tree is not None
    assert f"guessed a tree of {tree.drafted} tokens" in shown.text
    assert points_at(told, told.tree_panel)
    assert QApplication.focusWidget() is shown.next
    for _ in range(5):
        QTest.keyClick(QApplication.focusWidget() or shown, Qt.Key.Key_Tab)
        assert shown.isAncestorOf(QApplication.focusWidget() or told), "Tab stays within"
    shown.next.setFocus()
    press(told, Qt.Key.Key_Return)
    assert "tokens per pass" in shown.text
    assert points_at(told, told.chat_panel.view.answers[-1].figures)
    shown.back.click()
    assert shown.text.startswith("1 of 3")
    shown.next.click()
    shown.next.click()
    assert "Models (Ctrl+M)" in shown.text
    button = told.tool_button(told.actions_.models)
    assert button is not None
    assert points_at(told, button)
    assert shown.next.text() == "Done"
    press(told, Qt.Key.Key_Return)
    assert told.tour.callout is None
    assert told.focusWidget() is told.chat_panel.composer.field


def test_back_at_the_first_step_enter_goes_on_and_does_not_end_it(told: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: told.tree_panel.shown_tree is not None)
    told.actions_.tour.trigger()
    press(told, Qt.Key.Key_Return)
    callout(told).back.setFocus()
    press(told, Qt.Key.Key_Return)
    assert callout(told).text.startswith("1 of 3")
    assert QApplication.focusWidget() is callout(told).next
    press(told, Qt.Key.Key_Return)
    callout(told).skip.setFocus()
    callout(told).next_wanted.emit()
    assert callout(told).text.startswith("3 of 3")
    assert QApplication.focusWidget() is callout(told).next, "the last step has nothing to skip"


def test_the_ring_covers_nothing_beside_what_is_pointed_at(told: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: told.tree_panel.shown_tree is not None)
    figures = told.chat_panel.view.answers[-1].figures
    figures.setMinimumWidth(400)  # as a long sentence behind them would have it
    told.actions_.tour.trigger()
    ring, page = told.tour._ring, told.tree_panel.page
    assert ring is not None
    assert QRect(page.mapTo(told, QPoint()), page.size()).contains(ring.geometry())
    press(told, Qt.Key.Key_Return)
    around = QRect()
    for each in figures.shown:
        around = around.united(QRect(each.mapTo(told, QPoint()), each.size()))
    assert around
    assert around.adjusted(-8, -8, 8, 8).contains(ring.geometry()), "around the figures, not around all of their row"


def test_while_the_next_answer_is_written_it_tells_no_numbers_of_the_last_one(
    told: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: told.tree_panel.shown_tree is not None)
    told.actions_.tour.trigger()
    before = callout(told).text
    ask(told, "And now?")
    link.say("Good")
    assert "in every round" in callout(told).text
    link.say(" day")
    link.finish()
    assert "in every round" not in callout(told).text
    assert callout(told).text.split(".")[0] == before.split(".")[0]


def test_it_comes_by_itself_once_and_leaves_the_keys_alone(
    window: MainWindow, link: FakeLink, settings: SettingsFile, qtbot: QtBot
) -> None:
    field = window.chat_panel.composer.field
    window.tour._quiet.setInterval(0)
    window.tour.offer()
    ask(window, "Hello")
    link.say("Good")
    link.finish()
    qtbot.waitUntil(lambda: window.tour.is_shown)
    assert settings.current.toured
    assert window.focusWidget() is field
    QTest.keyClicks(field, "next")
    assert field.toPlainText() == "next"
    press(window, Qt.Key.Key_Return)
    press(window, Qt.Key.Key_Escape)
    is_shown = [window.tour.is_shown]  # Escape has stopped the answer
    link.finish("cancelled")
    press(window, Qt.Key.Key_Escape)
    assert [*is_shown, window.tour.is_shown] == [True, False]
    window.tour.offer()
    assert not window.tour._is_offered


def test_who_has_chats_from_before_is_not_shown_it(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    window.tour._quiet.setInterval(0)
    for question in ("one", "two"):
        window.chat.start_new_chat()
        ask(window, question)
        link.say("yes")
        link.finish()
    window.tour.offer()
    window.chat.answer_changed.emit(window.chat.conversation.last_answer, "")
    qtbot.waitUntil(lambda: window.settings.current.toured)
    assert not window.tour.is_shown


def test_it_follows_what_it_points_at(told: MainWindow, qtbot: QtBot) -> None:
    told.resize(1300, 800)
    told.tour.begin()
    for size in ((900, 600), (560, 480)):
        told.resize(*size)
        qtbot.waitUntil(lambda: not told.tour._soon.isActive())
        assert told.rect().contains(callout(told).geometry())
    told.tree_dock.hide()
    qtbot.waitUntil(lambda: not points_at(told, told.tree_panel) or not told.tree_panel.isVisible())
    told.tour._place()
    shown = callout(told)
    assert shown.isVisible()
    assert "This button shows the tree" in shown.text
    shown.next.click()
    told.chat.start_new_chat()
    told.tour._place()
    assert shown.isVisible(), "there is no answer any more: it points at where one can ask"


def test_it_goes_along_into_a_window_of_its_own_with_the_focus(told: MainWindow, qtbot: QtBot) -> None:
    """On its way it is hidden for a moment, and asked where the focus is to go: an error there ended the program."""
    told.begin_tour()
    bubble = callout(told)
    bubble.hide()
    assert not bubble.focusNextPrevChild(True)
    bubble.show()
    bubble.next.setFocus()
    told.tree_dock.setFloating(True)
    qtbot.waitUntil(lambda: bubble.parentWidget() is told.tree_dock and bubble.isVisible())


def test_before_anything_was_asked_it_says_what_will_be_there(open_window: OpenWindow, link: FakeLink) -> None:
    window = open_window(link)
    window.tour.begin()
    assert "Ask something" in callout(window).text
    callout(window).next.click()
    assert "Below every answer" in callout(window).text
    callout(window).skip.click()
    assert not window.tour.is_shown


def test_escape_in_the_tree_ends_it(told: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: told.tree_panel.shown_tree is not None)
    told.tour.begin()
    canvas(told.tree_panel).setFocus()
    press(told, Qt.Key.Key_Escape)
    assert not told.tour.is_shown


def test_escape_ends_it_in_a_window_that_no_shortcut_reaches(told: MainWindow) -> None:
    told.tour.begin()
    told.chat_panel.setFocus()
    told.tour._escape.setEnabled(False)  # as it is for Qt where no window manager makes the window the active one
    escape = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Escape, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(told.chat_panel.composer.field, escape)
    assert not told.tour.is_shown


def test_from_right_to_left(told: MainWindow) -> None:
    QApplication.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    try:
        told.tour.begin()
        assert told.rect().contains(callout(told).geometry())
        assert callout(told).next.x() < callout(told).skip.x()
    finally:
        QApplication.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
