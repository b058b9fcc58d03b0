"""The palette in the window: by keyboard alone."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest

from app.settings.store import SettingsFile, options
from app.shell.command_palette import CommandPalette
from app.shell.window import MainWindow
from tests.app.fake_link import FakeLink

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def palette(window: MainWindow) -> CommandPalette:
    """The palette of a window, opened by its key."""
    assert QTest.qWaitForWindowActive(window)
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_K, CONTROL)
    assert window.tools.palette.isVisible()
    return window.tools.palette


def write(palette: CommandPalette, text: str) -> None:
    """Into the field, letter by letter."""
    QTest.keyClicks(palette.field, text)


def press(palette: CommandPalette, *keys: Qt.Key) -> None:
    """In the field, which has the focus all the time."""
    for key in keys:
        QTest.keyClick(palette.field, key)


def names(palette: CommandPalette) -> list[str]:
    """What is listed."""
    return [hit.entry.name for hit in palette.model.hits]


def test_everything_is_listed_heard_chosen_with_arrows_and_left_with_esc(
    window: MainWindow, palette: CommandPalette, settings: SettingsFile
) -> None:
    entries = {hit.entry.key: hit.entry for hit in palette.model.hits}
    names_of_options = {f"option:{name}" for name in options()}
    assert names_of_options <= set(entries)
    for each in names_of_options:
        del entries[each]
    assert set(entries) == {action.objectName() for action, _ in window.actions_.commands} - {"palette"}
    assert (entries["models"].name, entries["models"].where, entries["models"].keys) == ("Models", "Model", "Ctrl+M")
    assert all(each.where and each.keys for each in entries.values())
    assert not entries["stop"].is_enabled

    assert palette.accessibleName()
    assert palette.field.accessibleName()
    first = palette.model.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert first == "New chat, File, Ctrl+N"
    assert QAccessible.queryAccessibleInterface(palette.list).childCount() == len(names(palette))

    press(palette, Qt.Key.Key_Up)
    assert palette.list.currentIndex().row() == len(names(palette)) - 1
    press(palette, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == 0

    write(palette, "answer")
    assert names(palette)[:2]
    seen = set()
    for _ in range(2 * len(names(palette))):
        seen.add(palette.model.hits[palette.list.currentIndex().row()].entry.key)
        press(palette, Qt.Key.Key_Down)
    assert seen
    assert not seen & {"stop", "regenerate"}

    palette.field.clear()
    write(palette, "zzzz")
    assert palette.nothing.isVisible()
    press(palette, Qt.Key.Key_Return, Qt.Key.Key_Down)
    assert palette.isVisible()

    press(palette, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert settings.current.recent_commands == ()


def test_letters_and_enter_run_an_action(window: MainWindow, palette: CommandPalette, settings: SettingsFile) -> None:
    assert window.chats_dock.isVisible()
    write(palette, "chats now")
    press(palette, Qt.Key.Key_Return)
    assert not palette.isVisible()
    assert not window.chats_dock.isVisible()
    assert settings.current.recent_commands == ("chats",)
    window.actions_.palette.trigger()
    assert names(palette)[0] == "Chats (now off)"


def test_conversations_are_opened_by_their_title(
    window: MainWindow, link: FakeLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    window.chat.ask("Tell me of walruses")
    link.finish()
    first = window.chat.conversation.id
    window.actions_.new_chat.trigger()
    window.actions_.palette.trigger()
    palette = window.tools.palette
    write(palette, "walrus")
    assert [(hit.entry.name, hit.entry.where) for hit in palette.model.hits] == [("Tell me of walruses", "Chat")]
    opened: list[int] = []
    monkeypatch.setattr(window.conversations.autosave, "open", opened.append)
    press(palette, Qt.Key.Key_Return)
    assert opened == [first]


@pytest.mark.parametrize(
    ("words", "first", "page"),
    [("theme", "Theme", "Appearance"), ("language", "Language", "Appearance"), ("font", "Text size", "Appearance")],
)
def test_an_option_is_found_and_shown_where_it_is_set(
    window: MainWindow, palette: CommandPalette, words: str, first: str, page: str
) -> None:
    write(palette, words)
    assert names(palette)[0] == first
    press(palette, Qt.Key.Key_Return)
    dialog = window.program.preferences.dialog
    assert dialog is not None
    assert dialog.isVisible()
    assert dialog.list.currentItem().text() == page
    focused = dialog.focusWidget()
    assert focused is not None
    assert focused.accessibleName() == first
    dialog.close()


def test_what_cannot_be_done_says_why(palette: CommandPalette, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr("app.shell.command_palette.announce", lambda _widget, words: heard.append(words))
    write(palette, "regenerate")
    (hit,) = palette.model.hits
    index = palette.model.index(0)
    assert (hit.entry.is_enabled, hit.entry.beside) == (False, "This chat is empty.")
    assert palette.model.data(index, Qt.ItemDataRole.ToolTipRole) == "This chat is empty."
    assert str(palette.model.data(index, Qt.ItemDataRole.AccessibleTextRole)).endswith("This chat is empty.")
    assert heard[-1] == "Regenerate answer: This chat is empty.", "no key leads to it"
    palette.field.clear()
    assert palette.model.data(palette.list.currentIndex(), Qt.ItemDataRole.ToolTipRole) is None
