"""Writing a question: keys, height, and the one button."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolTip
from pytestqt.qtbot import QtBot

from app.chat.composer.composer import Composer
from app.ui.theme import LIGHT


@pytest.fixture
def composer(qtbot: QtBot) -> Composer:
    """A composer on the screen."""
    made = Composer(LIGHT)
    qtbot.addWidget(made)
    made.resize(500, 60)
    made.show()
    return made


@pytest.fixture
def sent(composer: Composer) -> list[str]:
    """What was sent."""
    texts: list[str] = []
    composer.sent.connect(lambda text, *_: texts.append(text))
    return texts


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_sends_and_empties(composer: Composer, sent: list[str], key: Qt.Key) -> None:
    QTest.keyClicks(composer.field, "  Hello there ")
    QTest.keyClick(composer.field, key)
    assert sent == ["Hello there"]
    assert composer.field.toPlainText() == ""


def test_shift_enter_begins_a_line(composer: Composer, sent: list[str]) -> None:
    QTest.keyClicks(composer.field, "a")
    QTest.keyClick(composer.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(composer.field, "b")
    assert sent == []
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == ["a\nb"]


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_is_not_sent(composer: Composer, sent: list[str], text: str) -> None:
    composer.field.setPlainText(text)
    assert not composer.button.isEnabled()
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []


def test_the_field_grows_to_eight_lines(composer: Composer) -> None:
    heights = []
    for lines in (1, 2, 8, 9, 40):
        composer.field.setPlainText("\n".join("x" * lines))
        heights.append(composer.field.height())
    assert heights[0] < heights[1] < heights[2] == heights[3] == heights[4]


def test_a_wrapped_line_counts_as_lines(composer: Composer) -> None:
    one = composer.field.height()
    composer.field.setPlainText("many words " * 30)
    assert composer.field.height() > one


@pytest.mark.parametrize(
    ("text", "at_right"),
    [("مرحبا English", True), ("\n\nשלום\nEnglish", True), ("English مرحبا", False), ("12 مرحبا", True), ("", False)],
)
def test_a_text_stands_at_the_side_where_its_first_words_begin(composer: Composer, text: str, at_right: bool) -> None:
    composer.field.setPlainText("مرحبا" if not at_right else "English")  # what stood there before
    composer.field.setPlainText(text)
    composer.field.moveCursor(QTextCursor.MoveOperation.Start)
    assert (composer.field.cursorRect().center().x() > composer.field.viewport().width() / 2) is at_right


def test_while_answering_one_can_write_and_stop_but_not_send(composer: Composer, sent: list[str], qtbot: QtBot) -> None:
    composer.set_answering(True)
    QTest.keyClicks(composer.field, "next")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []
    assert composer.field.toPlainText() == "next"
    with qtbot.waitSignal(composer.stop_requested):
        QTest.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    composer.set_answering(False)
    QTest.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert sent == ["next"]


def test_why_enter_sends_nothing_is_said(composer: Composer, sent: list[str], qtbot: QtBot, tmp_path: Path) -> None:
    QTest.keyClicks(composer.field, "a")
    composer.set_answering(True)
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: QToolTip.text().startswith("An answer is under way"))
    composer.set_answering(False)
    (tmp_path / "a.txt").write_text("words")
    composer.tray.add_file(tmp_path / "a.txt")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: QToolTip.text() == "A file is still being read")
    assert sent == []


def test_without_a_model_nothing_is_sent_and_nothing_lost(composer: Composer, sent: list[str]) -> None:
    composer.set_can_ask(False)
    QTest.keyClicks(composer.field, "kept")
    QTest.keyClick(composer.field, Qt.Key.Key_Return)
    assert sent == []
    assert composer.field.toPlainText() == "kept"
    assert "no model" in composer.button.toolTip()


def test_the_button_says_what_it_does(composer: Composer) -> None:
    assert composer.button.accessibleName() == "Send"
    composer.set_answering(True)
    assert composer.button.accessibleName() == "Stop"
    assert composer.field.accessibleName()
