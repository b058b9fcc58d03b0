"""What a notice says, where it stays, and how it comes back."""

import errno
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.history.conversation import Conversation
from app.chat.panel import ATTACHMENT_NOTICE
from app.comparison.feature import COMPARISON_NOTICE
from app.engine.state import EngineState, Phase
from app.settings.store import SettingsFile
from app.shell.program import SETTINGS_NOTICE, SETTINGS_RESET_NOTICE
from app.shell.window import EMPTY_NOTICE, ENGINE_NOTICE, MainWindow
from app.shell.window_wiring import OF_ONE_CHAT
from app.system.paths import Folders
from app.ui.notices import Notice
from engine.protocol.messages import Failed
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.test_window import ask


def keys(window: MainWindow) -> list[str]:
    return [each.key for each in window.notices.notices]


def message(window: MainWindow, key: str) -> str:
    return next(each.text for each in window.notices.notices if each.key == key)


# ---- one chat's notices ---------------------------------------------------------------------------------------------


def test_notices_of_one_chat_do_not_stay_over_another(window: MainWindow, link: FakeLink) -> None:
    window.actions_.compare.trigger()
    assert COMPARISON_NOTICE in keys(window)
    ask(window, "Hello!")
    link.answer(Failed(link.last_question.id, "The conversation has 80,069 tokens.", "Start a new chat."))
    window.notices.add(Notice("another", "It concerns no chat."))
    window.actions_.new_chat.trigger()
    assert keys(window) == ["another"]
    for key in OF_ONE_CHAT:
        window.notices.add(Notice(key, "Something."))
    window.chat.show_conversation(Conversation())
    assert keys(window) == ["another"]


# ---- an engine that is gone -----------------------------------------------------------------------------------------


def test_enter_brings_back_the_notice_of_a_dead_engine(window: MainWindow, link: FakeLink) -> None:
    link.die("The engine was killed.")
    window.notices.dismiss(ENGINE_NOTICE)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Return)
    assert keys(window) == [], "nothing was asked"
    ask(window, "Hello!")
    assert message(window, ENGINE_NOTICE).startswith("The engine was killed.")
    assert window.chat_panel.composer.field.toPlainText() == "Hello!"
    window.notices.act(ENGINE_NOTICE)
    assert link.said[-1] == "restart"


def test_a_click_on_the_state_of_a_dead_engine_tells_why(window: MainWindow, link: FakeLink) -> None:
    QTest.mouseClick(window.status_area, Qt.MouseButton.LeftButton)
    assert keys(window) == []
    link.die("The engine was killed.")
    window.notices.dismiss(ENGINE_NOTICE)
    QTest.mouseClick(window.status_area.words, Qt.MouseButton.LeftButton)
    assert keys(window) == [ENGINE_NOTICE]


def test_without_a_model_enter_leads_to_the_models(window: MainWindow, link: FakeLink) -> None:
    window.program.library.cancel()
    window.program.library._change(EngineState(Phase.EMPTY))
    ask(window, "Hello!")
    assert message(window, EMPTY_NOTICE) == "No model is loaded."
    window.program.library._change(EngineState(Phase.LOADING))
    assert EMPTY_NOTICE not in keys(window)


# ---- files that are refused -----------------------------------------------------------------------------------------


def test_every_refused_file_is_told(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.bin" for number in range(8)]
    for each in files:
        each.write_bytes(b"\0\1\2")
    window.chat_panel.composer.attach(files[:2])
    qtbot.waitUntil(lambda: not window.chat_panel.composer.tray.is_reading)
    told = message(window, ATTACHMENT_NOTICE)
    assert "0.bin" in told
    assert "1.bin" in told
    window.chat_panel.composer.attach(files[2:])
    qtbot.waitUntil(lambda: not window.chat_panel.composer.tray.is_reading)
    told = message(window, ATTACHMENT_NOTICE)
    assert "4.bin" in told
    assert "5.bin" not in told
    assert told.splitlines()[-1].startswith("3 more files")
    window.notices.dismiss(ATTACHMENT_NOTICE)
    window.chat_panel.composer.attach(files[7:])
    qtbot.waitUntil(lambda: not window.chat_panel.composer.tray.is_reading)
    assert message(window, ATTACHMENT_NOTICE).startswith("7.bin was not attached.")


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(folders: Folders) -> Path:
    """Settings that cannot be read; made before the fixture `settings` reads them."""
    folders.settings_file.write_text('{"language": ', encoding="utf-8")
    return folders.settings_file


def test_damaged_settings_are_told_with_their_place(
    damaged: Path, settings: SettingsFile, open_window: OpenWindow
) -> None:
    window = open_window(FakeLink())
    told = message(window, SETTINGS_RESET_NOTICE)
    kept = damaged.with_suffix(".damaged.json")
    assert str(kept) in told
    assert kept.read_text(encoding="utf-8") == '{"language": '
    assert settings.set_aside == kept


def test_settings_that_cannot_be_saved_are_told_until_they_can(
    window: MainWindow, settings: SettingsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("app.settings.store.write_private", refuse)
        settings.change(tree_way="icicle")
        settings.change(chat_zoom=110)
    assert "settings.json: No space left on device" in message(window, SETTINGS_NOTICE)
    settings.change(chat_zoom=120)
    assert keys(window) == []
