"""What threads tell the window."""

import threading

import pytest
import shiboken6
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.system.window_thread import in_window_thread


class Listener(QObject):
    """Writes down what it was told, and in which thread."""

    def __init__(self, heard: list[tuple[object, bool]]) -> None:
        super().__init__()
        self._heard = heard

    def on_told(self, what: object) -> None:
        """The method that threads call."""
        self._heard.append((what, threading.current_thread() is threading.main_thread()))


def tell_from_thread(listener: Listener, *told: object) -> None:
    tell = in_window_thread(listener.on_told)
    thread = threading.Thread(target=lambda: [tell(each) for each in told])
    thread.start()
    thread.join()


def test_it_is_told_in_turn_in_the_window_s_thread(qtbot: QtBot) -> None:
    heard: list[tuple[object, bool]] = []
    listener = Listener(heard)
    tell_from_thread(listener, 1, 2, 3)
    assert heard == []
    qtbot.waitUntil(lambda: len(heard) == 3)
    assert heard == [(1, True), (2, True), (3, True)]


@pytest.mark.parametrize("by_qt", [True, False])
def test_what_is_gone_is_told_nothing(qtbot: QtBot, by_qt: bool) -> None:
    heard: list[tuple[object, bool]] = []
    listener, other = Listener(heard), Listener(heard)
    tell_from_thread(listener, "lost")
    if by_qt:
        shiboken6.delete(listener)
    else:
        del listener
    tell_from_thread(other, "heard")
    qtbot.waitUntil(lambda: bool(heard))
    assert heard == [("heard", True)]
