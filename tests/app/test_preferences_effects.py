"""Preferences in the window: every option does what it says."""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.view.question_view import QuestionView
from app.hub.place import hub_place
from app.hub.tokens import Token, TokenOrigin, Tokens
from app.library.hub_queries import HubTokenController, masked
from app.preferences.dialog import PreferencesDialog
from app.shell.dialogs import ShortcutsDialog
from app.shell.window import MainWindow
from app.shell.wiring import with_prepared
from app.system.paths import Folders
from app.ui.notices import Notice
from engine.protocol.options import LoadOptions
from tests.app.fake_link import FakeLink

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def preferences(window: MainWindow) -> PreferencesDialog:
    """The dialog, opened by its key."""
    assert QTest.qWaitForWindowActive(window)
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_Comma, CONTROL)
    return next(each for each in window.findChildren(PreferencesDialog) if each.isVisible())


def choose(preferences: PreferencesDialog, name: str, value: object) -> None:
    """Change an option and apply it."""
    row = next(page.rows[name] for page in preferences.pages if name in page.rows)
    row.editor.show_value(value)
    preferences.apply_button.click()


def ask(window: MainWindow, question: str = "Hello") -> None:
    """Have a question answered."""
    window.chat.ask(question)


@pytest.fixture
def levels() -> Iterator[None]:
    """The loggers, put back."""
    yield
    for name in ("app", "coppice"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def listed_shortcuts(window: MainWindow) -> str:
    """The words of the list of shortcuts."""
    window.actions_.shortcuts.trigger()
    dialog = window.findChildren(ShortcutsDialog)[-1]
    words = dialog.list.toPlainText().split()
    dialog.close()
    return " ".join(words)


def test_the_send_key(window: MainWindow, link: FakeLink, preferences: PreferencesDialog) -> None:
    assert listed_shortcuts(window).startswith("Send Enter New line Shift+Enter ")
    choose(preferences, "send_key", "ctrl-return")
    preferences.close()
    assert listed_shortcuts(window).startswith("Send Ctrl+Enter New line Enter ")
    field = window.chat_panel.composer.field
    QTest.keyClicks(field, "One")
    QTest.keyClick(field, Qt.Key.Key_Return)
    QTest.keyClicks(field, "two")
    assert field.toPlainText() == "One\ntwo"
    QTest.keyClick(field, Qt.Key.Key_Return, CONTROL)
    assert link.last_question.chat[-1].content == "One\ntwo"


@pytest.mark.usefixtures("levels")
def test_options_reach_the_next_load_the_next_answer_and_the_log(
    window: MainWindow, link: FakeLink, preferences: PreferencesDialog
) -> None:
    for name, value in (("vram_limit_gb", 6.0), ("ram_limit_gb", 12.5), ("place", "ram"), ("overlap", False)):
        choose(preferences, name, value)
    window.library.load(LoadOptions("embedded", "none"))
    options = link.last_load.options
    assert (options.vram_limit_bytes, options.ram_limit_bytes) == (6 * 10**9, 12_500_000_000)
    assert (options.place, options.overlap) == ("ram", False)
    chosen = LoadOptions("embedded", "none", place="device", vram_limit_bytes=10**9)
    window.library.load(chosen)
    assert (link.last_load.options.place, link.last_load.options.vram_limit_bytes) == ("device", 10**9)
    link.load_what_was_asked()

    choose(preferences, "lookup", False)
    choose(preferences, "calibrate", False)
    choose(preferences, "generation.method", "chain")
    choose(preferences, "generation.budget", 48)
    ask(window)
    speculation = link.last_question.options.speculation
    assert (speculation.lookup, speculation.calibrate) == (False, False)
    assert (speculation.method, speculation.budget) == ("chain", 48), "those of new chats"

    choose(preferences, "log_level", "warning")
    assert not logging.getLogger("app.settings.store").isEnabledFor(logging.INFO)
    choose(preferences, "log_level", "debug")
    assert logging.getLogger("app.settings.store").isEnabledFor(logging.DEBUG)


def test_without_scrolling_along_the_reader_stays_where_he_is(
    qtbot: QtBot, window: MainWindow, link: FakeLink, preferences: PreferencesDialog
) -> None:
    window.resize(700, 420)
    choose(preferences, "autoscroll", False)
    preferences.close()
    ask(window)
    bar = window.chat_panel.view.verticalScrollBar()
    for _ in range(12):
        link.say("line\n\n" * 8)
        window.chat_panel.view.answers[-1].grab()
    link.finish()
    qtbot.waitUntil(lambda: bar.maximum() > 0)  # on a busy machine, painting what has come in waits for its turn
    QTest.qWait(50)
    assert bar.value() < bar.maximum()


def test_the_folder_of_prepared_models(folders: Folders, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert with_prepared(folders, "") == folders
    chosen = tmp_path / "fast" / "prepared"
    assert with_prepared(folders, str(chosen)) == replace(folders, cache=chosen)
    assert chosen.is_dir()
    (tmp_path / "file").write_text("")
    assert with_prepared(folders, str(tmp_path / "file")) == folders
    assert "cannot be used" in caplog.text


def test_diagnostics_are_copied_from_the_menu_and_from_an_error(window: MainWindow) -> None:
    clipboard = QGuiApplication.clipboard()
    window.notices.add(Notice("any", "Something went wrong."))
    button = next(each for each in window.notices.findChildren(QPushButton) if each.text() == "Copy diagnostics")
    for copy in (window.actions_.copy_diagnostics.trigger, button.click):
        clipboard.clear()
        copy()
        assert "demo-target" in clipboard.text()
        assert window.notices.notices[-1].key == "diagnostics-copied"


class Kept(Tokens):
    """Tokens without a keyring."""

    def __init__(self) -> None:
        super().__init__()
        self.token = Token()

    def current(self) -> Token:
        """What was kept."""
        return self.token

    def keep(self, secret: str) -> None:
        """Keep it here."""
        self.token = Token(secret, TokenOrigin.KEYRING)

    def forget(self) -> None:
        """Forget it; another one stays in the environment."""
        self.token = Token("hf_environment_token", TokenOrigin.ENVIRONMENT)


def test_the_token_is_told_masked(qtbot: QtBot) -> None:
    desk = HubTokenController(Kept())
    seen: list[tuple[str, str, bool]] = []
    desk.told.connect(lambda *told: seen.append(told))
    for act in (desk.look, lambda: desk.keep("hf_abcdefghijklmnop"), desk.forget):
        with qtbot.waitSignal(desk.told):
            act()
    desk.close()
    assert seen == [
        ("", "", False),
        ("••••••••mnop", "the system's keyring", True),
        ("••••••••oken", "the variable HF_TOKEN", False),
    ]
    assert masked("short") == "••••••••"


def test_network_options_hold_at_once_and_end_with_the_window(
    window: MainWindow, preferences: PreferencesDialog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_ENDPOINT", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://huggingface.co")
    choose(preferences, "offline", True)
    choose(preferences, "endpoint", "https://hub.example/")
    choose(preferences, "proxy", "http://proxy.example:3128")
    assert hub_place().is_offline
    assert hub_place().endpoint == "https://hub.example"
    assert os.environ["HTTPS_PROXY"] == "http://proxy.example:3128"
    choose(preferences, "offline", False)
    assert not hub_place().is_offline
    window.close()
    assert hub_place().endpoint == "https://huggingface.co"
    assert "HTTPS_PROXY" not in os.environ


def moves(window: MainWindow) -> tuple[bool, bool]:
    """Whether trees move, and panes."""
    return window.tree_panel.motion.is_wanted, window.isAnimated()


def test_motion(window: MainWindow, preferences: PreferencesDialog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert moves(window) == (True, True)
    choose(preferences, "reduce_motion", True)
    assert moves(window) == (False, False)
    choose(preferences, "reduce_motion", False)
    assert moves(window) == (True, True)
    monkeypatch.setattr("app.ui.motion._system_is_still", lambda: True)
    choose(preferences, "text_size", 110)
    assert moves(window) == (False, False), "the system wants none"


def test_names_of_pages_are_read_whole_in_large_letters(preferences: PreferencesDialog) -> None:
    narrow = preferences.list.width()
    choose(preferences, "text_size", 200)
    assert preferences.list.width() > narrow
    assert preferences.list.horizontalScrollBar().maximum() == 0
    assert preferences.search.width() == preferences.list.width()


def test_numbers_are_read_whole_in_large_letters(preferences: PreferencesDialog) -> None:
    choose(preferences, "text_size", 200)
    preferences.show()
    for row, page in enumerate(preferences.pages):
        preferences.list.setCurrentRow(row)
        QApplication.processEvents()
        for field in page.findChildren(QAbstractSpinBox):
            line = field.lineEdit()
            words = line.fontMetrics().horizontalAdvance(line.text())
            assert words <= line.width() - 2 * line.textMargins().left(), f"{line.text()} is cut off"


def test_other_colours_are_for_messages_near_the_reader(
    preferences: PreferencesDialog, window: MainWindow, link: FakeLink
) -> None:
    column = window.chat_panel.view.column
    for number in range(30):
        ask(window, f"Question {number}")
        link.say("Some words. " * 40)
        link.finish()
    assert len(column.findChildren(QuestionView)) == 30
    styled: list[int] = []
    window.program.theme.changing.connect(lambda: styled.append(len(column.findChildren(QuestionView))))
    choose(preferences, "theme", "dark")
    choose(preferences, "text_size", 120)
    assert len(styled) == 2
    assert max(styled) < 15
