"""The text of a column: tokens and places agree, also where letters count twice, and both texts scroll by token."""

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.history.message import Message
from app.comparison.candidates import Candidate
from app.comparison.column import AnswerColumn, Running
from app.comparison.playback import Playback
from app.comparison.session import Side
from app.comparison.text_pane import TextPane, showable, utf16_places
from app.comparison.transcript import Transcript
from app.engine.token_times import TokenTimes
from app.ui.theme import LIGHT


def of_words(words: list[str]) -> Transcript:
    ends, end = [], 0
    for word in words:
        end += len(word)
        ends.append(end)
    return Transcript("".join(words), TokenTimes(0, tuple(ends), (len(words),), (1.0,)))


@pytest.fixture
def panes(qtbot: QtBot) -> tuple[TextPane, TextPane]:
    made = TextPane("A", LIGHT), TextPane("B", LIGHT)
    for width, each in zip((320, 500), made, strict=True):
        qtbot.addWidget(each)
        each.resize(width, 200)
        each.show()
    return made


def test_the_other_text_goes_to_the_same_token(panes: tuple[TextPane, TextPane]) -> None:
    words = [f"word{number} " if number % 40 else "\n\n" for number in range(1, 2001)]
    for each in panes:
        each.show_transcript(of_words(words))
    QApplication.processEvents()
    one, other = panes
    for token in (0, 137, 800, 1500):
        one.go_to(token)
        other.go_to(one.top_token)
        QApplication.processEvents()
        assert abs(one.top_token - token) < 12  # within a line
        assert abs(other.top_token - one.top_token) < 14


def test_letters_that_count_twice_keep_their_tokens(panes: tuple[TextPane, TextPane]) -> None:
    pane = panes[0]
    pane.show_transcript(of_words(["🌲🌲", " tree", "🌳", "!"]))
    pane.point_at(2)
    assert pane.marked[0] == "🌳"
    pane.point_at(3)
    assert pane.marked[0] == "!"
    told: list[int] = []
    pane.pointed.connect(told.append)
    cursor = pane.textCursor()
    cursor.setPosition(9)
    pane._tell(cursor)
    assert told == [2]


def test_a_growing_text_is_added_to(panes: tuple[TextPane, TextPane]) -> None:
    pane = panes[0]
    for words in (["A"], ["A", " larch\r\n"], ["A", " larch\r\n", "is"]):
        pane.show_transcript(of_words(words))
    assert pane.toPlainText() == "A larch \nis"
    pane.show_transcript(of_words(["Oak"]))
    assert pane.toPlainText() == "Oak"
    pane.show_transcript(None)
    assert pane.toPlainText() == ""


def test_a_growing_text_stays_where_a_person_reads(panes: tuple[TextPane, TextPane]) -> None:
    pane, words = panes[0], [f"line\u00a0{number}\n" for number in range(60)]
    pane.show_transcript(of_words(words[:40]))
    QApplication.processEvents()
    bar = pane.verticalScrollBar()
    bar.setValue(bar.maximum())
    pane.show_transcript(of_words(words[:50]))
    assert bar.value() == bar.maximum() > 10, "it follows"
    bar.setValue(5)
    pane.show_transcript(of_words(words))
    assert bar.value() == 5


def test_a_text_that_is_too_long_for_a_field_is_cut_and_that_is_told(panes: tuple[TextPane, TextPane]) -> None:
    column = AnswerColumn("A", LIGHT, panes[0])
    for text, is_cut in (("x" * 300_000, True), ("short", False)):
        candidate = Candidate("version:1", "The answer", "Tree", Message("assistant", text))
        column.show_side(Side(candidate, of_words([text])), Running(0, 0, "", has_same_seed=True))
        assert ("its first 20,000 characters" in column.about.text()) is is_cut


def test_texts_are_shown_as_a_field_can_hold_them() -> None:
    assert showable("a\r\nb\0c") == "a \nb\N{REPLACEMENT CHARACTER}c"
    assert len(showable("x" * 300_000)) <= 20_000
    assert utf16_places("Lärche") is None
    assert utf16_places("a🌲b") == (0, 1, 3, 4)


def test_the_clock_of_a_race() -> None:
    now = [0.0]
    playback = Playback(clock=lambda: now[0])
    playback.set_duration(2.0)
    assert (playback.is_at_end, playback.seconds) == (True, 2.0)
    playback.play()
    assert playback.seconds == 0.0
    now[0] = 0.5
    playback.advance()
    playback.set_pace(4.0)
    now[0] = 0.75
    playback.advance()
    assert playback.seconds == 1.5
    now[0] = 9.0
    playback.advance()
    assert (playback.is_playing, playback.seconds) == (False, 2.0)
    playback.go_to(0.5)
    playback.set_duration(0.25)
    assert playback.seconds == 0.25
