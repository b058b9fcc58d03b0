"""From a round to its text and back, and the rounds of a conversation of another day, in the whole window."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.archive import round_autosave
from app.chat.history.records import RoundPlace
from app.chat.text.message_text import MessageText
from app.shell.window import MainWindow
from app.tree.picture.canvas import TreeCanvas
from app.tree.widgets import News
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.campaigns.extent import choose

PIECES = choose(14, 40)  # of a long answer, of a hundred lines each
WORDS = ("One ", "two **three** ", "four ", "five ", "six.")


def converse(window: MainWindow, link: FakeLink, *pieces: str) -> None:
    window.chat.ask("Count, please.")
    link.say(*pieces)
    link.finish()


def text_of(window: MainWindow) -> MessageText:
    text: MessageText = window.chat_panel.view.answers[-1].text
    return text


def marked(window: MainWindow) -> str:
    return "".join(each.cursor.selectedText() for each in text_of(window).extraSelections())


def place_of(text: MessageText, word: str) -> QPoint:
    cursor = QTextCursor(text.document().find(word))
    cursor.setPosition(cursor.selectionStart() + 1)
    return text.cursorRect(cursor).center()


def point_at(text: MessageText, word: str) -> bool:
    """Move the mouse there; what was just written may not be laid out yet, so it is done again and again."""
    place = place_of(text, word)
    QTest.mouseMove(text.viewport(), place + QPoint(1, 0))  # one that does not move is not told
    QTest.mouseMove(text.viewport(), place)
    return True


def shown_round(window: MainWindow) -> int:
    picture = window.tree_panel.findChildren(TreeCanvas)[0].picture
    return picture.tree.number if picture else 0


def shown_word(window: MainWindow) -> str:
    picture = window.tree_panel.findChildren(TreeCanvas)[0].picture
    return picture.tree.pieces[1] if picture else ""


def test_a_round_marks_its_text_and_a_token_shows_its_round(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    converse(window, link, *WORDS)
    qtbot.waitUntil(lambda: text_of(window).toPlainText().strip().endswith("six."))
    qtbot.waitUntil(lambda: shown_round(window) == 5)
    assert marked(window) == "", "the newest round is only followed"
    window.tree_panel.player.seek(1)
    qtbot.waitUntil(lambda: marked(window) == "two three")
    text = text_of(window)
    text.hovered.emit(-1)
    qtbot.waitUntil(lambda: point_at(text, "four") and shown_round(window) == 3)
    qtbot.waitUntil(lambda: marked(window) == "four")
    text.hovered.emit(-1)  # the mouse is elsewhere
    qtbot.waitUntil(lambda: shown_round(window) == 2)
    QTest.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=place_of(text, "five"))
    text.hovered.emit(-1)
    qtbot.waitUntil(lambda: shown_round(window) == 4)
    assert window.tree_panel.player.place == 3
    window.tree_panel.player.go_live()
    qtbot.waitUntil(lambda: marked(window) == "")


def test_only_who_asks_is_taken_to_the_text(qtbot: QtBot, window: MainWindow, link: FakeLink) -> None:
    converse(window, link, *(f"word{number}\n\n" for number in range(80)))
    bar = window.chat_panel.view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 500 and bar.value() == bar.maximum())
    qtbot.waitUntil(lambda: shown_round(window) == 80)
    window.tree_panel.player.seek(2)
    qtbot.waitUntil(lambda: shown_round(window) == 3)
    assert bar.value() == bar.maximum()
    window.tree_panel.show_in_answer()
    qtbot.waitUntil(lambda: bar.value() < 300)


def test_a_round_far_inside_a_long_answer_is_found_though_nothing_is_laid_out_there(
    qtbot: QtBot, window: MainWindow, link: FakeLink
) -> None:
    lines = [f"Line number {number} of many, with some words behind it.\n\n" for number in range(100 * PIECES)]
    middle = PIECES // 2
    converse(window, link, *("".join(lines[begin : begin + 100]) for begin in range(0, len(lines), 100)))
    view = window.chat_panel.view
    bar = view.verticalScrollBar()

    def seen() -> str:
        answer, height = view.answers[-1], view.viewport().height()
        inside = [each for each in answer.body.texts if each.isVisible()]
        ends = [(each.mapTo(view.viewport(), QPoint()).y(), each) for each in inside]
        return "".join(each.toPlainText() for top, each in ends if top < height and top + each.height() > 0)

    qtbot.waitUntil(lambda: shown_round(window) == PIECES)
    qtbot.waitUntil(lambda: f"Line number {len(lines) - 1} " in seen())  # text appears little by little
    qtbot.waitUntil(lambda: bar.maximum() > 12 * len(lines) and bar.value() == bar.maximum())
    window.tree_panel.player.seek(middle)
    qtbot.waitUntil(lambda: shown_round(window) == middle + 1)
    window.tree_panel.show_in_answer()
    qtbot.waitUntil(lambda: f"Line number {100 * middle + 1} " in seen())
    assert 0.4 < bar.value() / bar.maximum() < 0.6


def test_rounds_of_another_day_come_back_with_their_conversation(
    qtbot: QtBot, open_window: OpenWindow, link: FakeLink
) -> None:
    first = open_window(link)
    link.become_ready()
    converse(first, link, *WORDS)
    first.chat.regenerate()
    link.say("Uno ", "due.")
    link.finish()
    first.close()
    other = FakeLink()
    window = open_window(other)
    other.become_ready()
    qtbot.waitUntil(lambda: bool(window.conversations.autosave.records))
    window.conversations.autosave.open(window.conversations.autosave.records[0].id)
    player = window.tree_panel.player
    qtbot.waitUntil(lambda: len(player.history) == 7)
    qtbot.waitUntil(lambda: shown_round(window) == 2)
    assert player.is_live
    qtbot.waitUntil(lambda: all(player.history.figures.rows["tokens"] > 0))  # nobody has looked at these rounds yet
    player.seek(6)
    qtbot.waitUntil(lambda: marked(window) == "due.")
    text = text_of(window)
    qtbot.waitUntil(lambda: point_at(text, "Uno") and marked(window) == "Uno")
    text.hovered.emit(-1)
    player.go_live()
    converse(window, other, "Tre ", "quattro.")
    assert len(player.history) == 9
    player.seek(5)
    qtbot.waitUntil(lambda: shown_word(window) == "Uno ")
    player.seek(0)
    qtbot.waitUntil(lambda: shown_word(window) == "One ")
    window.tree_panel.show_in_answer()
    qtbot.waitUntil(lambda: "another version" in window.tree_panel.findChildren(News)[0].words.text())
    autosave = window.conversations.autosave
    here = autosave.current
    window.conversations.delete(here)
    qtbot.waitUntil(lambda: len(player.history) == 0)
    window.conversations.undo_delete()
    qtbot.waitUntil(lambda: len(player.history) == 9)


def test_rounds_inside_closed_thinking_mark_its_line_and_are_shown_inside_when_it_is_opened(
    qtbot: QtBot, window: MainWindow, link: FakeLink
) -> None:
    converse(window, link, "<think>", "First this, ", "then that.", "</think>\n\n", "Yes, ", "it is.")
    view = window.chat_panel.view.answers[-1]
    qtbot.waitUntil(lambda: text_of(window).toPlainText().strip() == "Yes, it is.")
    thought = view.thought
    assert thought is not None
    window.tree_panel.player.seek(2)
    qtbot.waitUntil(lambda: thought.header.property("marked"))
    assert marked(window) == ""
    window.tree_panel.player.seek(4)
    qtbot.waitUntil(lambda: marked(window) == "Yes,")
    assert not thought.header.property("marked")
    window.tree_panel.player.seek(2)
    qtbot.waitUntil(lambda: shown_round(window) == 3)
    window.tree_panel.show_in_answer()
    assert thought.is_open
    assert not thought.header.property("marked"), "the text itself is"
    inside = thought.text
    assert inside is not None
    qtbot.waitUntil(lambda: [each.cursor.selectedText() for each in inside.extraSelections()] == ["then that."])
    qtbot.waitUntil(lambda: point_at(inside, "First") and shown_round(window) == 2)
    thought.header.click()
    assert thought.header.property("marked")


def test_very_many_rounds_are_looked_through_in_several_turns(
    qtbot: QtBot, window: MainWindow, link: FakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_autosave, "_SLICE_SECONDS", 0.0)
    converse(window, link, "one")
    rounds, chat = window.conversations.rounds, window.chat.conversation
    listed: list[int] = []
    rounds.listed.connect(lambda keys: listed.append(len(keys)))
    places = [RoundPlace(chat.leaf, 77, number, number, number, number + 1) for number in range(3_000)]
    rounds._on_listed(chat.id, places)
    assert listed == []
    turns = 0
    while not listed:
        QApplication.processEvents()
        turns += 1
    assert listed == [3_000]
    assert turns > 5
    rounds._on_listed(chat.id, places)
    window.actions_.new_chat.trigger()
    for _ in range(2 * turns):
        QApplication.processEvents()
    assert listed == [3_000], "another chat is shown by then"
