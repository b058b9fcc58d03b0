"""Ctrl+F in the window: a bar, hits that are marked, and ways from one to the next."""

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.chat.finding.finder import Finder
from app.chat.history.conversation import Conversation
from app.chat.history.message import Message
from app.chat.sidebar.rows import found_words
from app.chat.text.message_text import MessageText
from app.shell.window import MainWindow
from tests.app.fake_link import FakeLink
from tests.app.test_window import CONTROL, ask, press

SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def told(window: MainWindow, link: FakeLink) -> MainWindow:
    """A window with a question and its answer."""
    ask(window, "A dragon?")
    link.say("<think>what dragon</think>", "A **drag**on, no Dragons.")
    link.finish()
    return window


def find(window: MainWindow, words: str, qtbot: QtBot) -> Finder:
    """Look for words with the keys."""
    press(window, Qt.Key.Key_F, CONTROL)
    QTest.keyClicks(window.chat_panel.find_bar.field, words)
    finder = window.finding.finder
    window.chat_panel.find_bar.flush()
    qtbot.waitUntil(lambda: not finder.is_at_work)
    return finder


def count(window: MainWindow) -> str:
    return window.chat_panel.find_bar.count.text()


def marked(text: MessageText) -> list[str]:
    return [each.selectedText() for each, _ in text.layer("found")]


def test_from_hit_to_hit_and_back(told: MainWindow, qtbot: QtBot) -> None:
    bar, view = told.chat_panel.find_bar, told.chat_panel.view
    find(told, "dragon", qtbot)
    assert count(told) == "1 of 4"
    answer = view.answers[-1]
    qtbot.waitUntil(lambda: marked(answer.text) == ["dragon", "Dragon"])
    assert marked(view.questions[-1].text) == ["dragon"]
    assert answer.thought is not None
    is_open = [answer.thought.is_open]
    press(told, Qt.Key.Key_Return)
    assert count(told) == "2 of 4"
    assert [*is_open, answer.thought.is_open] == [False, True], "the hit is in what was thought"
    press(told, Qt.Key.Key_F3)
    press(told, Qt.Key.Key_F3)
    press(told, Qt.Key.Key_F3)
    assert count(told) == "1 of 4"
    press(told, Qt.Key.Key_Return, SHIFT)
    assert count(told) == "4 of 4"
    press(told, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert told.focusWidget() is told.chat_panel.composer.field
    qtbot.waitUntil(lambda: marked(answer.text) == [])


def test_case_and_whole_words(told: MainWindow, qtbot: QtBot) -> None:
    bar = told.chat_panel.find_bar
    finder = find(told, "dragon", qtbot)
    bar.case.click()
    qtbot.waitUntil(lambda: not finder.is_at_work)
    assert count(told).endswith("of 3")
    bar.case.click()
    bar.whole.click()
    qtbot.waitUntil(lambda: not finder.is_at_work)
    assert count(told).endswith("of 3")
    bar.field.setText("unicorn")
    bar.flush()
    qtbot.waitUntil(lambda: not finder.is_at_work)
    assert count(told) == "Nothing found"
    assert not bar.next.isEnabled()
    bar.show_count(0, 0, is_done=False)
    assert bar.next.isEnabled(), "it may be found yet"


def test_escape_closes_the_bar_and_does_not_stop_the_answer(told: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(told, "And now?")
    finder = find(told, "wyvern", qtbot)
    assert count(told) == "Nothing found"
    link.say("A wyv", "ern.")
    qtbot.waitUntil(lambda: count(told) == "1 of 1")
    qtbot.waitUntil(lambda: not finder.is_at_work)
    sent = len(link.sent)
    press(told, Qt.Key.Key_Escape)
    assert not told.chat_panel.find_bar.isVisible()
    assert len(link.sent) == sent
    assert told.chat.is_answering


def test_what_only_another_version_says_is_told(told: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    press(told, Qt.Key.Key_R, CONTROL)
    link.say("A wyvern.")
    link.finish()
    find(told, "Dragons", qtbot)
    assert count(told) == "Only in other versions"


def long_talk() -> Conversation:
    talk: list[Message] = []
    for turn in range(60):
        parent = talk[-1].id if talk else 0
        talk.append(Message("user", f"Question {turn}", parent=parent))
        words = "\n\n".join(f"Paragraph {number} of answer {turn}." for number in range(12))
        talk.append(Message("assistant", words, parent=talk[-1].id))
    return Conversation(talk)


def test_a_hit_far_away_is_brought_into_view(window: MainWindow, qtbot: QtBot) -> None:
    window.chat.show_conversation(long_talk())
    view = window.chat_panel.view
    find(window, "Paragraph 11 of answer 7.", qtbot)
    assert count(window) == "1 of 1"

    def is_seen() -> bool:
        answer = view.column.view(15)
        assert answer is not None
        hits = [each for text in answer.texts for each in text.layer("found")]
        text = answer.texts[0]
        top = text.mapTo(view.viewport(), text.cursorRect(hits[0][0]).topLeft()).y() if hits else -1
        return 0 <= top < view.viewport().height()

    qtbot.waitUntil(is_seen)


def test_a_hit_of_the_list_is_shown_in_its_chat(told: MainWindow, qtbot: QtBot) -> None:
    told.conversations.archive.wait(0)
    answer = told.chat.conversation.messages[-1]
    told.conversations.panel.hit_opened.emit(told.chat.conversation.id, "dragons", answer.id)
    qtbot.waitUntil(lambda: count(told) == "1 of 1")
    assert told.chat_panel.find_bar.field.text() == "dragons"
    first = told.chat.conversation.id
    told.chat.start_new_chat()
    assert not told.chat_panel.find_bar.isVisible()
    other = long_talk()
    told.conversations.panel.hit_opened.emit(other.id, "answer 3.", other.messages[7].id)
    told.chat.show_conversation(other)
    qtbot.waitUntil(lambda: count(told) == "1 of 12")
    assert first != other.id


def test_another_hit_of_the_list_in_the_same_chat(window: MainWindow, qtbot: QtBot) -> None:
    window.chat.show_conversation(long_talk())
    talk = window.chat.conversation
    for turn in (3, 40, 3):
        window.conversations.panel.hit_opened.emit(talk.id, "Paragraph 0", talk.messages[2 * turn + 1].id)
        qtbot.waitUntil(lambda turn=turn: count(window) == f"{turn + 1} of 60")  # type: ignore[misc]


def test_the_text_that_had_the_focus_may_be_gone(window: MainWindow, qtbot: QtBot) -> None:
    window.chat.show_conversation(long_talk())
    window.activateWindow()
    view = window.chat_panel.view
    text = view.answers[-1].text
    text.setFocus()
    qtbot.waitUntil(text.hasFocus)
    window.finding.find()
    view.column.truncate(2)
    qtbot.waitUntil(lambda: not shiboken6.isValid(text))
    window.chat_panel.find_bar.end()
    assert not window.chat_panel.find_bar.isVisible()


def test_of_a_letter_that_stands_everywhere_only_those_around_the_current_hit_are_marked(
    window: MainWindow, qtbot: QtBot
) -> None:
    conversation = Conversation()
    conversation.ask("x" * 20_000)
    window.chat.show_conversation(conversation)
    find(window, "x", qtbot)
    view = window.chat_panel.view

    def marks() -> int:
        return sum(len(text.layer("found")) for text in view.questions[-1].texts)

    def has_current() -> bool:
        looks = [look for text in view.questions[-1].texts for _, look in text.layer("found")]
        return sum(each.fontUnderline() for each in looks) == 1

    qtbot.waitUntil(lambda: count(window) == "1 of 20,000" and has_current())
    assert 0 < marks() < 10_000
    press(window, Qt.Key.Key_Return, SHIFT)
    assert count(window) == "20,000 of 20,000"
    qtbot.waitUntil(has_current)
    assert 0 < marks() < 10_000


@pytest.mark.parametrize(
    ("searched", "excerpt", "words"),
    [
        ("old  dragon", "an \x02old\x03 \x02dragon\x03 sleeps", "old dragon"),
        ("dragon old", "an \x02old\x03 \x02dragon\x03 sleeps", "old"),
        ("cafe", "ein \x02Café\x03", "Café"),
        ("x", "", ""),
    ],
)
def test_what_of_a_search_is_looked_for_in_the_chat(searched: str, excerpt: str, words: str) -> None:
    assert found_words(searched, excerpt) == words
