"""The conversation on the screen: bubbles, figures, scrolling, links, copies."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.conversation import Conversation, Ending, Message
from app.chat.conversation_view import COLUMN_WIDTH, ConversationView
from app.chat.figures import figures_of
from app.chat.message_text import MessageText, open_link
from app.chat.welcome import EXAMPLES, Welcome
from app.engine_state import EngineState, Phase
from app.theme import DARK, LIGHT
from engine.messages import Seconds, Statistics
from tests.app.fake_engine import loaded

FIGURES = Statistics(
    method="specexec", new_tokens=102, passes=12, first_token_seconds=0.12, seconds=Seconds(decode=2.0)
)


@pytest.fixture
def view(qtbot: QtBot) -> ConversationView:
    """An empty list of messages on the screen."""
    made = ConversationView(LIGHT)
    qtbot.addWidget(made)
    made.resize(1000, 400)
    made.show()
    qtbot.waitExposed(made)
    return made


def settle() -> None:
    """Let the layouts come to rest: a changed height travels up through them one event at a time."""
    for _ in range(5):
        QApplication.processEvents()


def add_turn(view: ConversationView, question: str, answer: str, ending: Ending = Ending.COMPLETE) -> None:
    """Show a turn that is there already."""
    view.add_turn(Message("user", question), Message("assistant", answer, ending, FIGURES))
    settle()


def fill(view: ConversationView, turns: int = 12) -> None:
    """Show more than fits."""
    for number in range(turns):
        add_turn(view, f"Question {number}", "Some words. " * 40)


def grow(view: ConversationView, text: str) -> None:
    """Let the last answer grow, and show it."""
    view.change_answer(Message("assistant", text, Ending.OPEN), text)
    view.answers[-1]._throttle.flush()
    settle()


def test_every_message_is_as_tall_as_its_text(view: ConversationView) -> None:
    add_turn(view, "short", "one line")
    low = view.answers[0].text.height()
    add_turn(view, "long", "many words " * 200)
    assert view.answers[1].text.height() > 4 * low
    for answer in view.answers:
        assert answer.text.verticalScrollBar().maximum() == 0


def test_a_narrower_window_makes_taller_messages(view: ConversationView) -> None:
    add_turn(view, "long", "many words " * 100)
    wide = view.answers[0].text.height()
    view.resize(420, 400)
    QApplication.processEvents()
    assert view.answers[0].text.height() > wide


def test_a_narrow_window_cuts_nothing_off(view: ConversationView) -> None:
    view.resize(260, 400)
    add_turn(view, "q", "a")
    labels = [label for label in view.answers[0].figures.findChildren(QLabel) if label.isVisible()]
    rows = {label.y() for label in labels}
    assert len(rows) > 1
    assert all(label.geometry().right() <= view.answers[0].figures.width() for label in labels)
    page = view.widget()
    assert page is not None
    assert page.width() <= view.viewport().width()
    assert view.answers[0].figures.height() >= max(label.geometry().bottom() for label in labels)


def test_the_column_has_a_readable_width(view: ConversationView) -> None:
    add_turn(view, "q", "a " * 500)
    assert view.answers[0].width() == COLUMN_WIDTH


def test_a_question_is_shown_as_typed_in_a_bubble_of_its_width(view: ConversationView) -> None:
    typed = "*not bold*   <b>x</b>\nsecond line"
    add_turn(view, typed, "a")
    add_turn(view, "long words " * 60, "a")
    assert view.questions[0].text.toPlainText() == typed
    assert view.questions[0].text.width() < COLUMN_WIDTH / 2
    assert COLUMN_WIDTH * 0.7 < view.questions[1].text.width() < COLUMN_WIDTH * 0.8


def test_it_follows_a_growing_answer_at_the_bottom(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    before = bar.maximum()
    grow(view, "More words. " * 60)
    assert bar.maximum() > before
    assert bar.value() == bar.maximum()


def test_it_stays_where_the_reader_is(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    bar.setValue(50)
    grow(view, "More words. " * 60)
    assert bar.value() == 50
    assert view._to_bottom.isVisible()
    view._to_bottom.click()
    assert bar.value() == bar.maximum()
    assert not view._to_bottom.isVisible()
    grow(view, "Still more words. " * 60)
    assert bar.value() == bar.maximum()


def test_an_own_question_goes_to_the_end(view: ConversationView) -> None:
    fill(view)
    view.verticalScrollBar().setValue(0)
    add_turn(view, "new", "")
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()


def test_the_wheel_scrolls_the_list_over_a_message(view: ConversationView) -> None:
    fill(view)
    bar = view.verticalScrollBar()
    before = bar.value()
    message = view.answers[-1].text
    where = message.mapTo(view, QPoint(5, message.height() - 5))
    QTest.wheelEvent(view.windowHandle(), where, QPoint(0, 240))
    assert bar.value() < before


def test_text_arrives_in_frames_and_the_ending_at_once(view: ConversationView) -> None:
    view.add_turn(Message("user", "q"), Message("assistant", "", Ending.WAITING))
    for _ in range(50):
        view.change_answer(Message("assistant", "", Ending.OPEN), "word ")
    assert view.answers[0].markdown.text.count("word") < 50
    view.change_answer(Message("assistant", "word " * 50, Ending.COMPLETE, FIGURES), "")
    assert view.answers[0].markdown.text == "word " * 50


def test_a_restarted_answer_is_empty_again(view: ConversationView) -> None:
    add_turn(view, "q", "old text")
    view.restart_answer(Message("assistant", "", Ending.WAITING))
    grow(view, "new")
    assert view.answers[0].text.toPlainText().strip() == "new"


def test_only_the_last_answer_can_be_generated_again(view: ConversationView, qtbot: QtBot) -> None:
    add_turn(view, "one", "eins")
    add_turn(view, "two", "zwei")
    assert not view.answers[0]._regenerate.isVisible()
    with qtbot.waitSignal(view.regenerate_requested):
        view.answers[1]._regenerate.click()


def test_an_answer_is_copied_as_markdown(view: ConversationView) -> None:
    add_turn(view, "q", "**bold** and `code`")
    view.answers[0]._copy.click()
    assert QGuiApplication.clipboard().text() == "**bold** and `code`"


def test_a_conversation_replaces_another(view: ConversationView) -> None:
    fill(view, 3)
    conversation = Conversation()
    _, answer = conversation.ask("only")
    conversation.replace_answer(replace(answer, text="one", ending=Ending.COMPLETE))
    view.show_conversation(conversation)
    assert [each.text.toPlainText() for each in view.questions] == ["only"]
    assert len(view.answers) == 1


def test_another_theme_keeps_the_text(view: ConversationView) -> None:
    add_turn(view, "q", "some `code`")
    view.set_theme(DARK)
    assert "some code" in view.answers[0].text.toPlainText()


def test_figures_stand_under_the_answer_with_their_definitions(view: ConversationView) -> None:
    add_turn(view, "q", "a")
    assert view.answers[0].figures.text == (
        "51.0 tokens/s · 8.5 tokens per pass · 12 passes · 102 tokens · first token 0.12 s"
    )
    for figure in figures_of(Message("assistant", "a", Ending.COMPLETE, FIGURES)):
        assert len(figure.definition) > len(figure.text)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (Ending.WAITING, "Waiting for the model"),
        (Ending.OPEN, "Reading the question"),
        (Ending.STOPPED, "Stopped"),
        (Ending.FAILED, "Not answered"),
        (Ending.INTERRUPTED, "Interrupted: the engine stopped"),
    ],
)
def test_an_answer_says_why_there_is_no_more(ending: Ending, words: str) -> None:
    assert [each.text for each in figures_of(Message("assistant", "", ending))] == [words]


def test_a_cut_off_answer_says_where() -> None:
    assert figures_of(Message("assistant", "a", Ending.LENGTH, FIGURES))[0].text == "Cut off at 102 tokens"


def test_one_is_singular_and_notes_are_shown() -> None:
    one = replace(FIGURES, new_tokens=1, passes=1, note="No draft model is loaded.")
    texts = [each.text for each in figures_of(Message("assistant", "a", Ending.COMPLETE, one))]
    assert "1 pass" in texts
    assert "1 token" in texts
    assert texts[-1] == "No draft model is loaded."


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened outside."""
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


@pytest.mark.parametrize("url", ["https://example.org/a", "HTTP://example.org/b"])
def test_web_links_open_outside(opened: list[str], url: str) -> None:
    open_link(QUrl(url))
    assert [each.lower() for each in opened] == [url.lower()]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "ftp://host/x", "smb://host", "#there"])
def test_other_links_do_nothing(opened: list[str], url: str) -> None:
    open_link(QUrl(url))
    assert opened == []


def test_a_message_fetches_nothing(qtbot: QtBot) -> None:
    message = MessageText()
    qtbot.addWidget(message)
    kind = QTextDocument.ResourceType.ImageResource.value
    load: Callable[[int, QUrl], object] = message.loadResource
    assert load(kind, QUrl("http://host/x.png")) is None


def test_an_example_is_asked(qtbot: QtBot) -> None:
    welcome = Welcome()
    qtbot.addWidget(welcome)
    with qtbot.waitSignal(welcome.example_chosen) as chosen:
        welcome.examples[0].click()
    assert chosen.args == [EXAMPLES[0]]


def test_the_welcome_is_honest_about_the_demo_and_only_about_it(qtbot: QtBot) -> None:
    welcome = Welcome()
    qtbot.addWidget(welcome)
    assert "often wrong" in welcome._about.text()
    welcome.show_engine_state(EngineState(Phase.READY, pair=loaded(1, "/models/big")))
    assert "often wrong" not in welcome._about.text()
