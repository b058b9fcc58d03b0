"""The throttle: at once, then no more often than wanted, and never lost."""

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.ui.throttle import Throttle


def test_the_first_request_is_served_at_once(qapp: QApplication) -> None:
    calls: list[int] = []
    Throttle(lambda: calls.append(1)).request()
    assert calls == [1]


def test_requests_in_between_become_one(qtbot: QtBot) -> None:
    calls: list[int] = []
    throttled = Throttle(lambda: calls.append(1))
    for _ in range(100):
        throttled.request()
    assert calls == [1]
    qtbot.waitUntil(lambda: len(calls) == 2)
    qtbot.waitUntil(lambda: not throttled._timer.isActive())
    assert len(calls) == 2


def test_flush_does_what_waits_and_nothing_else(qapp: QApplication) -> None:
    calls: list[int] = []
    throttled = Throttle(lambda: calls.append(1))
    throttled.flush()
    assert calls == []
    throttled.request()
    throttled.request()
    throttled.flush()
    throttled.flush()
    assert calls == [1, 1]


def test_cancel_forgets_what_waits(qapp: QApplication) -> None:
    calls: list[int] = []
    throttled = Throttle(lambda: calls.append(1))
    throttled.request()
    throttled.request()
    throttled.cancel()
    throttled.flush()
    assert calls == [1]


def test_slow_work_is_followed_by_a_longer_pause(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.2])
    monkeypatch.setattr("app.ui.throttle.time.perf_counter", lambda: next(now))
    throttled = Throttle(lambda: None, interval_ms=33)
    throttled.request()
    assert throttled._timer.interval() == 600
