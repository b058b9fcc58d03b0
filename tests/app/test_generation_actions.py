"""The settings and actions of generation, through the window's widgets and keys, in front of a fake link."""

from functools import partial
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from app.chat.generation.context_use import ContextUse
from app.chat.generation.formal_text import FormalTextField
from app.chat.history.conversation import Conversation
from app.chat.panel import ATTACHMENT_NOTICE
from app.chat.view.question_view import NOT_READ
from app.engine.state import EngineState, Phase
from app.library.picker.entry_view import EntryView
from app.settings.generation import DROP, GenerationSettings
from app.shell.window import MainWindow
from engine.protocol.messages import Finished, Statistics
from engine.protocol.options import Constraint
from tests.app.fake_engine import finished, loaded
from tests.app.fake_link import FakeLink
from tests.app.test_window import CONTROL, ask, press, shown_answer

SHIFT = Qt.KeyboardModifier.ShiftModifier


def cut_off(window: MainWindow, link: FakeLink) -> None:
    """A question whose answer is cut off."""
    ask(window, "Hello")
    link.say("Once", " upon")
    link.finish("length", 2)


def test_a_cut_off_answer_goes_on_by_button_and_by_key(window: MainWindow, link: FakeLink) -> None:
    composer = window.chat_panel.composer
    assert not composer.resume.isVisible()
    cut_off(window, link)
    assert composer.resume.isVisible()
    assert window.actions_.continue_answer.isEnabled()
    composer.resume.click()
    assert not composer.resume.isVisible()
    link.say(" a time")
    link.finish("length", 1)
    press(window, Qt.Key.Key_J, CONTROL)
    link.say(" there was")
    link.finish()
    assert shown_answer(window) == "Once upon a time there was"
    assert len(window.chat_panel.view.answers) == 1
    assert not composer.resume.isVisible()
    assert not window.actions_.continue_answer.isEnabled()


def test_a_new_chat_is_to_be_written_in_even_if_it_was_new_already(window: MainWindow) -> None:
    assert window.chat.conversation.is_empty
    window.chat_panel.welcome.findChildren(QPushButton)[-1].setFocus()
    assert not window.chat_panel.composer.field.hasFocus()
    press(window, Qt.Key.Key_N, CONTROL)
    assert window.chat_panel.composer.field.hasFocus()


def test_an_answer_is_begun_by_key(window: MainWindow, link: FakeLink) -> None:
    composer = window.chat_panel.composer
    press(window, Qt.Key.Key_B, CONTROL | SHIFT)
    assert window.focusWidget() is composer.beginning.field
    QTest.keyClicks(composer.beginning.field, "Sure, ")
    composer.field.setPlainText("Hello")
    QTest.keyClick(composer.beginning.field, Qt.Key.Key_Return)
    assert [each.content for each in link.last_question.chat] == ["Hello", "Sure,"]
    link.say(" here")
    link.finish()
    assert shown_answer(window) == "Sure, here"
    assert not composer.beginning.isVisible()


def test_escape_puts_the_beginning_away(window: MainWindow, link: FakeLink) -> None:
    composer = window.chat_panel.composer
    composer.begin_tool.click()
    QTest.keyClicks(composer.beginning.field, "Sure")
    QTest.keyClick(composer.beginning.field, Qt.Key.Key_Escape)
    assert not composer.beginning.isVisible()
    ask(window, "Hello")
    assert len(link.last_question.chat) == 1


def test_speculation_is_switched_by_button_and_by_key_and_says_why_it_is_off(
    window: MainWindow, link: FakeLink
) -> None:
    switch = window.chat_panel.composer.speculation
    assert switch.text() == "Speculation on"
    switch.click()
    assert switch.text() == "Speculation off"
    assert "Switched off for this chat" in switch.toolTip()
    press(window, Qt.Key.Key_N, CONTROL)
    assert switch.text() == "Speculation on", "another chat has settings of its own"
    press(window, Qt.Key.Key_P, CONTROL | SHIFT)
    ask(window, "Hello")
    assert link.last_question.options.speculation.method == "none"


def test_speculation_that_cannot_be_says_so(window: MainWindow, link: FakeLink) -> None:
    switch = window.chat_panel.composer.speculation
    window.chat_panel.show_engine_state(EngineState(Phase.READY, pair=loaded(1, draft=False)))
    assert "No draft model is loaded" in switch.toolTip()
    window.chat.change_settings(GenerationSettings(method="specexec"))
    assert (switch.text(), "needs a draft" in switch.toolTip()) == ("No speculation", True)
    window.chat.change_settings(GenerationSettings())
    window.chat_panel.show_engine_state(EngineState(Phase.READY, pair=loaded(1)))
    ask(window, "Hello")
    told = Statistics(method="none", passes=3, note="Speculation does not pay here.")
    link.answer(Finished(link.last_question.id, "stop", "", told))
    assert switch.text() == "No speculation"
    assert "Speculation does not pay here." in switch.accessibleName()


def test_speculation_that_is_on_again_is_not_judged_by_an_answer_without_it(window: MainWindow, link: FakeLink) -> None:
    switch = window.chat_panel.composer.speculation
    switch.click()
    ask(window, "Hello")
    told = Statistics(method="none", passes=3, note="Speculation is switched off.")
    link.answer(Finished(link.last_question.id, "stop", "", told))
    assert switch.text() == "Speculation off"
    switch.click()
    assert switch.text() == "Speculation on"
    assert "Of the last answer" not in switch.toolTip()


def test_who_edits_goes_on_with_the_keyboard_where_they_were(window: MainWindow, link: FakeLink) -> None:
    ask(window, "Hello")
    link.finish()
    press(window, Qt.Key.Key_E, CONTROL)
    press(window, Qt.Key.Key_Escape)
    assert window.focusWidget() is window.chat_panel.view.questions[0].edit_tool
    press(window, Qt.Key.Key_E, CONTROL)
    QTest.keyClicks(window.focusWidget(), " again")
    press(window, Qt.Key.Key_Return)
    press(window, Qt.Key.Key_Return, CONTROL)
    assert window.focusWidget() is window.chat_panel.composer.field
    assert link.last_question.chat[-1].content == "Hello again"


def test_tokens_are_counted_while_one_writes(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    meter = window.chat_panel.composer.meter
    QTest.keyClicks(window.chat_panel.composer.field, "Hello")
    qtbot.waitUntil(lambda: any(count.chat for count in link.counts) or _answer_count(link))
    link.tell_count(1900)
    assert meter.isVisible()
    assert "1,900 of 2,048 tokens · nearly full" in meter.words.text()


def _answer_count(link: FakeLink) -> bool:
    """The first count may be of the empty chat; it is answered, so that the next one comes."""
    if link.counts and not link.counts[-1].chat:
        link.tell_count(0)
    return False


def test_turns_that_are_no_longer_read_are_marked(window: MainWindow, link: FakeLink) -> None:
    window.chat.change_settings(GenerationSettings(when_full=DROP))
    view = window.chat_panel.view
    for question in ("one", "two", "three"):
        ask(window, question)
        link.tell_count(990 if question == "three" else 10, 1000, (300, 300, 300))
        link.say("yes")
        link.finish()
    divider = view.questions[2].divider
    assert divider is not None
    assert divider.accessibleName() == NOT_READ
    assert [question.divider is None for question in view.questions] == [True, True, False]
    press(window, Qt.Key.Key_N, CONTROL)
    assert view.questions == []


def test_files_are_chosen_by_key_sent_and_shown(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("print(1)")
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(tmp_path / "a.py")], ""))
    press(window, Qt.Key.Key_A, CONTROL | SHIFT)
    qtbot.waitUntil(lambda: bool(window.chat_panel.composer.tray.attachments))
    ask(window, "What is this?")
    assert "print(1)" in link.last_question.chat[-1].content
    question = window.chat_panel.view.questions[-1]
    assert "a.py" in question.files.text
    assert question.text.toPlainText() == "What is this?"
    link.answer(finished(link.last_question.id, "stop", 1))
    press(window, Qt.Key.Key_R, CONTROL)
    assert "print(1)" in link.last_question.chat[-1].content


def drop(window: MainWindow, file: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(file))])
    place, copy = QPointF(5, 5), Qt.DropAction.CopyAction
    window.dropEvent(QDropEvent(place, copy, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier))


def test_files_may_be_dropped_anywhere_and_what_is_none_is_refused(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\x00")
    drop(window, tmp_path / "photo.png")
    qtbot.waitUntil(lambda: bool(window.notices.notices))
    (notice,) = window.notices.notices
    assert notice.key == ATTACHMENT_NOTICE
    assert "photo.png was not attached. It is not text." in notice.text


def test_the_composer_shows_that_what_is_dragged_comes_there(window: MainWindow, tmp_path: Path) -> None:
    data, composer = QMimeData(), window.chat_panel.composer
    copy, button, plain = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    for urls, shown in (([], False), ([QUrl.fromLocalFile(str(tmp_path / "a.txt"))], True)):
        data.setUrls(urls)
        window.dragEnterEvent(QDragEnterEvent(QPoint(5, 5), copy, data, button, plain))
        assert bool(composer.property("drops")) is shown
    window.dragLeaveEvent(QDragLeaveEvent())
    assert not composer.property("drops")


def is_chosen(view: EntryView, name: str) -> bool:
    return view.current is not None and view.current.name == name


def test_a_model_that_is_dropped_is_shown_among_the_models(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    for folder, name in (("packed", "Tiny-Q4_K_M.gguf"), ("whole", "model.safetensors"), ("whole", "config.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"{}")
    for dropped, shown in (("packed/Tiny-Q4_K_M.gguf", "Tiny-Q4_K_M"), ("whole/model.safetensors", "whole")):
        drop(window, tmp_path / dropped)
        qtbot.waitUntil(lambda: window.models.is_open)
        models = window.models.dialog
        assert models.pages.currentWidget() is models.local
        assert models.local.field.text() == shown
        assert window.settings.current.model_folders[-1] == str((tmp_path / dropped).parent)
        qtbot.waitUntil(partial(is_chosen, models.local.view, shown))
        models.close()
    assert not window.chat_panel.composer.tray.chips
    assert not window.notices.notices


def test_a_recording_that_is_dropped_is_opened_in_the_tree(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "rounds.coppice").write_bytes(b"no recording")
    window.tree_dock.hide()
    drop(window, tmp_path / "rounds.coppice")
    qtbot.waitUntil(window.tree_dock.isVisible)
    assert not window.chat_panel.composer.tray.chips


def test_a_preset_is_saved_by_key(window: MainWindow) -> None:
    press(window, Qt.Key.Key_S, CONTROL | SHIFT)
    assert window.generation.isVisible()
    row = window.generation.presets
    row.names.setEditText("Mine")
    row.save.click()
    assert row.names.currentText() == "Mine"
    window.generation.hide()


def test_every_tool_says_what_it_is(window: MainWindow) -> None:
    for tool in window.chat_panel.composer.findChildren(QToolButton):
        assert tool.accessibleName() or tool.text(), tool.objectName()
        assert tool.toolTip()


def test_what_the_next_question_pushes_out_is_marked_before_and_a_click_leads_to_the_setting(
    window: MainWindow, link: FakeLink, qtbot: QtBot
) -> None:
    window.chat.change_settings(GenerationSettings(when_full=DROP, max_new_tokens=60))
    for question in ("one", "two", "three"):
        window.chat.ask(question)
        link.tell_count(10, 2048, (3,) * (len(window.chat.conversation.messages) // 2))
        link.say("yes")
        link.finish()
    meter, view = window.chat_panel.composer.meter, window.chat_panel.view
    window.chat_panel.show_use(ContextUse(1990, 2048, 60, DROP, ("one", "two"), 2, 1000))
    previews = [each.preview for each in view.questions]
    assert [each is not None for each in previews] == [False, False, True]
    assert "reading begins here" in (previews[2].accessibleName() if previews[2] else "")
    assert "– one\n– two" in meter.accessibleDescription()
    assert "2 oldest turns will be left out" in meter.accessibleName()
    talk = window.chat.conversation
    window.chat.show_conversation(Conversation())
    window.chat.show_conversation(talk)
    assert not any(each.preview for each in view.questions), "it is foreseen anew"
    window.chat_panel.show_use(ContextUse(1990, 2048, 60, DROP, ("one", "two"), 2, 1000))
    assert any(each.preview for each in view.questions)
    window.chat_panel.show_use(ContextUse(100, 2048, 60, DROP))
    assert not any(each.preview for each in view.questions)
    meter.click()
    assert window.generation.isVisible()
    assert window.generation.focusWidget() is window.generation.form.field("when_full")
    window.generation.close()


def test_the_form_of_answers_is_shown_at_the_composer_and_a_click_leads_to_its_text(
    window: MainWindow, link: FakeLink
) -> None:
    chip = window.chat_panel.composer.constraint
    assert not chip.isVisible()
    window.chat.change_settings(GenerationSettings(constraint="json_schema", json_schema="{"))
    assert chip.isVisible()
    assert chip.text() == "Constraint is wrong"
    chip.click()
    field = window.generation.form.field("json_schema")
    assert isinstance(field, FormalTextField)
    assert window.generation.focusWidget() is field.text
    assert field.fault.text() == chip.accessibleName().partition(". ")[2]
    field.text.setPlainText("{}")
    assert chip.text() == "JSON schema"
    window.generation.close()
    ask(window, "Hello")
    assert link.last_question.options.constraint == Constraint("json_schema", "{}")
    window.chat.show_conversation(Conversation())
    assert not chip.isVisible(), "it belongs to the chat"
