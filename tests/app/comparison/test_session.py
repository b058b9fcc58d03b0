"""The comparison before a fake link: what it offers, asks, refuses and keeps; and how its window shows it."""

from array import array
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.comparison.candidates import Candidate
from app.comparison.dialog import ComparisonDialog
from app.comparison.session import ComparisonSession
from app.comparison.transcript import Transcript
from app.engine.side_run import CANCELLED, OTHER_RUNS
from app.shell.window import MainWindow
from app.telemetry.comparison import NOTHING_ASKED, STILL_ANSWERING
from engine.protocol.messages import Cancel, Failed, Finished, Reading, Round, Seconds, Statistics
from engine.protocol.options import LoadOptions
from tests.app.fake_engine import round_of
from tests.app.fake_link import FakeLink

FAST = Statistics("specexec", 64, new_tokens=4, passes=2, drafted_nodes=128, seconds=Seconds(decode=1.0))
SLOW = Statistics("none", new_tokens=4, passes=4, seconds=Seconds(decode=2.5))
WORDS = ("A", " larch", " is", " tall")


def rounds(request: int, words: tuple[str, ...], a_pass: int, seconds: float) -> list[Round]:
    """The words as tokens, so many a pass."""
    made = []
    for index, begin in enumerate(range(0, len(words), a_pass)):
        some = words[begin : begin + a_pass]
        one = replace(round_of(request, index, some[0]), text="".join(some), new_tokens=len(some))
        lengths = array("I", map(len, some)).tobytes()
        made.append(replace(one, lengths=lengths, seconds=Seconds(decode=seconds)))
    return made


def answer(window: MainWindow, link: FakeLink, words: tuple[str, ...] = WORDS) -> None:
    """Ask, and have it answered with a tree."""
    window.chat.ask("Which tree?")
    request = link.last_question.id
    link.answer(*rounds(request, words, 2, 0.5), Finished(request, "stop", "", FAST))


def write(link: FakeLink, words: tuple[str, ...] = WORDS) -> None:
    """Answer what was asked last, a token a pass."""
    request = link.last_question.id
    link.answer(*rounds(request, words, 1, 0.625), Finished(request, "stop", "", SLOW))


def shown(session: ComparisonSession, number: int) -> Transcript | None:
    """What a side has by now."""
    return session.sides[number].transcript


def candidate(session: ComparisonSession, key: str) -> Candidate:
    return next(each for each in session.candidates if each.key == key)


@pytest.fixture
def dialog(window: MainWindow, link: FakeLink) -> ComparisonDialog:
    """An answer, and its comparison."""
    answer(window, link)
    window.actions_.compare.trigger()
    return window.comparison.dialog


@pytest.fixture
def session(dialog: ComparisonDialog, window: MainWindow) -> ComparisonSession:
    return window.comparison.session


def test_an_answer_that_is_deleted_is_compared_no_more(
    dialog: ComparisonDialog, session: ComparisonSession, window: MainWindow, link: FakeLink
) -> None:
    window.chat.regenerate()
    write(link, ("An", " elm"))
    compared, other = session.sides[0].candidate.message, window.chat.conversation.last_answer
    assert compared is not None
    assert other is not None
    window.chat.show_version(other.id, 0)
    window.chat.delete(compared.id)
    assert window.chat.conversation.last_answer == other
    assert not dialog.isVisible()
    assert len(session.sides) == 0
    window.actions_.compare.trigger()
    assert window.comparison.session.sides[0].candidate.message == other


def test_without_an_answer_it_says_so(window: MainWindow) -> None:
    window.actions_.compare.trigger()
    assert [each.message for each in window.notices.notices] == ["There is no answer to compare yet."]


def test_the_answer_stands_beside_what_is_not_written_yet(session: ComparisonSession, dialog: ComparisonDialog) -> None:
    left, right = session.sides
    assert (left.title, right.title) == ("SpecExec tree, 64 nodes", "No speculation")
    assert left.transcript is not None
    assert right.transcript is None
    assert dialog.columns[0].pane.toPlainText() == "A larch is tall"
    assert "Not written yet" in dialog.columns[1].words.text()


def test_the_same_question_is_asked_and_both_stand_beside_each_other(
    session: ComparisonSession, dialog: ComparisonDialog, window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    asked, before = link.last_question, window.chat.conversation.messages
    QTest.keyClick(dialog.columns[1].button, Qt.Key.Key_Space)
    again = link.last_question
    assert again.id > asked.id
    assert again.chat == asked.chat
    assert again.options.sampling == asked.options.sampling
    assert (again.options.speculation.method, again.options.max_new_tokens) == ("none", 4)
    assert not window.chat.is_answering
    qtbot.waitUntil(lambda: dialog.columns[1].button.text() == "Cancel")
    write(link)
    qtbot.waitUntil(lambda: dialog.speed.text() == "A was 2.50 times as fast as B: 4.0 against 1.6 tokens/s.")
    assert dialog.difference.text() == "The texts are the same."
    assert "Tokens per pass | 2.00 | 1.00 | 2.00" in dialog.figures.text
    assert "Tokens per pass, B: 1.00" in [each.accessibleName() for each in dialog.figures.findChildren(QLabel)]
    assert window.chat.conversation.messages == before, "the conversation never hears of it"
    dialog.copy.click()
    assert QGuiApplication.clipboard().text() == dialog.text
    session.choose(1, candidate(session, "method:sequoia"))
    session.choose(1, candidate(session, "method:none"))
    assert session.sides[1].transcript is not None, "what is written is kept"


def test_a_long_question_tells_how_much_of_it_was_read(
    session: ComparisonSession, dialog: ComparisonDialog, link: FakeLink, qtbot: QtBot
) -> None:
    session.start(1)
    request, words = link.last_question.id, dialog.columns[1].words
    qtbot.waitUntil(lambda: words.text() == "Reading the question")
    link.answer(Reading(request, 0.25, 30.0))
    qtbot.waitUntil(lambda: words.text() == "Reading the question: 25%, 1 min 30 s left")
    write(link)
    assert session.reading is None


def test_texts_that_part_are_marked_where_they_do(
    session: ComparisonSession, dialog: ComparisonDialog, link: FakeLink, qtbot: QtBot
) -> None:
    session.start(1)
    write(link, ("A", " larch", " was", " tall"))
    qtbot.waitUntil(lambda: dialog.difference.text().startswith("The same for 2 tokens; then “ is” in A, “ was” in B."))
    marks = [each.pane.marked[1] for each in dialog.columns]
    assert marks == [" is", " was"]
    assert dialog.to_difference.isVisible()
    dialog.columns[0].pane.pointed.emit(3)
    assert dialog.token.text() == "Token 4 · A: “ tall” after 1.00 s · B: “ tall” after 2.50 s"


def test_the_race_shows_both_at_their_own_speed(
    session: ComparisonSession, dialog: ComparisonDialog, link: FakeLink, qtbot: QtBot
) -> None:
    session.start(1)
    write(link)
    qtbot.waitUntil(lambda: dialog.playback.duration == 2.5)
    dialog.playback.go_to(1.3)
    assert [each.standing.text() for each in dialog.columns] == [
        "4 tokens · 4.0 tokens/s · 2 passes · done after 1.00 s",
        "2 tokens · 1.5 tokens/s · 2 passes",
    ]
    assert dialog.columns[1].pane.marked[-1] == " is tall", "it is pale"


@pytest.mark.parametrize("seconds", [2.5, 3e6, 1e15])
def test_a_race_of_any_length_can_be_moved(dialog: ComparisonDialog, seconds: float) -> None:
    dialog.playback.set_duration(seconds)
    dialog.playback.go_to(seconds / 2)
    slider = dialog.race.slider
    assert slider.value() == pytest.approx(slider.maximum() / 2, abs=1)
    slider.setValue(slider.maximum() // 4)
    assert dialog.playback.seconds == pytest.approx(seconds / 4, rel=0.001)
    slider.setValue(slider.maximum())
    assert dialog.playback.is_at_end


def test_a_run_is_cancelled_by_its_button_and_by_closing(
    session: ComparisonSession, dialog: ComparisonDialog, link: FakeLink
) -> None:
    session.start(1)
    own = link.last_question.id
    dialog.close()
    assert link.sent[-1] == Cancel(own, 1)
    link.answer(Finished(own, "cancelled", "", SLOW))
    assert (session.sides[1].transcript, session.sides[1].words) == (None, CANCELLED)
    session.start(1)
    assert link.last_question.id > own
    link.answer(Failed(link.last_question.id, "The engine was killed.", "Restart it."))
    assert session.sides[1].words == "The engine was killed. Restart it."


def test_one_run_at_a_time_whoever_asks(session: ComparisonSession, window: MainWindow, link: FakeLink) -> None:
    window.telemetry.comparison.start()
    own = link.last_question.id
    session.start(1)
    assert session.sides[1].words == OTHER_RUNS
    write(link)
    assert window.telemetry.comparison.outcome is not None
    session.choose(1, candidate(session, "method:none"))
    assert session.sides[1].transcript is not None, "what telemetry has measured is shown"
    assert link.last_question.id == own
    session.start(1)
    window.telemetry.comparison.start()
    assert window.telemetry.comparison.words == OTHER_RUNS


def test_an_answer_goes_first(session: ComparisonSession, window: MainWindow, link: FakeLink) -> None:
    session.start(1)
    own = link.last_question.id
    window.chat.ask("And then?")
    assert Cancel(own, 1) in link.sent
    link.answer(Finished(own, "cancelled", "", SLOW))
    session.start(1)
    assert session.sides[1].words == STILL_ANSWERING


def test_another_conversation_closes_it(
    session: ComparisonSession, dialog: ComparisonDialog, window: MainWindow
) -> None:
    session.start(1)
    window.chat.start_new_chat()
    assert not dialog.isVisible()
    assert session.sides == ()


def test_versions_stand_beside_each_other_with_their_times(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    answer(window, link)
    window.chat.regenerate()
    request = link.last_question.id
    link.answer(*rounds(request, ("Oaks", " are"), 1, 0.25), Finished(request, "stop", "", SLOW))
    window.chat_panel.view.answers[-1].compare_tool.click()
    session = window.comparison.session
    assert [side.candidate.key.partition(":")[0] for side in session.sides] == ["version", "version"]
    qtbot.waitUntil(lambda: all(side.transcript and side.transcript.times.is_measured for side in session.sides))
    assert [side.transcript.times.seconds for side in session.sides if side.transcript] == [(0.25, 0.5), (0.5, 1.0)]


def test_the_prompt_of_an_earlier_answer_is_what_it_was_asked_with(window: MainWindow, link: FakeLink) -> None:
    window.chat.change_settings(replace(window.chat.generation, system_prompt="Be brief."))
    answer(window, link)
    first, options = link.last_question, window.chat.conversation.last_answer
    window.chat.ask("And then?", beginning="Then")
    second = link.last_question
    write(link)
    conversation, last = window.chat.conversation, window.chat.conversation.last_answer
    assert options is not None
    assert last is not None
    assert conversation.prompt_of(options.id, "Be brief.") == first.chat
    assert conversation.prompt_of(last.id, "Be brief.") == second.chat


def test_what_was_said_before_is_kept_once_however_often_it_is_asked_with(window: MainWindow, link: FakeLink) -> None:
    for _ in range(6):
        answer(window, link)
    asked = window.comparison.session._asked
    assert [len(each.chat) for each in asked.values()] == [1, 3, 5, 7, 9, 11]
    assert len({id(said) for each in asked.values() for said in each.chat}) == 2, "all say the same"


def test_what_other_models_write_stands_beside_what_was_written(
    session: ComparisonSession, window: MainWindow, link: FakeLink
) -> None:
    session.choose(1, candidate(session, "again"))
    session.start(1)
    write(link)
    session.choose(0, candidate(session, "method:none"))
    assert shown(session, 0) is None, "it was written in another way"
    session.start(0)
    write(link)
    window.engines.load(LoadOptions("another", "none"))
    link.load_what_was_asked()
    kept, again = (side.transcript for side in session.sides)
    assert kept is not None
    assert again is not None
    assert kept.answerer == again.answerer == "demo-target + demo-draft", "what is written stays"
    session.choose(1, candidate(session, "again"))
    assert shown(session, 1) is None
    assert "another" in session.sides[1].title
    session.start(1)
    assert link.last_question.options.speculation.method == "auto"
    write(link, ("Oaks", " are"))
    now = shown(session, 1)
    assert now is not None
    assert now.answerer == "another + demo-draft"
    assert session.temperature is None, "other models are reason enough to differ"


def test_a_chat_of_another_day_says_that_its_seed_is_not_kept(
    session: ComparisonSession, window: MainWindow, dialog: ComparisonDialog, qtbot: QtBot
) -> None:
    before = session.has_same_seed
    opened = window.chat.conversation
    window.chat.start_new_chat()
    window.chat.show_conversation(opened)
    window.actions_.compare.trigger()
    assert (before, session.has_same_seed) == (True, False)
    qtbot.waitUntil(lambda: "seed of the answer is not kept" in dialog.columns[1].words.text())
    window.chat.change_settings(replace(window.chat.generation, temperature=0.0))
    assert session.has_same_seed


def test_an_answer_without_rounds_is_said_to_be_spread_evenly(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    window.chat.ask("Which tree?")
    link.answer(Finished(link.last_question.id, "stop", "A larch is tall", FAST))
    window.actions_.compare.trigger()
    column = window.comparison.dialog.columns[0]
    qtbot.waitUntil(lambda: column.about.text().endswith("they are spread evenly"))
    window.comparison.dialog.playback.go_to(0.6)
    assert column.standing.text().startswith("2 tokens")


def test_another_version_may_be_shown_meanwhile(
    session: ComparisonSession, dialog: ComparisonDialog, window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    first, prompt = window.chat.conversation.messages[-1].id, link.last_question.chat
    window.chat.regenerate()
    request = link.last_question.id
    qtbot.waitUntil(lambda: not dialog.columns[1].button.isEnabled())
    link.answer(*rounds(request, ("An", " oak"), 2, 0.5), Finished(request, "stop", "", FAST))
    qtbot.waitUntil(dialog.columns[1].button.isEnabled)
    words = [each.words.partition(" (")[0] for each in dialog.columns[0].candidates[:2]]
    assert words == ["Version 1 of 2", "The answer as it is, version 2 of 2"]
    session.start(1)
    assert link.last_question.chat == prompt, "the question is the same"
    write(link)
    assert dialog.isVisible()
    window.chat.show_version(window.chat.conversation.messages[-1].id, 0)
    assert session.candidates[0].words.startswith("The answer as it is, version 1 of 2")
    assert session.sides[0].candidate.message == window.chat.conversation.messages[-1]
    assert window.chat.conversation.messages[-1].id == first
    assert session.sides[1].transcript is not None, "what is written is kept"


def test_a_continued_answer_is_shown_as_it_is_by_now(
    session: ComparisonSession, window: MainWindow, link: FakeLink
) -> None:
    window.chat.regenerate()
    request = link.last_question.id
    link.answer(*rounds(request, WORDS, 2, 0.5), Finished(request, "length", "", FAST))
    session.choose(0, session.candidates[1])
    window.chat.continue_answer()
    request = link.last_question.id
    link.answer(*rounds(request, (" and", " old"), 2, 0.5), Finished(request, "stop", "", FAST))
    transcript = shown(session, 0)
    assert transcript is not None
    assert transcript.text == "A larch is tall and old"


def test_a_changed_system_prompt_is_not_that_of_the_answer(window: MainWindow, link: FakeLink) -> None:
    window.chat.change_settings(replace(window.chat.generation, system_prompt="Answer in English."))
    answer(window, link)
    asked = link.last_question
    window.chat.change_settings(replace(window.chat.generation, system_prompt="Antworte auf Deutsch."))
    window.actions_.compare.trigger()
    session = window.comparison.session
    session.start(1)
    assert link.last_question.chat == asked.chat
    write(link, ("Eine", " Lärche"))
    assert session.temperature == asked.options.sampling.temperature
    window.actions_.regenerate.trigger()
    link.answer(Finished(link.last_question.id, "stop", "Eine Lärche", SLOW))
    window.actions_.compare.trigger()
    assert [side.candidate.message is None for side in session.sides] == [False, False]
    assert session.temperature is None, "two questions are reason enough to differ"


def test_a_continued_answer_is_asked_for_from_its_beginning_and_has_no_one_seed(
    window: MainWindow, link: FakeLink
) -> None:
    window.chat.change_settings(replace(window.chat.generation, temperature=0.6))
    window.chat.ask("Which tree?")
    asked = link.last_question
    link.answer(*rounds(asked.id, WORDS, 2, 0.5), Finished(asked.id, "length", "", FAST))
    window.actions_.continue_answer.trigger()
    request = link.last_question.id
    link.answer(*rounds(request, (" and", " old"), 2, 0.5), Finished(request, "stop", "", FAST))
    window.actions_.compare.trigger()
    session = window.comparison.session
    assert not session.has_same_seed
    session.start(1)
    again = link.last_question
    assert (again.chat, again.options.sampling) == (asked.chat, asked.options.sampling)


def test_another_question_in_its_place_closes_the_comparison(
    session: ComparisonSession, dialog: ComparisonDialog, window: MainWindow
) -> None:
    window.chat.edit(window.chat.conversation.messages[0].id, "Which flower?")
    assert not dialog.isVisible()
    assert session.sides == ()
    dialog.columns[0].pane.pointed.emit(-1)  # the mouse leaves it


def test_what_was_written_is_there_when_the_same_answer_is_compared_again(
    session: ComparisonSession, dialog: ComparisonDialog, window: MainWindow, link: FakeLink
) -> None:
    session.start(1)
    write(link)
    dialog.close()
    window.actions_.compare.trigger()
    assert shown(session, 1) is not None


def test_an_answer_that_goes_on_from_a_guess_is_compared_with_where_it_began(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    answer(window, link)
    window.chat.branch(window.chat.conversation.messages[1].id, "A larch was")
    request = link.last_question.id
    link.answer(*rounds(request, (" old", "."), 2, 0.5), Finished(request, "stop", "", FAST))
    window.actions_.compare.trigger()
    session, dialog = window.comparison.session, window.comparison.dialog
    qtbot.waitUntil(lambda: not any(side.has_no_times for side in session.sides))
    qtbot.waitUntil(lambda: dialog.difference.text().startswith("The same for 2 tokens; then"))
    assert "“ was” in A, “ is” in B" in dialog.difference.text()
    assert [column.pane.marked[1] for column in dialog.columns] == [" was", " is"]
    assert dialog.columns[0].standing.text().startswith("2 tokens"), "those that were written for it"
    session.choose(1, candidate(session, "method:none"))
    session.start(1)
    assert link.last_question.chat[-1].content == "A larch was"
    write(link, (" old", "!"))
    qtbot.waitUntil(lambda: "same for 15 characters" in dialog.difference.text())


def test_telemetry_compares_the_last_answer_of_a_chat_of_another_day(window: MainWindow, link: FakeLink) -> None:
    comparison = window.telemetry.comparison
    comparison.start()
    assert comparison.words == NOTHING_ASKED
    answer(window, link)
    opened, asked = window.chat.conversation, link.last_question
    window.chat.start_new_chat()
    window.chat.show_conversation(opened)
    assert comparison.can_be_shown
    comparison.start()
    assert comparison.words == ""
    assert link.last_question.id != asked.id
    assert link.last_question.chat == asked.chat
    write(link)
    assert comparison.outcome is not None
    assert comparison.outcome.texts == ("".join(WORDS),) * 2
