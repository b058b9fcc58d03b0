"""What stands around answers: endings in words, links, what a message may fetch, the welcome."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QImage, QTextDocument
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app.chat.history.message import AnswerEnding, Message
from app.chat.text.links import open_link
from app.chat.text.message_text import MessageText
from app.chat.view.answer_figures import FiguresRow, TimePopup, figures_of
from app.chat.view.welcome import EXAMPLES, Welcome
from app.engine.state import EngineState, Phase
from app.i18n.translation import install
from app.ui.colors import LIGHT
from engine.protocol.messages import Seconds, Statistics
from tests.app.fake_engine import loaded

FIGURES = Statistics(
    method="specexec", new_tokens=102, passes=12, first_token_seconds=0.12, seconds=Seconds(decode=2.0)
)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (AnswerEnding.WAITING, "Waiting for the model"),
        (AnswerEnding.OPEN, "Reading the question"),
        (AnswerEnding.STOPPED, "Stopped"),
        (AnswerEnding.FAILED, "Not answered"),
        (AnswerEnding.INTERRUPTED, "Interrupted: the engine stopped"),
        (AnswerEnding.CLOSED, "Interrupted: Coppice was closed"),
    ],
)
def test_an_answer_says_why_there_is_no_more(ending: AnswerEnding, words: str) -> None:
    assert [each.text for each in figures_of(Message("assistant", "", ending))] == [words]


def test_a_cut_off_answer_says_where() -> None:
    assert figures_of(Message("assistant", "a", AnswerEnding.LENGTH, FIGURES))[0].text == "Cut off at 102 tokens"


@pytest.fixture
def english(qapp: QApplication) -> Iterator[None]:
    """The window's words in English, with singular and plural."""
    installed = install(qapp, "en")
    yield
    for each in installed:
        qapp.removeTranslator(each)


@pytest.mark.usefixtures("english")
def test_the_line_is_short_and_the_rest_stands_over_it(qtbot: QtBot) -> None:
    row = FiguresRow(LIGHT)
    qtbot.addWidget(row)
    spent = Seconds(load=1.0, prefill=59.0, decode=30.4)
    row.show_message(Message("assistant", "a", AnswerEnding.COMPLETE, replace(FIGURES, seconds=spent)))
    assert row.text == "3.4 tokens/s · 8.5 tokens per pass · 1 min 30 s"
    row._open()
    assert row.popup is not None
    assert "102 tokens · 12 passes · first token 0.12 s" in row.popup.text
    row.show_message(Message("assistant", "a", AnswerEnding.COMPLETE, FIGURES))
    assert row.text.endswith("2.0 s"), "short times are told more exactly"


@pytest.mark.usefixtures("english")
def test_one_is_singular() -> None:
    one = Statistics(new_tokens=1, passes=1)
    assert figures_of(Message("assistant", "a", AnswerEnding.COMPLETE, one))[-1].text == "1 token"
    label = QLabel()
    assert TimePopup(replace(FIGURES, new_tokens=1, passes=1), LIGHT, label).text.count("1 token · 1 pass · ") == 1


@pytest.mark.usefixtures("english")
def test_a_question_that_waits_behind_clients_says_so() -> None:
    waiting = [figures_of(Message("assistant", "", AnswerEnding.OPEN, ahead=ahead))[0].text for ahead in (1, 2, 10**30)]
    assert waiting[:2] == ["Waiting: 1 request before this one", "Waiting: 2 requests before this one"]
    assert len(waiting) == 3


@pytest.mark.usefixtures("english")
def test_an_engine_that_counts_little_gets_only_the_figures_it_told(qtbot: QtBot) -> None:
    counted = Message("assistant", "a", AnswerEnding.COMPLETE, Statistics(new_tokens=7))
    assert [each.text for each in figures_of(counted)] == ["7 tokens"]
    assert figures_of(Message("assistant", "a", AnswerEnding.OPEN)) == (), "it writes, and does not read any more"
    timed = Statistics(new_tokens=8, seconds=Seconds(decode=2.0))
    parent = QLabel()
    qtbot.addWidget(parent)
    popup = TimePopup(timed, LIGHT, parent)
    assert popup.text == "Where the time went · Writing the answer · 2.00 s · 100% · 8 tokens"


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
    found = message.loadResource(kind, QUrl("http://host/x.png"))
    assert isinstance(found, QImage)
    assert found.isNull(), "nothing at all would make Qt look for it"


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
    welcome.expect("embedded")
    assert "often wrong" in welcome._about.text()
    welcome.expect("/models/big")
    assert "often wrong" not in welcome._about.text(), "it is still being loaded"


@pytest.mark.usefixtures("english")
def test_how_it_was_speculated_is_told_where_it_is_known(qtbot: QtBot) -> None:
    parent = QLabel()
    qtbot.addWidget(parent)

    def told(statistics: Statistics) -> str:
        return TimePopup(statistics, LIGHT, parent).text.rpartition(" passes")[2].removeprefix(" · ")

    spent = Seconds(decode=2.0)
    assert told(Statistics("none", new_tokens=9, passes=9, seconds=spent)) == "No speculation"
    assert told(Statistics("none", new_tokens=90, passes=12, seconds=spent)) == "", "an older version kept no method"
    assert told(Statistics("specexec", 64, new_tokens=9, passes=9, seconds=spent)).endswith("specexec, 64 nodes a pass")
    assert told(Statistics("draft", new_tokens=90, passes=12, seconds=spent)) == "Speculation: draft"


def test_the_model_is_named_where_it_is_looked_for_and_where_there_are_several(qtbot: QtBot) -> None:
    written = Message("assistant", "a", AnswerEnding.COMPLETE, FIGURES, answerer="oak-7b + acorn-1b")
    row = FiguresRow(LIGHT)
    qtbot.addWidget(row)
    row.show_message(written)
    assert "oak" not in row.text
    row._open()
    assert row.popup is not None
    assert "Written by oak-7b + acorn-1b" in row.popup.text
    row.set_names_model(True)
    assert row.text.endswith("· oak-7b")
    row.show_message(replace(written, answerer="oak-7b @ host:8000"))
    assert row.text.endswith("· oak-7b @ host:8000"), "named once"
    row.show_message(replace(written, answerer=""))
    assert "oak" not in row.text
    row.show_message(replace(written, answerer="x" * 300))
    assert row.text.endswith("· " + "x" * 40 + "…")
