"""The window's thread stays free with thousands of results in the list and four downloads at work."""

import time
from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtTest import QTest

from app.downloads.progress import Request, State
from app.hub.search import ModelRow
from app.library.picker.entry import Filter, Size, found_entry
from tests.app.library.picker.conftest import Desk, put_up
from tests.campaigns.extent import choose
from tests.hub import Hub, slow

MOST_SECONDS = 1.0  # of the processor, whatever else the machine does; generous: it is far below 50 ms
ROWS = choose(3_000, 10_000)


class Gaps:
    """How long this thread worked at most before a timer that wants to fire all the time had its turn."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = time.thread_time()
        self._timer = QTimer(interval=0)
        self._timer.timeout.connect(self._on_timeout)
        self._timer.start()

    def _on_timeout(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now


def test_thousands_of_results_and_four_downloads(make_desk: Callable[[], Desk], hub: Hub) -> None:
    names = [f"org/big-{number}" for number in range(4)]
    for number, name in enumerate(names):
        put_up(hub, name, 10**9, number)
    hub.fail("model.safetensors", slow(8_000, 0.02), times=8)
    desk = make_desk()
    desk.room.downloads._queue._simultaneous = 4
    dialog = desk.open()
    view, entries = dialog.discover.view, dialog.discover.entries
    entries.replace([])
    for first in range(0, ROWS, 50):  # pages, as they come from the hub
        numbers = range(first, first + 50)
        entries.append(
            found_entry(ModelRow(f"org/m{each}", "", 10**9 + each, 2 * 10**9, ("BF16",))) for each in numbers
        )
    desk.library.facts.want = lambda models: None  # type: ignore[method-assign]  # the hub has none of these
    for name in names:
        desk.downloads.add(Request(name))
    desk.wait(lambda: [each.state.is_running for each in desk.downloads.downloads] == [True] * 4)
    gaps = Gaps()
    bar = view.verticalScrollBar()
    for step in range(40):
        bar.setValue(bar.maximum() * step // 40)
        QTest.qWait(10)
    view.scrollToBottom()
    entries.set_filter(Filter("", Size.SMALL, True))
    QTest.qWait(20)
    entries.set_filter(Filter())
    QTest.qWait(20)
    assert entries.rowCount() == ROWS
    assert gaps.longest < MOST_SECONDS, f"{gaps.longest * 1000:.1f} ms"
    for name in names:
        desk.wait_for(name, State.DONE)
