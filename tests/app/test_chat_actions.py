"""What the window's actions do with whole conversations: the one that is shown, or the one chosen in the list."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget
from pytestqt.qtbot import QtBot

from app.settings.generation import GenerationSettings
from app.shell.window import MainWindow
from tests.app.fake_link import FakeLink
from tests.app.test_window import ask, notice_button


def converse(window: MainWindow, link: FakeLink, question: str) -> None:
    """A conversation of its own."""
    window.actions_.new_chat.trigger()
    ask(window, question)
    link.say(f"Answer to {question}")
    link.finish()


def titles(window: MainWindow) -> list[str]:
    return sorted(each.shown_title for each in window.conversations.autosave.records)


def choose(window: MainWindow, title: str) -> None:
    """Go to a conversation in the list, without opening it."""
    panel = window.conversations.panel
    record = next(each for each in window.conversations.autosave.records if each.shown_title == title)
    panel.list.setFocus()
    panel.list.setCurrentIndex(panel.model.index_of(record.id))


def test_actions_are_off_where_there_is_nothing_to_do_them_with(window: MainWindow, link: FakeLink) -> None:
    do = window.actions_
    actions = (do.export_chat, do.duplicate_chat, do.delete_chat, do.rename_chat, do.move_chat, do.pin_chat)
    assert not any(each.isEnabled() for each in actions)
    converse(window, link, "One")
    assert all(each.isEnabled() for each in actions)
    do.new_chat.trigger()
    assert not any(each.isEnabled() for each in actions)
    choose(window, "One")
    assert all(each.isEnabled() for each in actions)


def test_actions_are_for_what_is_chosen_in_the_list(window: MainWindow, link: FakeLink) -> None:
    for question in ("One", "Two"):
        converse(window, link, question)
    choose(window, "One")
    window.actions_.pin_chat.trigger()
    assert [each.shown_title for each in window.conversations.autosave.records if each.is_pinned] == ["One"]
    window.actions_.delete_chat.trigger()
    assert titles(window) == ["Two"]
    window.chat_panel.setFocus()
    window.actions_.pin_chat.trigger()
    assert [each.shown_title for each in window.conversations.autosave.records if each.is_pinned] == ["Two"]


def test_a_folder_that_was_removed_is_brought_back_and_what_is_closed_is_remembered(
    window: MainWindow, link: FakeLink
) -> None:
    panel, autosave = window.conversations.panel, window.conversations.autosave
    for question in ("One", "Two", "Three"):
        converse(window, link, question)
    ids = {each.shown_title: each.id for each in autosave.records}
    autosave.move_all([ids["One"], ids["Two"]], "Work")
    autosave.move(ids["Three"], "Home")

    def folders() -> dict[str, str]:
        return {each.shown_title: each.folder for each in autosave.records}

    before = folders()
    header = panel.model.index_of_folder("Work")
    place = panel.list.visualRect(header).center()
    QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert window.settings.current.closed_folders == ("Work",)
    other = window.program.open_window()
    assert not other.conversations.panel.model.index_of(ids["One"]).isValid()
    assert other.conversations.panel.model.index_of(ids["Three"]).isValid()
    other.close()
    panel.folder_renamed.emit("Work", "")
    assert folders() == {"One": "", "Two": "", "Three": "Home"}
    notice_button(window, "Undo").click()
    assert folders() == before
    panel.folder_renamed.emit("Home", "Work")
    assert set(folders().values()) == {"Work"}
    notice_button(window, "Undo").click()
    assert folders() == before, "also out of a folder that was there already"


def test_the_chat_that_is_shown_is_marked_in_the_list_from_the_first_on(window: MainWindow, link: FakeLink) -> None:
    for question in ("One", "Two"):
        ask(window, question)
        link.say("Yes")
        link.finish()
        panel = window.conversations.panel
        assert panel.list.currentIndex().data() == question
        window.actions_.new_chat.trigger()
        assert not panel.list.currentIndex().isValid()


def test_a_copy_is_opened(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    converse(window, link, "One")
    with qtbot.waitSignal(window.chat.conversation_replaced):
        window.actions_.duplicate_chat.trigger()
    record = window.conversations.autosave.record(window.chat.conversation.id)
    assert record is not None
    assert record.shown_title == "One (copy)"
    assert titles(window) == ["One", "One (copy)"]


def test_deleted_ones_come_back_one_after_the_other(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    for question in ("One", "Two"):
        converse(window, link, question)
    for title in ("One", "Two"):
        choose(window, title)
        window.actions_.delete_chat.trigger()
    for back in (["Two"], ["One", "Two"]):
        with qtbot.waitSignal(window.chat.conversation_replaced):
            notice_button(window, "Undo").click()
        assert titles(window) == back
    assert not window.notices.notices


def test_what_is_deleted_while_it_is_read_is_not_opened(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    for question in ("One", "Two"):
        converse(window, link, question)
    window.actions_.new_chat.trigger()
    choose(window, "One")
    autosave = window.conversations.autosave
    autosave.open(window.conversations.chosen)
    window.actions_.delete_chat.trigger()
    with qtbot.waitSignal(window.conversations.archive.listed):
        window.conversations.archive.list_all()
    assert window.chat.conversation.is_empty
    assert titles(window) == ["Two"]


def test_what_comes_without_a_title_gets_one_of_its_question(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats = [{"messages": [{"role": "user", "content": f"{word} tree?"}]} for word in ("Which", "Whose")]
    (tmp_path / "chats.json").write_text(json.dumps(chats))
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(tmp_path / "chats.json")], ""))
    window.actions_.import_chats.trigger()
    qtbot.waitUntil(lambda: len(titles(window)) == 2)
    assert titles(window) == ["Which tree?", "Whose tree?"]


def test_what_comes_back_or_comes_in_stops_no_answer(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": "Three"}]))
    converse(window, link, "One")
    window.actions_.delete_chat.trigger()
    ask(window, "Two")
    notice_button(window, "Undo").click()
    assert titles(window) == ["One", "Two"]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(tmp_path / "chat.json")], ""))
    window.actions_.import_chats.trigger()
    qtbot.waitUntil(lambda: titles(window) == ["One", "Three", "Two"])
    assert window.chat.is_answering
    assert window.chat.conversation.messages[0].text == "Two"


@pytest.mark.parametrize("ending", ["json", "JSON", "md"])
def test_a_system_prompt_goes_out_and_comes_back(
    window: MainWindow, link: FakeLink, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    file = tmp_path / f"chat.{ending}"
    window.settings.change(generation=GenerationSettings(temperature=0.3))
    converse(window, link, "One")
    window.chat.change_settings(GenerationSettings(system_prompt="Be brief."))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(file), ""))
    with qtbot.waitSignal(window.conversations.notice_raised):
        window.actions_.export_chat.trigger()
    if ending != "md":
        assert json.loads(file.read_text(encoding="utf-8"))["settings"]["generation"]["system_prompt"] == "Be brief."
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(file)], ""))
    window.actions_.new_chat.trigger()
    with qtbot.waitSignal(window.chat.conversation_replaced):
        window.actions_.import_chats.trigger()
    kept = GenerationSettings(system_prompt="Be brief.")
    assert window.chat.generation == (replace(kept, temperature=0.3) if ending == "md" else kept)
    assert [each.text for each in window.chat.conversation.messages] == ["One", "Answer to One"]


def test_an_ampersand_in_a_title_is_one_where_its_folder_is_asked_for(
    window: MainWindow, link: FakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Qt takes a single one for the mark of a key, and shows a line in its place."""
    asked: list[str] = []

    def ask(_parent: QWidget, _title: str, words: str, *_: object, **__: object) -> tuple[str, bool]:
        asked.append(words)
        return "", False

    monkeypatch.setattr(QInputDialog, "getItem", ask)
    converse(window, link, "Questions & answers")
    window.actions_.move_chat.trigger()
    assert len(asked) == 1
    assert "“Questions && answers”" in asked[0]


def test_a_chat_is_branched_from_an_answer(window: MainWindow, link: FakeLink, qtbot: QtBot) -> None:
    converse(window, link, "One")
    for question in ("Two", "Three"):
        ask(window, question)
        link.say(f"Answer to {question}")
        link.finish()
    whole = window.chat.conversation.id
    window.chat.change_settings(GenerationSettings(temperature=0.3))
    window.conversations.autosave.move(whole, "Trees")
    view = window.chat_panel.view.answers[1]
    assert view.message.text == "Answer to Two"
    with qtbot.waitSignal(window.chat.conversation_replaced):
        view.branch_tool.click()
    branch = window.chat.conversation
    assert [each.text for each in branch.messages] == ["One", "Answer to One", "Two", "Answer to Two"]
    record = window.conversations.autosave.record(branch.id)
    assert record is not None
    assert (record.shown_title, record.folder) == ("One (branch)", "Trees")
    assert window.chat.generation.temperature == 0.3
    ask(window, "And now?")
    assert [each.content for each in link.last_question.chat][-1] == "And now?"
    assert not window.chat_panel.view.answers[0].branch_tool.isEnabled(), "not while an answer is written"
    link.finish()
    window.conversations.autosave.open(whole)
    qtbot.waitUntil(lambda: window.chat.conversation.id == whole)
    assert len(window.chat.conversation.messages) == 6


def test_a_title_that_is_a_sentence_ends_with_one_full_stop(window: MainWindow, link: FakeLink) -> None:
    converse(window, link, "Tell me a story.")
    window.actions_.delete_chat.trigger()
    assert [each.message for each in window.notices.notices] == ["Deleted “Tell me a story”."]
