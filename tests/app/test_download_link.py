"""The window's side of downloads: one signal for many changes, and one for every ending."""

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.downloads.progress import Progress, Request, State
from app.downloads.queue import DownloadQueue
from app.library.download_link import INTERVAL_MS, DownloadLink

ASKED = Request("org/tiny")


class FakeQueue(DownloadQueue):
    """A queue whose downloads change only when a test says so."""

    def __init__(self) -> None:
        self.listed: tuple[Progress, ...] = ()
        self.looked = 0
        self.told: list[tuple[str, int]] = []

    def snapshot(self) -> tuple[Progress, ...]:
        self.looked += 1
        if self.listed and self.listed[0].state is State.DOWNLOADING:  # every look finds something new
            self.listed = (replace(self.listed[0], bytes_done=self.listed[0].bytes_done + 1), *self.listed[1:])
        return self.listed

    def restore(self) -> None:
        self.listed = (Progress(7, ASKED, State.PAUSED),)

    def add(self, request: Request) -> int:
        self.listed = (*self.listed, Progress(1, request))
        return 1

    def pause(self, number: int) -> None:
        self.told.append(("pause", number))

    def close(self) -> None:
        self.told.append(("close", 0))


@pytest.fixture
def queue() -> FakeQueue:
    """Nothing is listed yet."""
    return FakeQueue()


@pytest.fixture
def link(qtbot: QtBot, queue: FakeQueue) -> DownloadLink:
    """A link to it."""
    return DownloadLink(queue)


def test_what_earlier_sessions_left_is_told_once_and_nothing_else_is_taken_for_it(
    qtbot: QtBot, queue: FakeQueue, link: DownloadLink
) -> None:
    told: list[tuple[Progress, ...]] = []
    link.restored.connect(told.append)
    with qtbot.waitSignal(link.restored):
        link.restore()
    assert [each.id for each in told[0]] == [7]
    with qtbot.waitSignal(link.changed):
        queue.listed = (Progress(1, ASKED, State.PAUSED, message="The disk is full."),)
        link.add(ASKED)
    assert len(told) == 1


def test_many_changes_are_few_signals(qtbot: QtBot, queue: FakeQueue, link: DownloadLink) -> None:
    carried: list[tuple[Progress, ...]] = []
    link.changed.connect(carried.append)
    link.add(ASKED)
    queue.listed = (Progress(1, ASKED, State.DOWNLOADING),)
    for _ in range(50):
        link.pause(1)
    assert not carried
    qtbot.waitUntil(lambda: len(carried) >= 3)
    assert queue.looked == len(carried)
    assert INTERVAL_MS >= 100
    assert link.downloads == carried[-1]


@pytest.mark.parametrize("before", [None, State.QUEUED, State.VERIFYING])
@pytest.mark.parametrize(
    ("state", "message"),
    [(State.DONE, ""), (State.FAILED, "Why."), (State.CANCELLED, ""), (State.PAUSED, "The disk is full.")],
)
def test_every_ending_is_told_once(
    qtbot: QtBot, queue: FakeQueue, link: DownloadLink, before: State | None, state: State, message: str
) -> None:
    ended: list[Progress] = []
    link.ended.connect(ended.append)
    if before is not None:
        queue.listed = (Progress(1, ASKED, before),)
        with qtbot.waitSignal(link.changed):
            link.pause(1)
    queue.listed = (Progress(1, ASKED, state, message=message),)
    with qtbot.waitSignal(link.ended):
        link.pause(1)
    queue.listed = (*queue.listed, Progress(2, ASKED))
    with qtbot.waitSignal(link.changed):
        link.pause(1)
    assert [(each.id, each.state) for each in ended] == [(1, state)]


def test_what_was_asked_for_is_no_ending(qtbot: QtBot, queue: FakeQueue, link: DownloadLink) -> None:
    ended: list[Progress] = []
    link.ended.connect(ended.append)
    with qtbot.waitSignal(link.changed):
        link.restore()
    assert link.downloads == (Progress(7, ASKED, State.PAUSED),)
    queue.listed = (Progress(7, ASKED, State.QUEUED),)
    with qtbot.waitSignal(link.changed):
        link.pause(7)
    queue.listed = (Progress(7, ASKED, State.PAUSED),)
    with qtbot.waitSignal(link.changed):
        link.pause(7)
    assert ended == []


def test_where_nothing_runs_nothing_is_looked_at(qtbot: QtBot, queue: FakeQueue, link: DownloadLink) -> None:
    with qtbot.waitSignal(link.changed):
        link.restore()
    qtbot.waitUntil(lambda: not link._timer.isActive())
    looked = queue.looked
    with qtbot.waitSignal(link.changed):
        queue.listed = ()
        link.pause(7)
    assert queue.looked == looked + 1
    link.close()
    assert queue.told[-1] == ("close", 0)
