"""Steering answers: stop, other versions, other words, going on, beginnings, presets, files, and speculation."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPlainTextEdit

from app.chat.history.message import AnswerEnding
from app.settings.store import SettingsFile
from tests.app.session.person import ENDLESS, SHORT, STORY, Session
from tests.app.test_window import CONTROL, press


def test_stop_ends_an_answer_and_what_is_there_stays(session: Session) -> None:
    session.begin(ENDLESS)
    QTest.keyClicks(session.window.chat_panel.composer.field, STORY)
    session.window.chat_panel.composer.button.click()
    session.wait(lambda: session.shown != "")
    session.window.chat_panel.composer.button.click()
    assert session.answered().ending is AnswerEnding.STOPPED
    assert session.answer.text.strip() != ""
    session.window.chat.change_settings(SHORT)
    assert session.ask("Hello!").ending in (AnswerEnding.COMPLETE, AnswerEnding.LENGTH)


def test_another_answer_is_another_version_and_none_is_lost(session: Session) -> None:
    session.begin(replace(SHORT, temperature=1.0))
    first = session.ask().text
    session.window.chat.change_settings(replace(SHORT, temperature=1.0, seed=2))
    press(session.window, Qt.Key.Key_R, CONTROL)
    second = session.answered().text
    assert first != second
    assert session.versions.text == "2/2"
    session.versions.earlier.click()
    assert (session.answer.text, session.versions.text) == (first, "1/2")
    session.window.actions_.next_version.trigger()
    assert session.answer.text == second
    session.wait(lambda: session.shown == second.strip())


def test_an_edited_question_branches(session: Session) -> None:
    session.begin()
    first = session.ask("What is the capital of France?").text
    press(session.window, Qt.Key.Key_E, CONTROL)
    field = session.window.focusWidget()
    assert isinstance(field, QPlainTextEdit)
    field.setPlainText("What is the capital of Spain?")
    press(session.window, Qt.Key.Key_Return, CONTROL)
    assert session.answered().text != first
    question = session.window.chat_panel.view.questions[0]
    assert question.versions.text == "2/2"
    question.versions.earlier.click()
    assert session.answer.text == first
    assert session.window.chat_panel.view.questions[0].text.toPlainText() == "What is the capital of France?"


def test_an_edited_answer_is_what_the_model_goes_on_from(session: Session) -> None:
    session.begin()
    session.ask()
    view = session.window.chat_panel.view.answers[-1]
    view.edit_tool.click()
    assert view.editor is not None
    view.editor.field.setPlainText("No.")
    view.editor.accept.click()
    assert session.answer.text == "No."
    assert session.versions.text == "2/2"
    session.ask("Why not?")
    assert [each.content for each in session.prompts[-1]] == [STORY, "No.", "Why not?"]


def test_a_cut_off_answer_is_continued(session: Session) -> None:
    session.begin(replace(SHORT, max_new_tokens=2 * SHORT.max_new_tokens))
    whole = session.ask().text
    session.begin()
    assert session.ask().ending is AnswerEnding.LENGTH
    press(session.window, Qt.Key.Key_J, CONTROL)
    assert session.answered().text == whole
    assert f"{2 * SHORT.max_new_tokens} tokens" in session.window.chat_panel.view.answers[-1].figures.text


def test_an_answer_starts_as_it_is_told(session: Session) -> None:
    session.begin()
    composer = session.window.chat_panel.composer
    composer.begin_tool.click()
    QTest.keyClicks(composer.beginning.field, "The dragon was green")
    assert session.ask().text.startswith("The dragon was green")
    assert len(session.answer.text) > len("The dragon was green")


def test_a_preset_with_a_system_prompt_steers_answers(session: Session) -> None:
    session.begin()
    plain = session.ask("Hello!").statistics
    popover = session.window.generation
    session.window.actions_.save_preset.trigger()
    popover.form.field("system_prompt").setPlainText("You are a helpful assistant.")
    popover.presets.names.setEditText("Helpful")
    popover.presets.save.click()
    popover.hide()
    session.begin()
    popover.presets.names.activated.emit(popover.presets.names.findText("Helpful"))
    steered = session.ask("Hello!").statistics
    assert [(each.role, each.content) for each in session.prompts[-1]] == [
        ("system", "You are a helpful assistant."),
        ("user", "Hello!"),
    ]
    assert plain is not None
    assert steered is not None
    assert steered.prompt_tokens > plain.prompt_tokens
    assert "Helpful" in SettingsFile(session.folders.settings_file).current.presets


def test_an_attached_file_is_read_by_the_model(session: Session, tmp_path: Path) -> None:
    session.begin()
    composer = session.window.chat_panel.composer
    (tmp_path / "garden.py").write_text("print('a garden')\n" * 5)
    composer.attach([tmp_path / "garden.py"])
    session.wait(lambda: "tokens" in composer.tray.chips[0].words.text())
    used = composer.meter.words.text()
    session.ask("What is this?")
    assert "print('a garden')" in session.prompts[-1][0].content
    assert "garden.py" in session.window.chat_panel.view.questions[-1].files.text
    session.wait(lambda: composer.meter.words.text() not in ("", used))


def test_without_speculation_the_answer_is_the_same_and_the_window_says_why(session: Session) -> None:
    session.begin()
    guessed = session.ask()
    assert guessed.statistics is not None
    assert guessed.statistics.tokens_per_pass > 1
    session.begin()
    switch = session.window.chat_panel.composer.speculation
    switch.click()
    assert (switch.text(), "Switched off for this chat" in switch.toolTip()) == ("Speculation off", True)
    assert session.ask().text == guessed.text
    assert "1.0 tokens per pass" in session.window.chat_panel.view.answers[-1].figures.text
    figures = session.window.chat_panel.view.answers[-1].figures
    QTest.keyClick(figures, Qt.Key.Key_Space)
    assert figures.popup
    assert any("Speculation is switched off." in each.text() for each in figures.popup.findChildren(QLabel))
