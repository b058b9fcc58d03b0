"""Tools in a whole window: asked on the card, kept with the chat, and gone on with after a restart."""

from pytestqt.qtbot import QtBot

from app.chat.history.calls import CallState, Decision
from app.chat.history.message import AnswerEnding
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from engine.protocol.messages import Finished, Generate
from engine.protocol.tools import ToolCall, WrittenCall
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import round_of
from tests.app.fake_link import FakeLink
from tests.app.fake_toolbox import FakeToolbox

SAID, MARKS = "I look.", "[look at the sea]"


def with_tools(window: MainWindow) -> FakeToolbox:
    toolbox = FakeToolbox()
    window.chat.tools.follow(toolbox)
    return toolbox


def call(link: FakeLink) -> None:
    request = link.last_question.id
    written = WrittenCall(len(SAID), len(SAID + MARKS), ToolCall("a", "look", '{"at": "sea"}'))
    link.answer(round_of(request, 0, SAID + MARKS), Finished(request, "stop", calls=(written,)))


def test_a_call_is_allowed_on_its_card_and_the_answer_goes_on(
    open_window: OpenWindow, link: FakeLink, qtbot: QtBot
) -> None:
    window = open_window(link)
    toolbox = with_tools(window)
    link.become_ready()
    assert window.chat_panel.composer.tools.text() == "2 tools"
    window.chat.ask("What is there?")
    call(link)
    answer = window.chat_panel.view.answers[-1]
    qtbot.waitUntil(lambda: bool(answer.steps and answer.steps.cards))
    assert answer.steps
    (card,) = answer.steps.cards
    assert "decision" in window.status_area.words.text()
    assert MARKS not in answer.text.toPlainText()
    card.allow.click()
    assert "Waiting for the tool look" in window.status_area.words.text()
    toolbox.answer("waves")
    link.say("There are waves.")
    link.finish()
    assert window.chat.conversation.last_answer
    assert window.chat.conversation.last_answer.ending is AnswerEnding.COMPLETE
    qtbot.waitUntil(lambda: "There are waves." in answer.texts[-1].toPlainText())
    assert card.result.toPlainText() == "waves"
    assert answer.answer == "I look.\n\nThere are waves."


def test_the_menu_of_tools_opens_by_a_command_that_says_where_there_are_none(
    open_window: OpenWindow, link: FakeLink
) -> None:
    window = open_window(link)
    assert window.actions_.chat_tools.hindrance
    with_tools(window)
    assert not window.actions_.chat_tools.hindrance
    window.actions_.chat_tools.trigger()
    menu = window.chat_panel.composer.tools.menu()
    assert menu.isVisible()
    menu.close()


def test_tools_are_switched_off_for_one_chat(open_window: OpenWindow, link: FakeLink, settings: SettingsFile) -> None:
    window = open_window(link)
    with_tools(window)
    link.become_ready()
    window.chat_panel.composer.tools.chosen.emit(("eyes/look",))
    assert window.chat_panel.composer.tools.text().startswith("1 tool")
    window.chat.ask("What is there?")
    assert [each.name for each in link.last_question.tools] == ["count"]
    link.finish()
    window.chat.start_new_chat()
    assert window.chat_panel.composer.tools.text() == "2 tools"
    assert not settings.current.generation.tools_off


def test_a_window_that_closes_leaves_the_call_and_the_chat_goes_on_later(
    open_window: OpenWindow, link: FakeLink, qtbot: QtBot
) -> None:
    window = open_window(link)
    toolbox = with_tools(window)
    link.become_ready()
    window.chat.ask("What is there?")
    call(link)
    (waiting,) = window.chat.conversation.last_answer.calls if window.chat.conversation.last_answer else ()
    window.chat.tools.decide(waiting.begin, Decision.ONCE)
    assert toolbox.calls
    window.close()

    again = FakeLink()
    window = open_window(again)
    with_tools(window)
    again.become_ready()
    chats = window.conversations.chats
    qtbot.waitUntil(lambda: bool(chats.records))
    record = chats.records[0]
    window.conversations.autosave.open(record.id)
    qtbot.waitUntil(lambda: window.chat.conversation.id == record.id)
    answer = window.chat.conversation.last_answer
    assert answer
    assert [each.state for each in answer.calls] == [CallState.STOPPED]
    shown = window.chat_panel.view.answers[-1]
    assert shown.steps
    assert [each.state.text() for each in shown.steps.cards] == ["Stopped"]
    window.chat.continue_answer()
    asked = [each for each in again.sent if isinstance(each, Generate)][-1]
    assert "not known" in asked.chat[-1].content
