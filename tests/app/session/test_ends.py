"""What outlives the engine and the window; these come last, since they end both."""

import os

import psutil
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.chat.history.message import AnswerEnding
from tests.app.fake_link import FakeLink
from tests.app.session.person import ENDLESS, SHORT, STORY, Session, opened
from tests.app.test_window import notice_button
from tests.campaigns.extent import for_the_proofs


@for_the_proofs
def test_an_engine_that_is_killed_comes_back_and_the_answer_goes_on(session: Session) -> None:
    session.begin(ENDLESS)
    QTest.keyClicks(session.window.chat_panel.composer.field, STORY)
    QTest.keyClick(session.window.chat_panel.composer.field, Qt.Key.Key_Return)
    session.wait(lambda: session.shown != "")
    assert session.link.engine_pid is not None
    psutil.Process(session.link.engine_pid).kill()
    session.wait(lambda: session.answer.ending is AnswerEnding.INTERRUPTED)
    text = session.answer.text
    assert text.strip() != ""
    assert ("exit code" if os.name == "nt" else "killed") in session.window.notices.notices[-1].message
    notice_button(session.window, "Restart engine").click()
    session.wait(lambda: session.window.library.state.ready)
    session.window.chat.change_settings(SHORT)
    session.window.chat_panel.composer.resume.click()
    assert session.answered().text.startswith(text.rstrip("\N{REPLACEMENT CHARACTER}"))
    assert len(session.answer.text) > len(text)


def test_a_window_closed_in_mid_answer_ends_its_engine_and_another_window_finds_everything_again(
    session: Session,
) -> None:
    session.begin()
    text = session.ask("Hello!").text
    here = session.window.chat.conversation.id
    session.begin(ENDLESS)
    session.window.chat.ask(STORY)
    session.wait(lambda: session.shown != "")
    engine = session.link.engine_pid
    assert engine is not None
    cut_off = session.window.chat.conversation.id
    session.window.close()
    session.wait(session.link.isFinished)
    assert not psutil.pid_exists(engine)
    titles = session.titles
    again = opened(session.folders, FakeLink(), session.theme)
    session.wait(lambda: bool(again.conversations.autosave.records))
    assert [each.shown_title for each in again.conversations.autosave.records] == titles
    again.conversations.autosave.open(here)
    session.wait(lambda: not again.chat.conversation.is_empty)
    assert again.chat.conversation.messages[-1].text == text
    again.conversations.autosave.open(cut_off)
    session.wait(lambda: again.chat.conversation.id == cut_off)
    assert again.chat.conversation.messages[-1].ending is AnswerEnding.CLOSED
    assert again.chat.can_continue
    again.close()
    again.deleteLater()
