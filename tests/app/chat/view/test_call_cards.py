"""Calls in an answer as a person sees them, and what a person says to them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.finding.needle import Wanted
from app.chat.finding.search import Search
from app.chat.history.calls import Call, CallState, Decision
from app.chat.history.conversation import Conversation
from app.chat.history.message import TEXT as TEXT_PART
from app.chat.history.message import THOUGHT, AnswerEnding, Message
from app.chat.text.document_style import Look
from app.chat.typesetting.layout_cost import Budget
from app.chat.view.answer_view import AnswerView
from app.chat.view.call_card import CallCard, readable_arguments
from app.chat.view.conversation_view import ConversationView
from app.ui.colors import DARK, LIGHT
from tests.app.chat.history.test_calls import COUNT, DONE, LOOK, TEXT


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ('{"at": "sea", "days": 3}', ["at: sea", "days: 3"]),
        ('{"code": "a = 1\\nb: 2"}', ["code: ", "    a = 1", "    b: 2"]),
        ('{"odd\\nname: x": "1"}', ["odd name: x: 1"]),
        ('{"wide": {"a": "' + "x" * 80 + '"}}', ["wide: ", "    {", '      "a": "' + "x" * 80 + '"', "    }"]),
        ("{}", [""]),
        ("no JSON", ["no JSON"]),
        ("[1]", ["[1]"]),
    ],
)
def test_arguments_are_read_line_by_line_and_none_passes_for_another(arguments: str, lines: list[str]) -> None:
    assert readable_arguments(arguments).split("\n") == lines


def test_signs_that_turn_text_around_are_seen() -> None:
    assert "\u202e" not in readable_arguments('{"path": "a\u202eb", "x\u202ey": 1}')
    assert "\u202e" not in readable_arguments("\u202e")


@pytest.fixture
def made(qtbot: QtBot) -> Callable[..., CallCard]:
    """Makes a card."""

    def make(call: Call, is_open: bool = True) -> CallCard:
        card = CallCard(Look(LIGHT), None)  # type: ignore[arg-type]
        qtbot.addWidget(card)
        card.show_call(call, is_open)
        card.show()
        return card

    return make


def test_who_is_asked_sees_all_and_decides(made: Callable[..., CallCard]) -> None:
    card = made(LOOK)
    decided: list[tuple[int, Decision]] = []
    card.decided.connect(lambda *each: decided.append(each))
    assert card.arguments.isVisible()
    assert card.arguments.toPlainText() == "at: sea"
    assert "eyes" in card.question.text()
    for button in (card.allow, card.always, card.deny):
        assert button.isVisible()
        assert not button.hasFocus(), "Enter in the field for questions allows nothing"
        QTest.keyClick(button, Qt.Key.Key_Space)
    assert decided == [(LOOK.begin, each) for each in (Decision.ONCE, Decision.ALWAYS, Decision.DENY)]


@pytest.mark.parametrize(
    ("state", "is_open", "words"),
    [
        (CallState.WAITING, False, "Not called"),
        (CallState.RUNNING, True, "Running…"),
        (CallState.DONE, False, "Done in 2 s"),
        (CallState.FAILED, True, "Failed"),
        (CallState.DENIED, True, "Declined"),
        (CallState.STOPPED, False, "Stopped"),
    ],
)
def test_a_call_that_asks_no_more_is_folded(
    made: Callable[..., CallCard], state: CallState, is_open: bool, words: str
) -> None:
    card = made(replace(LOOK, state=state, result="waves\n<b>high</b>\n", seconds=2.2), is_open)
    assert card.state.text() == words
    assert words in card.header.accessibleName()
    assert not card.allow.isVisible()
    assert not card.arguments.isVisible()
    QTest.keyClick(card.header, Qt.Key.Key_Space)
    assert card.arguments.isVisible()
    assert card.result.toPlainText() == "waves\n<b>high</b>", "it is plain text"
    assert not card.question.isVisible()


def test_a_card_folds_once_it_was_decided_and_stays_as_a_person_had_it(made: Callable[..., CallCard]) -> None:
    card = made(LOOK)
    card.show_call(replace(LOOK, state=CallState.RUNNING), is_open=True)
    assert not card.arguments.isVisible()
    card.header.click()
    card.show_call(replace(LOOK, state=CallState.DONE, result="waves"), is_open=True)
    assert card.result.isVisible()


def test_who_is_asked_reads_what_the_server_says_of_the_tool(made: Callable[..., CallCard]) -> None:
    card = made(replace(LOOK, description="Looks\n\u202eout. " * 60))
    assert card.description.isVisible()
    assert card.description.text().startswith("Looks out. Looks")
    assert len(card.description.text()) == 301
    card.show_call(replace(LOOK, state=CallState.DONE, result="waves"), True)
    assert not card.description.isVisible()
    assert not made(LOOK).description.isVisible()
    assert made(replace(LOOK, changes_nothing=True)).description.text() == "The server says that it changes nothing."


def test_a_call_under_way_says_how_far_it_is(made: Callable[..., CallCard]) -> None:
    card = made(replace(LOOK, state=CallState.RUNNING))
    assert card.state.text() == "Running…"
    card.show_call(replace(LOOK, state=CallState.RUNNING, progress="50% · reading"), True)
    assert card.state.text() == "Running: 50% · reading"
    assert "reading" in card.header.accessibleName()


def test_the_keyboard_stays_at_a_card_that_was_decided(made: Callable[..., CallCard], qtbot: QtBot) -> None:
    card = made(LOOK)
    with qtbot.waitActive(card):
        card.activateWindow()
    card.allow.setFocus()
    card.show_call(replace(LOOK, state=CallState.RUNNING), True)
    assert card.header.hasFocus()


def test_a_call_that_is_being_written_shows_its_tool_alone(made: Callable[..., CallCard]) -> None:
    card = made(replace(LOOK, state=CallState.WRITING, server="", tool="", arguments=""))
    assert card.header.text() == "look"
    assert not card.header.isEnabled()
    assert not card.allow.isVisible()


def test_a_name_is_no_wider_than_its_card(made: Callable[..., CallCard]) -> None:
    card = made(replace(LOOK, tool="wide " * 40, server="wide " * 40))
    assert card.header.text().endswith("…")
    assert card.minimumSizeHint().width() < 600


def test_long_results_scroll_in_their_card(made: Callable[..., CallCard]) -> None:
    card = made(replace(LOOK, state=CallState.DONE, result="line\n" * 500), is_open=False)
    card.header.click()
    assert card.result.height() < 500
    assert card.result.verticalScrollBar().maximum() > 0


# ---- in the answer --------------------------------------------------------------------------------------------------


@pytest.fixture
def view(qapp: QApplication, qtbot: QtBot) -> AnswerView:
    """An answer that has called two tools."""
    answer = AnswerView(Message("assistant", TEXT, AnswerEnding.COMPLETE, calls=DONE), Look(LIGHT))
    qtbot.addWidget(answer)
    answer.resize(700, 600)
    answer.show()
    steps = answer.steps
    assert steps
    qtbot.waitUntil(lambda: not steps.is_behind and not answer.body.is_behind)
    return answer


def test_texts_and_cards_follow_each_other_as_the_model_wrote_them(view: AnswerView) -> None:
    assert [each.toPlainText().strip() for each in view.texts] == ["Let me see.", "There are 3."]
    assert view.steps
    assert [each.header.text() for each in view.steps.cards] == ["look", "count"]
    tops = [each.mapTo(view, each.rect().topLeft()).y() for each in (view.body, *view.steps.cards, view.texts[1])]
    assert tops == sorted(tops)
    assert view.answer == "Let me see.\n\nThere are 3."


def test_all_of_it_is_selected_and_copied(view: AnswerView) -> None:
    view.select_all()
    assert view.is_selected
    assert view.selection == "Let me see.\n\nThere are 3."
    view.clear_selection()
    assert not view.selection


def test_what_a_round_wrote_is_marked_where_it_stands(view: AnswerView) -> None:
    assert view.steps
    view.mark((LOOK.begin + 2, LOOK.begin + 5))
    assert [bool(each.property("marked")) for each in view.steps.cards] == [True, False]
    place = view.mark_place
    assert place
    assert place.top() >= view.steps.y()
    begin = TEXT.index("There are")
    view.mark((begin, begin + 5))
    assert not view.steps.cards[0].property("marked")
    place = view.mark_place
    assert place
    assert place.top() >= view.texts[1].mapTo(view, view.texts[1].rect().topLeft()).y()
    thought = TEXT.index("Aha")
    view.mark((thought, thought + 3))
    view.open_marked()
    assert [text.toPlainText().strip() for part, _, text in view.parts if part == 4] == ["Aha."]


def test_it_is_edited_as_a_whole(view: AnswerView) -> None:
    assert view.steps
    view.edit()
    assert view.editor
    assert view.editor.field.toPlainText() == TEXT
    assert not view.steps.isVisible()
    view.editor.cancelled.emit()
    assert view.steps.isVisible()


def test_other_colours_reach_all_of_it(view: AnswerView) -> None:
    view.set_look(Look(DARK, zoom=150))
    assert view.steps
    assert view.steps.bodies[0]._look.colors is DARK
    assert view.steps.cards[0]._look.zoom == 150


def test_a_mark_of_a_call_that_was_none_becomes_text(qapp: QApplication, qtbot: QtBot) -> None:
    begun = Message("assistant", "", AnswerEnding.OPEN)
    answer = AnswerView(begun, Look(LIGHT, smooth=False))
    qtbot.addWidget(answer)
    answer.show()
    writing = replace(begun, text="See <tool_call>\n{", opening=(4, "look"))
    answer.change(writing, writing.text)
    qtbot.waitUntil(lambda: bool(answer.steps and answer.steps.cards))
    none = replace(writing, text="See <tool_call>\n{ }", opening=None)
    answer.change(none, " }")
    qtbot.waitUntil(lambda: not (answer.steps and answer.steps.cards))
    assert "{ }" in answer.text.toPlainText()


def test_what_is_said_to_a_call_reaches_the_chat(qapp: QApplication, qtbot: QtBot) -> None:
    shown = ConversationView(LIGHT)
    qtbot.addWidget(shown)
    shown.resize(800, 600)
    shown.show()
    conversation = Conversation()
    _, answer = conversation.ask("How many?")
    waiting = replace(answer, text=TEXT, ending=AnswerEnding.OPEN, calls=(LOOK, COUNT))
    conversation.change(waiting)
    shown.show_conversation(conversation)
    heard: list[tuple[int, Decision]] = []
    shown.call_decided.connect(lambda *each: heard.append(each))
    steps = shown.answers[-1].steps
    assert steps
    steps.cards[1].deny.click()
    assert heard == [(COUNT.begin, Decision.DENY)]


def test_what_is_found_has_the_numbers_of_the_parts_that_are_shown(view: AnswerView, qtbot: QtBot) -> None:
    view.unfold(THOUGHT)
    for part in (2, 3, 4):  # two cards, which have none, and what was thought behind them
        view.unfold(part)
    qtbot.waitUntil(lambda: len(view.parts) == 4)
    search = Search()
    search.begin(Wanted("e"), [view.message])
    while not search.work(Budget(1.0)):
        pass
    found = {(place.section[1:]) for place in map(search.hits.place, range(search.hits.count))}
    shown = {(part, section) for part, section, text in view.parts if "e" in text.toPlainText()}
    assert found == shown == {(TEXT_PART, 0), (5, 0)}


def test_a_hit_in_a_later_thought_unfolds_it(view: AnswerView, qtbot: QtBot) -> None:
    search = Search()
    search.begin(Wanted("Aha"), [view.message])
    while not search.work(Budget(1.0)):
        pass
    (_, part, _) = search.hits.place(0).section
    view.unfold(part)
    qtbot.waitUntil(lambda: any("Aha." in text.toPlainText() for its, _, text in view.parts if its == part))
    assert view.guess_of(part, 0).top() > view.body.y()
