"""The window through its widgets, in front of a fake link."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QMenu, QPushButton
from pytestqt.qtbot import QtBot

from app.chat.generation.popover import GenerationPopover
from app.chat.sidebar.rows import ChatRow
from app.engine.state import Phase
from app.library.estimates import last_load
from app.settings.store import SettingsFile
from app.shell.program import LOAD_NOTICE
from app.shell.window import ENGINE_NOTICE, MainWindow
from engine.protocol.keeping import ForgetTexts
from engine.protocol.messages import Cancel, Failed, Finished, Generate, Load, Round, Unload
from engine.protocol.options import LoadOptions
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink
from tests.app.tree.panels import canvas

CONTROL = Qt.KeyboardModifier.ControlModifier


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Press a key in the window, wherever its focus is."""
    QTest.keyClick(window.focusWidget() or window, key, modifiers)


def ask(window: MainWindow, question: str) -> None:
    """Write a question and send it."""
    QTest.keyClicks(window.chat_panel.composer.field, question)
    QTest.keyClick(window.chat_panel.composer.field, Qt.Key.Key_Return)


def shown_answer(window: MainWindow) -> str:
    """The text of the last answer on the screen."""
    return window.chat_panel.view.answers[-1].text.toPlainText().strip()


def figures(window: MainWindow) -> str:
    """The line under the last answer."""
    return window.chat_panel.view.answers[-1].figures.text


def notice_button(window: MainWindow, text: str) -> QPushButton:
    """The button of a notice."""
    return next(each for each in window.notices.findChildren(QPushButton) if each.text() == text and each.isVisible())


def test_the_engine_starts_with_the_window_and_loads_the_pair(open_window: OpenWindow, link: FakeLink) -> None:
    window = open_window(link, LoadOptions("embedded", "none"))
    assert link.said == ["start"]
    assert window.status_area.words.text() == "Starting engine"
    assert not link.sent
    link.become_ready()
    assert (link.last_load.options.target, link.last_load.options.draft) == ("embedded", "none")
    assert link.last_load.options.cache_dir.endswith("cache"), "the engine must write where the application does"
    assert window.status_area.words.text() == "Ready: demo-target + demo-draft on cpu, float32"


def test_a_question_is_answered_on_the_screen_copied_and_answered_anew(window: MainWindow, link: FakeLink) -> None:
    assert window.focusWidget() is window.chat_panel.composer.field

    assert window.chat_panel.welcome.isVisible()
    ask(window, "Hello")
    assert window.chat_panel.view.isVisible()
    assert window.status_area.words.text() == "Answering"
    assert figures(window) == "Reading the question"
    link.say("Good", " **day**")
    link.finish(passes=2)
    assert shown_answer(window) == "Good day"
    assert "tokens per pass" in figures(window)
    assert window.status_area.words.text().startswith("Ready")

    press(window, Qt.Key.Key_C, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    assert QGuiApplication.clipboard().text() == "Good **day**"

    press(window, Qt.Key.Key_R, CONTROL)
    link.say("Good night")
    link.finish()
    assert shown_answer(window) == "Good night"
    assert len([each for each in link.sent if isinstance(each, Generate)]) == 2


def test_an_example_is_asked_with_a_click(window: MainWindow, link: FakeLink) -> None:
    window.chat_panel.welcome.examples[1].click()
    assert link.last_question.chat[-1].content == "What is the capital of France?"


def test_escape_stops_and_one_can_write_meanwhile(window: MainWindow, link: FakeLink) -> None:
    ask(window, "Hello")
    link.say("Good")
    QTest.keyClicks(window.chat_panel.composer.field, "next question")
    press(window, Qt.Key.Key_Escape)
    assert link.sent[-1] == Cancel(link.last_question.id, 1)
    link.finish("cancelled", 1)
    assert shown_answer(window) == "Good"
    assert figures(window).startswith("Stopped")
    assert window.chat_panel.composer.field.toPlainText() == "next question"


def titles(window: MainWindow) -> list[str]:
    model = window.conversations.panel.model
    rows = [model.row(model.index(number)) for number in range(model.rowCount())]
    return [row.record.shown_title for row in rows if isinstance(row, ChatRow)]


def test_a_new_chat_leaves_the_last_one_in_the_list(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, "Hello")
    link.say("Good day")
    link.finish()
    press(window, Qt.Key.Key_N, CONTROL)
    assert window.chat_panel.welcome.isVisible()
    assert titles(window) == ["Hello"]
    panel = window.conversations.panel
    with qtbot.waitSignal(window.chat.conversation_replaced):
        QTest.mouseClick(
            panel.list.viewport(),
            Qt.MouseButton.LeftButton,
            pos=panel.list.visualRect(panel.model.index(1)).center(),
        )
    assert shown_answer(window) == "Good day"


def test_a_deleted_chat_is_brought_back_from_its_bar(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, "Hello")
    link.say("Good day")
    link.finish()
    press(window, Qt.Key.Key_Backspace, CONTROL | Qt.KeyboardModifier.ShiftModifier)
    assert window.chat_panel.welcome.isVisible()
    assert titles(window) == []
    assert link.keeps[-1] == ForgetTexts((link.last_question.options.conversation,)), "what was kept of it is gone"
    with qtbot.waitSignal(window.chat.conversation_replaced):
        notice_button(window, "Undo").click()
    assert shown_answer(window) == "Good day"
    assert titles(window) == ["Hello"]
    assert not window.notices.notices


def test_what_makes_no_sense_now_is_off(window: MainWindow, link: FakeLink) -> None:
    actions = window.actions_
    assert not actions.stop.isEnabled()
    assert not actions.regenerate.isEnabled()
    ask(window, "Hello")
    assert actions.stop.isEnabled()
    assert not actions.regenerate.isEnabled()
    link.finish()
    assert not actions.stop.isEnabled()
    assert actions.regenerate.isEnabled()
    answered = window.chat.conversation
    press(window, Qt.Key.Key_N, CONTROL)
    assert not actions.regenerate.isEnabled()
    window.chat.show_conversation(answered)
    press(window, Qt.Key.Key_R, CONTROL)
    assert actions.stop.isEnabled(), "the last answer of a chat that was opened is written anew"


def test_commands_that_are_off_say_why(window: MainWindow, link: FakeLink) -> None:
    actions = window.actions_

    def hindered() -> dict[str, str]:
        return {each.objectName(): each.hindrance for each, _ in actions.commands if not each.isEnabled()}

    assert set(hindered()) >= {"stop", "regenerate", "continue_answer", "find", "export_chat", "open_in_window"}
    assert all(hindered().values())
    assert actions.find.toolTip().endswith("This chat is empty.")
    edit = next(each for each in window.menuBar().findChildren(QMenu) if actions.find in each.actions())
    edit.aboutToShow.emit()
    assert edit.toolTipsVisible()
    ask(window, "Hello")
    assert "wait for its end" in hindered()["regenerate"]
    assert actions.open_in_window.hindrance == "This chat is shown in this window."
    link.finish()
    assert hindered()["continue_answer"] == "The last answer is complete."
    assert actions.find.hindrance == ""
    assert "\n" not in actions.find.toolTip()


def test_escape_leaves_a_field_and_stops_no_answer(window: MainWindow, link: FakeLink) -> None:
    ask(window, "Hello")
    search, composer = window.conversations.panel.search, window.chat_panel.composer
    search.setFocus()
    QTest.keyClicks(search, "oak")
    press(window, Qt.Key.Key_Escape)
    assert not search.text()
    composer.begin_tool.click()
    press(window, Qt.Key.Key_Escape)
    assert not composer.beginning.isVisible()
    assert window.chat.is_answering
    search.setFocus()
    press(window, Qt.Key.Key_Escape)
    assert any(isinstance(each, Cancel) for each in link.sent), "in a field that is empty it stops the answer"


def test_escape_in_the_tree_stops_the_answer_unless_folds_are_opened(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    ask(window, "Hello")
    link.say("Good")
    qtbot.waitUntil(lambda: window.tree_panel.shown_tree is not None)
    tree = canvas(window.tree_panel)
    tree.setFocus()
    tree._folds.open(0)
    press(window, Qt.Key.Key_Escape)
    assert window.chat.is_answering, "it folded what was opened"
    assert not tree._folds.opened
    press(window, Qt.Key.Key_Escape)
    assert link.sent[-1] == Cancel(link.last_question.id, 1)


def test_full_screen_gives_the_size_back_that_was_before(window: MainWindow) -> None:
    window.showMaximized()
    window.actions_.full_screen.trigger()
    assert window.isFullScreen()
    window.actions_.full_screen.trigger()
    assert window.isMaximized()
    assert not window.isFullScreen()


def test_the_tree_is_closed_and_opened_follows_the_rounds_and_forgets_the_chat(
    window: MainWindow, link: FakeLink
) -> None:
    assert window.tree_dock.isVisible()
    press(window, Qt.Key.Key_T, CONTROL)
    assert not window.tree_dock.isVisible()
    assert not window.actions_.tree.isChecked()
    press(window, Qt.Key.Key_T, CONTROL)
    assert window.tree_dock.isVisible()
    window.tree_dock.close()
    assert not window.actions_.tree.isChecked()
    press(window, Qt.Key.Key_T, CONTROL)

    ask(window, "Hello")
    link.say("a", "b", "c")
    newest = window.tree_panel._round
    assert isinstance(newest, Round)
    assert newest.index == 2
    link.finish()
    press(window, Qt.Key.Key_N, CONTROL)
    assert window.tree_panel._round is None


def test_what_is_exported_from_a_menu_is_the_newest_round_also_where_the_tree_is_hidden(
    window: MainWindow, link: FakeLink
) -> None:
    window.resize(1400, 860)
    exports = window.tree_panel.exports
    QGuiApplication.clipboard().clear()
    window.tree_dock.hide()
    ask(window, "Hello")
    link.say("a")
    window.actions_.copy_picture.trigger()
    assert window.tree_dock.isVisible()
    assert QGuiApplication.clipboard().image().width() == 2 * canvas(window.tree_panel).width() > 400
    for count, command in enumerate((window.actions_.export_picture, window.actions_.export_animation), 2):
        window.tree_dock.hide()
        link.say(*"abc"[:count])
        command.trigger()
        tree = window.tree_panel.shown_tree
        assert tree is not None
        assert tree.number == count
        assert exports._dialog is not None
        exports._dialog.reject()


def test_a_dead_engine_is_told_and_restarted(window: MainWindow, link: FakeLink) -> None:
    ask(window, "Hello")
    link.say("half an answer")
    link.die()
    assert [each.key for each in window.notices.notices] == [ENGINE_NOTICE]
    assert "memory ran out" in window.notices.notices[0].text
    assert shown_answer(window) == "half an answer"
    assert "Interrupted" in figures(window)
    assert window.status_area.words.text() == "Engine stopped"
    notice_button(window, "Restart engine").click()
    assert link.said[-1] == "restart"
    link.become_ready()
    assert not window.notices.notices
    ask(window, "Again")
    link.say("whole")
    link.finish()
    assert shown_answer(window) == "whole"


def test_without_an_engine_a_question_stays_in_its_field_and_the_notice_can_be_dismissed(
    window: MainWindow, link: FakeLink
) -> None:
    link.die()
    ask(window, "Hello")
    assert window.chat_panel.composer.field.toPlainText() == "Hello"
    assert window.chat.conversation.is_empty

    bar = window.notices.findChild(QAbstractButton, "dismiss")
    assert isinstance(bar, QAbstractButton)
    bar.click()
    assert not window.notices.isVisible()


def test_a_failed_request_is_told_with_its_hint(window: MainWindow, link: FakeLink) -> None:
    ask(window, "far too long")
    link.answer(Failed(link.last_question.id, "The conversation has 9000 tokens.", "Start a new chat."))
    notice_button(window, "Copy").click()
    assert QGuiApplication.clipboard().text() == "The conversation has 9000 tokens. Start a new chat."
    ask(window, "short")
    assert not window.notices.notices
    assert link.last_question.chat[-1].content == "short"


def test_a_pair_that_cannot_be_loaded_at_the_start_is_told(open_window: OpenWindow, link: FakeLink) -> None:
    window = open_window(link, LoadOptions("/nowhere"))
    link.become_ready = lambda: None  # type: ignore[method-assign]
    window.library._request_load()
    link.answer(Failed(link.last_load.id, "There is no model folder '/nowhere'.", "Check the path."))
    (notice,) = window.notices.notices
    assert (notice.key, notice.hint) == (LOAD_NOTICE, "Check the path. The embedded demo is loaded instead.")
    assert link.last_load.options.target == LoadOptions().target, "the pair before takes its place"
    link.load_what_was_asked()
    assert window.library.state.phase is Phase.READY
    notice_button(window, "Models…").click()
    assert window.models.is_open


def test_a_pair_that_fails_is_told_in_the_dialog(window: MainWindow, link: FakeLink, settings: SettingsFile) -> None:
    press(window, Qt.Key.Key_M, CONTROL)
    dialog = window.models.dialog
    dialog.details.load_requested.emit(LoadOptions("/nowhere"))
    link.answer(Failed(link.last_load.id, "There is no model folder '/nowhere'.", "Check the path."))
    assert "no model folder" in dialog.notices.notices[0].text
    assert not window.notices.notices
    link.load_what_was_asked()
    assert dialog.isVisible(), "the pair before took its place; what was asked for is not there"
    assert settings.current.target == "embedded"
    dialog.details.load_requested.emit(LoadOptions("/models/big"))
    link.load_what_was_asked()
    assert not dialog.isVisible()


def test_a_loaded_pair_is_remembered_with_how_it_was_loaded(
    window: MainWindow, link: FakeLink, settings: SettingsFile
) -> None:
    window.models.load_requested.emit(LoadOptions("/models/big", "none", weights="nf4", context_tokens=8192))
    link.load_what_was_asked()
    assert (settings.current.target, settings.current.draft) == ("/models/big", "none")
    again = last_load(settings.current, LoadOptions("/models/big", "none"))
    assert (again.weights, again.context_tokens, again.place) == ("nf4", 8192, "auto")
    assert last_load(settings.current, LoadOptions("/models/other")) == LoadOptions("/models/other")


def test_a_load_can_be_cancelled_from_the_status_area(window: MainWindow, link: FakeLink) -> None:
    window.library.load(LoadOptions("/models/big"))
    assert window.status_area.progress.isVisible()
    window.status_area.cancel.click()
    assert link.sent[-1] == Cancel(link.last_load.id)


def test_the_generation_settings_open_below_their_button(window: MainWindow) -> None:
    press(window, Qt.Key.Key_G, CONTROL)
    assert isinstance(window.generation, GenerationPopover)
    assert window.generation.isVisible()
    window.generation.hide()


def test_an_answer_scrolls_under_the_reader_s_hand_only(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    ask(window, "Hello")
    link.say("words and words " * 600)
    link.finish()
    bar = window.chat_panel.view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())


def test_a_model_is_unloaded_from_the_menu_and_loaded_again_from_the_notice(window: MainWindow, link: FakeLink) -> None:
    unload = window.actions_.unload
    assert unload.isEnabled()
    unload.trigger()
    command = link.sent[-1]
    assert isinstance(command, Unload)
    link.answer(Finished(command.id, "unloaded"))
    assert not unload.isEnabled()
    ask(window, "Hello?")  # what is told already is not told again
    assert window.status_area.words.text() == "No model loaded"
    (notice,) = window.notices.notices
    assert "No model is loaded" in notice.message
    loads = len([each for each in link.sent if isinstance(each, Load)])
    notice_button(window, "Load again").click()
    assert len([each for each in link.sent if isinstance(each, Load)]) == loads + 1
    assert not window.notices.notices
    link.load_what_was_asked()
    assert unload.isEnabled()
