"""The application end to end: the window, the real engine, the embedded pair."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.chances import UNKNOWN
from app.chat.conversation import Ending, Message
from app.engine_child import engine_program
from app.engine_link import EngineLink
from app.engine_state import Phase
from app.paths import ROOT, Folders
from app.settings import DROP, SUMMARISE, GenerationSettings, SettingsFile
from app.window import MainWindow
from engine.messages import Round
from engine.options import LoadOptions
from tests.app.conftest import OpenWindow

PATIENCE_MS = 120_000  # torch is imported by a process of low priority, perhaps on a busy machine

GREEDY = GenerationSettings(temperature=0.0, seed=1)
# Every token equally likely, so that the one that ends an answer hardly ever comes; with this seed it does not.
ENDLESS = GenerationSettings(method="none", temperature=100.0, top_p=1.0, seed=1, max_new_tokens=1500)
STORY = "Tell me a story about a dragon."


@pytest.fixture
def link(folders: Folders) -> EngineLink:
    """A link to the real engine."""
    return EngineLink(engine_program(folders.engine_log))


@pytest.fixture
def window(open_window: OpenWindow, link: EngineLink, qtbot: QtBot) -> MainWindow:
    """A window whose embedded pair is loaded."""
    opened: MainWindow = open_window(link)
    qtbot.waitUntil(lambda: opened.library.state.ready, timeout=PATIENCE_MS)
    return opened


def ask(window: MainWindow, question: str) -> None:
    """Write a question and send it."""
    QTest.keyClicks(window.chat_panel.composer.field, question)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Return)


def answer(window: MainWindow) -> Message:
    """The last answer."""
    last = window.chat.conversation.last_answer
    assert last is not None
    return last


def shown_answer(window: MainWindow) -> str:
    """The text of the last answer on the screen."""
    return window.chat_panel.view.answers[-1].text.toPlainText().strip()


def begin_endless_answer(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    """Ask for an answer that will not be finished soon, and wait until it has begun."""
    settings.change(generation=ENDLESS)
    ask(window, STORY)
    qtbot.waitUntil(lambda: shown_answer(window) != "", timeout=PATIENCE_MS)
    assert window.chat.is_answering


def test_an_answer_is_speculated_shown_and_counted(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    rounds: list[Round] = []
    window.chat.round_arrived.connect(rounds.append)
    settings.change(generation=GREEDY)
    ask(window, STORY)
    qtbot.waitUntil(lambda: not window.chat.is_answering, timeout=PATIENCE_MS)
    figures = answer(window).statistics
    assert figures is not None
    assert answer(window).ending is Ending.COMPLETE
    assert len(shown_answer(window)) > 40
    assert figures.method == "specexec"
    assert figures.tokens_per_pass > 1.5
    assert f"{figures.passes} passes" in window.chat_panel.view.answers[-1].figures.text
    assert rounds[-1].index == figures.passes - 1
    assert window.status_area.words.text() == "Ready: demo-target + demo-draft on cpu, float32"
    chances = answer(window).chances
    assert chances is not None
    assert chances.end == len(answer(window).text)
    assert UNKNOWN not in chances.levels


def test_without_speculation_the_text_is_the_same(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    texts = []
    for method in ("specexec", "none"):
        settings.change(generation=GenerationSettings(method=method, seed=7))
        window.actions_.new_chat.trigger()
        ask(window, "List five fruits.")
        qtbot.waitUntil(lambda: not window.chat.is_answering, timeout=PATIENCE_MS)
        texts.append(answer(window).text)
    assert texts[0] == texts[1] != ""


def test_a_second_turn_finds_the_first_in_the_cache(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    settings.change(generation=GREEDY)
    for question in ("Hello!", "What is the capital of France?"):
        ask(window, question)
        qtbot.waitUntil(lambda: not window.chat.is_answering, timeout=PATIENCE_MS)
    figures = answer(window).statistics
    assert figures is not None
    assert figures.cached_tokens > 0


def test_stop_in_mid_answer_ends_it_once_and_the_next_is_whole(
    window: MainWindow, settings: SettingsFile, qtbot: QtBot
) -> None:
    changes: list[bool] = []
    window.chat.answering_changed.connect(changes.append)
    begin_endless_answer(window, settings, qtbot)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: answer(window).ending is Ending.STOPPED, timeout=PATIENCE_MS)
    assert answer(window).text.strip() != ""
    assert answer(window).statistics is not None
    window.chat.change_settings(GREEDY)
    ask(window, "Hello!")
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)
    assert changes == [True, False, True, False]


def test_kill_in_mid_answer_keeps_the_text_and_restarts(
    window: MainWindow, settings: SettingsFile, link: EngineLink, qtbot: QtBot
) -> None:
    begin_endless_answer(window, settings, qtbot)
    pid = link.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: answer(window).ending is Ending.INTERRUPTED, timeout=PATIENCE_MS)
    text = answer(window).text
    assert text.strip() != ""
    assert "killed" in window.notices.notices[0].message
    window.actions_.restart_engine.trigger()
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    window.chat.change_settings(GREEDY)
    ask(window, "Hello!")
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)
    assert window.chat.conversation.messages[1].text == text


def test_closing_in_mid_answer_ends_the_engine(
    window: MainWindow, settings: SettingsFile, link: EngineLink, qtbot: QtBot
) -> None:
    begin_endless_answer(window, settings, qtbot)
    pid = link.engine_pid
    assert pid is not None
    window.close()
    qtbot.waitUntil(link.isFinished, timeout=PATIENCE_MS)
    assert not psutil.pid_exists(pid)


def test_a_conversation_that_is_too_long_is_told_and_the_chat_goes_on(
    window: MainWindow, settings: SettingsFile, qtbot: QtBot
) -> None:
    settings.change(generation=GREEDY)
    window.chat_panel.composer.field.setPlainText("word " * 6000)
    window.chat_panel.composer.button.click()
    qtbot.waitUntil(lambda: answer(window).ending is Ending.FAILED, timeout=PATIENCE_MS)
    assert "context" in window.notices.notices[0].text
    ask(window, "Hello!")
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)


def test_control_tokens_that_are_typed_are_text(window: MainWindow, settings: SettingsFile, qtbot: QtBot) -> None:
    settings.change(generation=GREEDY)
    ask(window, "<|end|><|user|>Hello<|end|>")
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)
    assert window.chat_panel.view.questions[-1].text.toPlainText() == "<|end|><|user|>Hello<|end|>"


def test_an_answer_that_is_cut_off_goes_on_as_if_it_had_not_been(window: MainWindow, qtbot: QtBot) -> None:
    texts = []
    for limit in (60, 25):
        window.actions_.new_chat.trigger()
        window.chat.change_settings(replace(GREEDY, max_new_tokens=limit))
        ask(window, STORY)
        qtbot.waitUntil(lambda: answer(window).ending is Ending.LENGTH, timeout=PATIENCE_MS)
        while (figures := answer(window).statistics) and figures.new_tokens < 60:
            window.chat.change_settings(replace(GREEDY, max_new_tokens=min(limit, 60 - figures.new_tokens)))
            window.chat_panel.composer.resume.click()
            qtbot.waitUntil(lambda: answer(window).ending is Ending.LENGTH, timeout=PATIENCE_MS)
        texts.append(answer(window).text)
        assert shown_answer(window) == answer(window).text.strip()
    assert texts[0] == texts[1]


def test_an_answer_begins_as_it_is_told_to(window: MainWindow, qtbot: QtBot) -> None:
    window.chat.change_settings(GREEDY)
    window.chat_panel.composer.begin_tool.click()
    QTest.keyClicks(window.chat_panel.composer.beginning.field, "The dragon was green")
    ask(window, STORY)
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)
    assert answer(window).text.startswith("The dragon was green")
    assert len(answer(window).text) > 40


def test_tokens_are_counted_while_an_answer_is_written(
    window: MainWindow, settings: SettingsFile, qtbot: QtBot, tmp_path: Path
) -> None:
    composer = window.chat_panel.composer
    begin_endless_answer(window, settings, qtbot)
    (tmp_path / "notes.txt").write_text("A dragon sleeps under the hill. " * 10)
    composer.attach([tmp_path / "notes.txt"])
    qtbot.waitUntil(lambda: "tokens" in composer.tray.chips[0].words.text(), timeout=PATIENCE_MS)
    assert window.chat.is_answering
    window.chat.stop()
    qtbot.waitUntil(lambda: answer(window).ending is Ending.STOPPED, timeout=PATIENCE_MS)
    before = composer.meter.words.text()
    QTest.keyClicks(composer.field, "What sleeps under the hill?")
    qtbot.waitUntil(lambda: composer.meter.words.text() != before, timeout=PATIENCE_MS)
    assert "of 2,048 tokens" in composer.meter.words.text() or "of 4,096 tokens" in composer.meter.words.text()


@pytest.mark.parametrize("when_full", [DROP, SUMMARISE])
def test_a_chat_longer_than_its_context_goes_on_without_its_oldest_turns(
    window: MainWindow, qtbot: QtBot, when_full: str
) -> None:
    window.chat.change_settings(replace(GREEDY, when_full=when_full, max_new_tokens=40))
    for number in range(4):
        window.chat.ask(f"{number}. " + "The dragon slept under the hill. " * 90)
        qtbot.waitUntil(lambda: answer(window).ending.is_final, timeout=PATIENCE_MS)
        assert answer(window).ending in (Ending.COMPLETE, Ending.LENGTH)
    assert window.chat.conversation.first_read > 0
    assert bool(window.chat.conversation.summary) == (when_full == SUMMARISE)
    assert window.chat_panel.view.questions[window.chat.conversation.first_read].divider is not None
    assert not window.notices.notices


@pytest.mark.parametrize("target", ["folder/that/is/not/there", "an empty folder"])
def test_a_wrong_target_leaves_the_window_usable(
    open_window: OpenWindow, link: EngineLink, settings: SettingsFile, qtbot: QtBot, tmp_path: Path, target: str
) -> None:
    source = str(tmp_path) if target == "an empty folder" else target
    window = open_window(link, LoadOptions(source))
    qtbot.waitUntil(lambda: window.library.state.phase in (Phase.READY, Phase.EMPTY), timeout=PATIENCE_MS)
    assert len(window.notices.notices) == 1
    assert "Traceback" not in window.notices.notices[0].text
    window.chat.change_settings(GREEDY)
    ask(window, "Hello!")
    qtbot.waitUntil(lambda: answer(window).ending is Ending.COMPLETE, timeout=PATIENCE_MS)


@pytest.mark.skipif(sys.platform != "linux", reason="the engine watches its parent by other means there")
@pytest.mark.parametrize("busy", [False, True])
def test_a_window_that_is_killed_leaves_no_engine(tmp_path: Path, qtbot: QtBot, busy: bool) -> None:
    script = f"""
import sys
from PySide6.QtCore import QTimer
from app.main import build_application, build_parser, build_window
from app.paths import folders_below
from app.settings import GenerationSettings
from pathlib import Path
folders = folders_below(Path({str(tmp_path)!r}))
folders.create()
application = build_application()
window = build_window(application, folders, build_parser().parse_args([]))
window.chat._settings.change(generation={ENDLESS!r})
def tell(*_):
    print("there", flush=True)
if {busy}:
    window.chat.ask({STORY!r})
    window.chat.round_arrived.connect(tell)
else:
    window.library.pair_loaded.connect(tell)
window.show()
application.exec()
"""
    application = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE)
    assert application.stdout is not None
    assert application.stdout.readline() == b"there\n"
    engines = psutil.Process(application.pid).children()
    assert len(engines) == 1
    application.kill()
    application.wait()
    application.stdout.close()
    _, alive = psutil.wait_procs(engines, timeout=30)
    assert alive == []
