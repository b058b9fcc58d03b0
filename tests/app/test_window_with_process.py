"""The window in front of a real process that speaks the protocol: answers, deaths and ends."""

import os

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.chat.history.message import AnswerEnding
from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from app.engine.state import Phase
from app.engine.unheard_stop import UNHEARD_NOTICE
from app.shell.window import ENGINE_NOTICE, MainWindow
from engine.protocol.options import LoadOptions
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import STORY
from tests.campaigns.extent import choose

PATIENCE_MS = 20_000


@pytest.fixture
def link(fake_program: EngineProgram) -> EngineLink:
    """A link to a fake engine that is really a process."""
    return EngineLink(fake_program)


@pytest.fixture
def window(open_window: OpenWindow, link: EngineLink, qtbot: QtBot) -> MainWindow:
    """A window whose engine is ready."""
    opened = open_window(link)
    qtbot.waitUntil(lambda: opened.library.state.ready, timeout=PATIENCE_MS)
    return opened


def ask(window: MainWindow, question: str) -> None:
    """Write a question and send it."""
    QTest.keyClicks(window.chat_panel.composer.field, question)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Return)


def ending(window: MainWindow) -> AnswerEnding:
    """How the last answer stands."""
    answer = window.chat.conversation.last_answer
    assert answer is not None
    return answer.ending


def shown_answer(window: MainWindow) -> str:
    """The text of the last answer on the screen."""
    return window.chat_panel.view.answers[-1].text.toPlainText().strip()


def notices(window: MainWindow) -> list[str]:
    """The keys of what is told."""
    return [each.key for each in window.notices.notices]


def wait_for_text(qtbot: QtBot, window: MainWindow) -> None:
    """Wait until the answer has begun."""
    qtbot.waitUntil(lambda: shown_answer(window).startswith("Once"), timeout=PATIENCE_MS)


def test_a_question_asked_before_the_engine_is_up_is_answered(
    open_window: OpenWindow, link: EngineLink, qtbot: QtBot
) -> None:
    window = open_window(link)
    ask(window, "Tell me a story")
    assert ending(window) is AnswerEnding.WAITING
    qtbot.waitUntil(lambda: ending(window) is AnswerEnding.COMPLETE, timeout=PATIENCE_MS)
    assert shown_answer(window) == STORY


def test_a_session_with_a_wrong_target_a_stop_a_cancelled_load_and_an_end_in_mid_answer(
    open_window: OpenWindow, link: EngineLink, qtbot: QtBot
) -> None:
    window = open_window(link, LoadOptions("missing"))
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    assert "no model folder 'missing'" in window.notices.notices[0].text
    ask(window, "say hello")
    qtbot.waitUntil(lambda: shown_answer(window) == "hello", timeout=PATIENCE_MS)

    ask(window, "long")
    qtbot.waitUntil(lambda: ending(window) is AnswerEnding.LENGTH, timeout=PATIENCE_MS)
    assert window.chat_panel.view.answers[-1].figures.text.startswith("Cut off at")

    endings: list[bool] = []
    window.chat.answering_changed.connect(endings.append)
    ask(window, "hang")
    wait_for_text(qtbot, window)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: ending(window) is AnswerEnding.STOPPED, timeout=PATIENCE_MS)
    assert endings == [True, False], "it ends once"
    ask(window, "say still here")
    qtbot.waitUntil(lambda: shown_answer(window) == "still here", timeout=PATIENCE_MS)

    window.library.load(LoadOptions("slow"))
    qtbot.waitUntil(lambda: window.library.state.stage == "Loading slow", timeout=PATIENCE_MS)
    window.status_area.cancel.click()
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    assert window.library.wanted == LoadOptions()

    ask(window, choose("deaf", "hang"))
    wait_for_text(qtbot, window)
    pid = link.engine_pid
    assert pid is not None
    window.close()
    qtbot.waitUntil(link.isFinished, timeout=PATIENCE_MS)
    assert not psutil.pid_exists(pid)


def test_kill_in_mid_answer_keeps_the_text_and_restarts(window: MainWindow, link: EngineLink, qtbot: QtBot) -> None:
    ask(window, "hang")
    wait_for_text(qtbot, window)
    pid = link.engine_pid
    assert pid is not None
    psutil.Process(pid).kill()
    qtbot.waitUntil(lambda: ending(window) is AnswerEnding.INTERRUPTED, timeout=PATIENCE_MS)
    assert shown_answer(window) == "Once upon"
    notice = window.notices.notices[0]
    assert notice.key == ENGINE_NOTICE
    assert ("exit code" if os.name == "nt" else "killed") in notice.message
    assert len(window.notices.notices) == 1
    buttons = [each for each in window.notices.findChildren(QPushButton) if each.text() == "Restart engine"]
    buttons[0].click()
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    ask(window, "say back again")
    qtbot.waitUntil(lambda: shown_answer(window) == "back again", timeout=PATIENCE_MS)
    assert [each.text.toPlainText().strip() for each in window.chat_panel.view.answers] == ["Once upon", "back again"]


def test_a_target_that_kills_the_engine_is_not_loaded_again(window: MainWindow, qtbot: QtBot) -> None:
    window.library.load(LoadOptions("fatal"))
    qtbot.waitUntil(lambda: window.library.state.phase is Phase.STOPPED, timeout=PATIENCE_MS)
    assert "exit code 9" in window.notices.notices[0].message
    window.actions_.restart_engine.trigger()
    qtbot.waitUntil(lambda: window.library.state.ready, timeout=PATIENCE_MS)
    assert window.library.wanted == LoadOptions()


def test_an_engine_that_does_not_hear_a_stop_can_be_restarted(window: MainWindow, qtbot: QtBot) -> None:
    """The text stays, its end is stated, and the models come back for the next question."""
    ask(window, "deaf")
    wait_for_text(qtbot, window)
    window.unheard_stop._timer.setInterval(0)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: notices(window) == [UNHEARD_NOTICE], timeout=PATIENCE_MS)
    assert not ending(window).is_final, "it may still stop by itself"
    text = shown_answer(window)
    button = next(each for each in window.notices.findChildren(QPushButton) if each.text() == "Restart engine")
    button.click()
    qtbot.waitUntil(lambda: window.library.state.ready and ending(window).is_final, timeout=PATIENCE_MS)
    assert ending(window) is AnswerEnding.INTERRUPTED
    assert shown_answer(window) == text
    assert notices(window) == []
    ask(window, "say I am back")
    qtbot.waitUntil(lambda: shown_answer(window) == "I am back", timeout=PATIENCE_MS)
