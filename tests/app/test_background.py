"""Threads at the end of the program: it waits for those that work, and not for those that wait for a network."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.downloads.dependencies import Dependencies
from app.downloads.progress import Request
from app.downloads.queue import DownloadQueue, Journal
from app.hub.client import HubClient
from app.hub.failures import HubError
from app.hub.place import HubPlace
from app.system.background import Stop, can_be_left, start, still_running
from engine.errors import Cancelled

PATIENCE_SECONDS = 30.0
SOON_SECONDS = 10.0  # a third of that: it did not wait for the end


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HubPlace]:
    """A hub that takes every connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield HubPlace(f"http://127.0.0.1:{server.getsockname()[1]}", tmp_path)


@pytest.fixture
def asking(place: HubPlace) -> Iterator[threading.Thread]:
    """A thread that waits for that hub's answer."""
    client = HubClient(find_place=lambda: place, stall_seconds=PATIENCE_SECONDS)
    asked, stop = threading.Event(), Stop()

    def ask() -> None:
        asked.set()
        with suppress(HubError, Cancelled):
            client.json("/api/models", stop, 1000)

    thread = start("facts", ask)
    assert asked.wait(PATIENCE_SECONDS)
    yield thread
    stop.ask()
    client.close()


def test_a_hub_that_says_nothing_keeps_nobody_waiting(asking: threading.Thread) -> None:
    begin = time.monotonic()
    assert still_running(PATIENCE_SECONDS, [asking]) == ["facts"]
    assert time.monotonic() - begin < SOON_SECONDS


def test_a_download_from_such_a_hub_is_left(place: HubPlace, tmp_path: Path) -> None:
    waiting = Dependencies(find_place=lambda: place, stall_seconds=PATIENCE_SECONDS)
    queue = DownloadQueue(Journal(tmp_path / "downloads.json"), waiting)
    queue.add(Request("org/tiny"))
    begin = time.monotonic()
    queue.close()
    assert time.monotonic() - begin < SOON_SECONDS


def test_work_is_waited_for_also_behind_the_network() -> None:
    answered, written = threading.Event(), threading.Event()

    def work() -> None:
        with can_be_left():
            pass
        assert answered.wait(PATIENCE_SECONDS)
        written.set()

    thread = start("facts", work)
    assert still_running(0.0, [thread]) == ["facts"]
    threading.Timer(0.1, answered.set).start()
    assert still_running(PATIENCE_SECONDS, [thread]) == []
    assert written.is_set()
