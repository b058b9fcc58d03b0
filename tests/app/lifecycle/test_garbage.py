"""Garbage is taken apart in the window's thread, whoever made it."""

import gc
import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.shell.application import Garbage

COUNT = 3000  # more than Python itself would wait for


@pytest.fixture
def garbage(qtbot: QtBot) -> Iterator[Garbage]:
    """At work."""
    made = Garbage()
    made.begin()
    yield made
    made.end()


class Knot:
    """Something that only a search for garbage finds; it tells where it ended."""

    def __init__(self, ends: list[threading.Thread]) -> None:
        self.itself = self
        self.ends = ends

    def __del__(self) -> None:
        self.ends.append(threading.current_thread())


def tie(ends: list[threading.Thread]) -> None:
    """A lot of garbage."""
    for _ in range(COUNT):
        Knot(ends)


def test_what_another_thread_drops_is_taken_apart_in_the_windows(qtbot: QtBot, garbage: Garbage) -> None:
    ends: list[threading.Thread] = []
    thread = threading.Thread(target=tie, args=(ends,))
    thread.start()
    thread.join()
    assert ends == []
    qtbot.waitUntil(lambda: len(ends) == COUNT)
    assert set(ends) == {threading.main_thread()}


def test_python_does_it_again_afterwards(qtbot: QtBot) -> None:
    made = Garbage()
    made.begin()
    assert not gc.isenabled()
    made.end()
    assert gc.isenabled()
