"""An engine whose process is started before its link's thread: taken up by it, ended without it, and told of by it."""

from pathlib import Path

import psutil
from pytestqt.qtbot import QtBot

from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from engine.protocol.messages import Ready
from tests.app.test_engine_link import PATIENCE_MS, Listener


def test_an_engine_that_was_begun_before_the_thread_is_the_one_that_is_used(
    qtbot: QtBot, fake_program: EngineProgram
) -> None:
    link = EngineLink(fake_program)
    listener = Listener(link)
    link.begin()
    begun = link.engine_pid
    assert begun is not None
    link.start()
    qtbot.waitUntil(listener.is_ready, timeout=PATIENCE_MS)
    assert [each.pid for each in listener.events if isinstance(each, Ready)] == [begun]
    link.close()
    link.wait_closed()
    assert not psutil.pid_exists(begun)


def test_an_engine_that_was_begun_for_nothing_is_ended(fake_program: EngineProgram) -> None:
    link = EngineLink(fake_program)
    link.begin()
    begun = link.engine_pid
    assert begun is not None
    link.close()
    link.wait_closed()
    assert not psutil.pid_exists(begun)


def test_what_cannot_be_begun_is_told_when_the_thread_runs(qtbot: QtBot, tmp_path: Path) -> None:
    link = EngineLink(EngineProgram((str(tmp_path / "no-such-python"),), tmp_path / "engine.log"))
    listener = Listener(link)
    link.begin()
    link.start()
    qtbot.waitUntil(lambda: len(listener.stops) == 1, timeout=PATIENCE_MS)
    assert "could not be started" in listener.stops[0].message
    link.close()
    link.wait_closed()
