"""What the window says of crashes and of newer versions, and how it answers a later start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.shell.dialogs import ReportDialog
from app.shell.instance import Instance
from app.shell.lifecycle import CRASH_NOTICE, NEWS_NOTICE, Lifecycle
from app.shell.updates import Release
from app.shell.window import MainWindow


@pytest.fixture
def life(window: MainWindow, tmp_path: Path) -> Iterator[Lifecycle]:
    instance = Instance(tmp_path)
    yield Lifecycle(window.program, instance)
    instance.release()


def keys(window: MainWindow) -> list[str]:
    return [notice.key for notice in window.notices.notices]


def test_a_crash_is_offered_and_shown(life: Lifecycle, window: MainWindow, tmp_path: Path) -> None:
    report = tmp_path / "crash-1.txt"
    report.write_text("Fatal Python error\n")
    life.tell_of_crash(report)
    assert keys(window) == [CRASH_NOTICE]
    window.notices.act(CRASH_NOTICE)
    assert keys(window) == []
    dialog = next(each for each in QApplication.topLevelWidgets() if isinstance(each, ReportDialog))
    assert "Fatal Python error" in dialog.text.toPlainText()
    dialog.close()


@pytest.mark.parametrize(("version", "told"), [("999.0", [NEWS_NOTICE]), ("0.0.1", [])])
def test_only_a_newer_version_is_news(
    life: Lifecycle, window: MainWindow, version: str, told: list[str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Release(version, "https://coppice.example/")
    monkeypatch.setattr("app.shell.updates.newest_release", lambda _address: release)
    with qtbot.waitSignal(life.asked_for_news):
        life.ask_for_news("https://coppice.example/news.json")
    assert keys(window) == told


def test_a_later_start_brings_its_recording_to_the_front(
    life: Lifecycle, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(window.tree_panel.exports, "open_from", opened.append)
    window.showMinimized()
    window.tree_dock.hide()
    life.on_asked(str(tmp_path / "rounds.coppice"))
    assert not window.isMinimized()
    assert window.tree_dock.isVisible()
    assert opened == [tmp_path / "rounds.coppice"]
