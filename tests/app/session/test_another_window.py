"""Two windows in front of the real engine: both ask at once, in turn, and neither disturbs the other."""

from collections.abc import Iterator

import pytest

from app.chat.history.message import AnswerEnding, Message
from app.shell.window import MainWindow
from tests.app.session.person import ENDLESS, SHORT, STORY, Session


@pytest.fixture
def other(session: Session) -> Iterator[MainWindow]:
    """Another window beside the session's."""
    program = session.window.program
    program.show_new_window()
    session.wait(lambda: len(program.windows) == 2 and program.windows[-1].isVisible())
    opened = program.windows[-1]
    opened.chat.change_settings(SHORT)
    yield opened
    if opened in program.windows:
        opened.close()
    session.window.activateWindow()  # there is no window manager that would


def answer(window: MainWindow) -> Message:
    last = window.chat.conversation.last_answer
    assert last is not None
    return last


def test_two_windows_answer_in_turn_and_stop_alone(session: Session, other: MainWindow) -> None:
    window = session.window
    session.begin()
    alone = session.ask().text
    session.begin(ENDLESS)
    window.chat.ask(STORY)
    session.wait(lambda: answer(window).text != "")
    other.chat.ask(STORY)
    session.wait(lambda: answer(other).ahead == 1)
    window.chat.stop()
    session.wait(lambda: not other.chat.is_answering)
    assert answer(window).ending is AnswerEnding.STOPPED
    assert (answer(other).text, answer(other).ending) == (alone, AnswerEnding.LENGTH)

    other.chat.change_settings(ENDLESS)
    other.chat.ask("And then?")
    session.wait(lambda: answer(other).text != "")
    window.chat.change_settings(SHORT)
    window.chat.ask("Why not?")
    window.chat.stop()
    session.wait(lambda: not window.chat.is_answering)
    assert answer(window).ending is AnswerEnding.STOPPED, "who waits need not wait for that"
    length = len(answer(other).text)
    session.wait(lambda: len(answer(other).text) > length)

    window.chat.regenerate()
    other.close()
    assert session.answered().ending in (AnswerEnding.COMPLETE, AnswerEnding.LENGTH)


def test_a_text_that_made_way_for_the_other_windows_comes_back(session: Session, other: MainWindow) -> None:
    session.begin()
    session.ask("Is this a fox? " * 12)
    other.chat.ask("And is that a bear? " * 12)
    session.wait(lambda: not other.chat.is_answering)
    figures = session.ask("Why?").statistics
    assert figures is not None
    assert figures.cached_tokens > 0.8 * figures.prompt_tokens
