"""A dialog beside the window has the focus: the shortcuts of the program work all the same."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from app.server.dialog import ServerDialog
from app.shell.dialogs import ShortcutsDialog
from app.shell.window import MainWindow
from tests.app.test_two_windows import wait_for_another

CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def server_dialog(window: MainWindow, qtbot: QtBot) -> ServerDialog:
    """One that stays open beside the window, with the focus."""
    open_server(window, qtbot)
    return window.server.dialog


def open_server(window: MainWindow, qtbot: QtBot) -> None:
    window.actions_.server.trigger()
    qtbot.waitUntil(window.server.dialog.isActiveWindow)


def press(dialog: QDialog, key: Qt.Key, modifiers: Qt.KeyboardModifier = CTRL) -> None:
    """In whatever has the focus there."""
    QTest.keyClick(dialog.focusWidget() or dialog, key, modifiers)


def test_a_new_chat_begins_in_the_window_which_comes_to_the_front(
    window: MainWindow, server_dialog: ServerDialog, qtbot: QtBot
) -> None:
    window.chat.ask("What is a tree?")
    press(server_dialog, Qt.Key.Key_N)
    assert window.chat.conversation.is_empty
    qtbot.waitUntil(window.isActiveWindow)


def test_ctrl_w_closes_the_dialog_and_not_the_window(
    window: MainWindow, server_dialog: ServerDialog, qtbot: QtBot
) -> None:
    press(server_dialog, Qt.Key.Key_W)
    assert not server_dialog.isVisible()
    open_server(window, qtbot)
    press(server_dialog, Qt.Key.Key_W)
    assert not server_dialog.isVisible()
    assert window.isVisible()


def test_help_comes_over_the_window_and_takes_no_shortcuts(
    window: MainWindow, server_dialog: ServerDialog, qtbot: QtBot
) -> None:
    press(server_dialog, Qt.Key.Key_F1, Qt.KeyboardModifier.NoModifier)
    help_dialog = window.findChild(ShortcutsDialog)
    assert help_dialog is not None
    qtbot.waitUntil(help_dialog.isActiveWindow)
    assert not help_dialog.actions()
    help_dialog.close()


def test_commands_are_those_of_the_window_in_front(
    window: MainWindow, server_dialog: ServerDialog, qtbot: QtBot
) -> None:
    window.actions_.new_window.trigger()
    other = wait_for_another(window, qtbot)
    qtbot.waitUntil(other.isActiveWindow)

    def is_back() -> bool:
        server_dialog.activateWindow()  # again, as a window that is opened comes forward only in the end
        return server_dialog.isActiveWindow()

    qtbot.waitUntil(is_back)
    assert server_dialog.actions() == other.actions_.everywhere


def test_the_program_ends(window: MainWindow, server_dialog: ServerDialog) -> None:
    press(server_dialog, Qt.Key.Key_Q)
    assert not window.isVisible()
    assert not server_dialog.isVisible()
