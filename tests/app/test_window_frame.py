"""The window's frame: help, names for everything, the layout between sessions, light and dark."""

import base64
import sys

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication, QMouseEvent, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLineEdit, QMessageBox, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.library.picker.dialog import ModelsDialog
from app.settings.store import SettingsFile
from app.shell.dialogs import ShortcutsDialog
from app.shell.window import MainWindow
from app.tree.panel import KEYS
from app.ui.theme import DARK, LIGHT, Theme, code_font, monospace_family
from tests.app.conftest import OpenWindow
from tests.app.fake_link import FakeLink


def test_help_fits_the_screen_every_control_has_a_name_and_every_shortcut_one_use(
    window: MainWindow,
) -> None:
    window.actions_.about.trigger()
    (box,) = [each for each in window.findChildren(QMessageBox) if each.isVisible()]
    assert "Coppice" in box.text()
    box.close()

    window.actions_.shortcuts.trigger()
    (dialog,) = [each for each in window.findChildren(ShortcutsDialog) if each.isVisible()]
    listed = dialog.list.toPlainText()
    assert [name for name, keys in window.actions_.listed if name not in listed or keys not in listed] == []
    bound = {each.key().toString() for each in window.tree_panel.findChildren(QShortcut)}
    assert {key for _, keys in KEYS for key in keys} == bound
    assert [what for what, _ in KEYS if f"In the tree: {what}" not in listed] == []
    assert dialog.height() <= window.screen().availableGeometry().height()
    dialog.close()

    keys = [keys for _, keys in window.actions_.listed]
    assert len(keys) == len(set(keys)) > 10

    unnamed = [
        (each.objectName(), each.toolTip(), each.parent())
        for kind in (QAbstractButton, QLineEdit, QComboBox, QPlainTextEdit)
        for each in window.findChildren(kind)
        if not (each.accessibleName() or getattr(each, "text", str)() or each.objectName().startswith("qt_"))
    ]
    assert unnamed == []


def test_closing_ends_the_engine_and_keeps_the_layout(
    window: MainWindow, link: FakeLink, settings: SettingsFile, open_window: OpenWindow
) -> None:
    window.tree_dock.hide()
    layout = window.layout()
    assert layout
    layout.activate()  # less is needed now
    window.resize(760, 640)
    window.close()
    assert link.said[-1] == "close"
    again = open_window(FakeLink())
    assert again.size() == window.size()
    assert not again.tree_dock.isVisible()


def test_a_window_that_was_full_screen_knows_that_it_is(
    window: MainWindow, open_window: OpenWindow, qtbot: QtBot
) -> None:
    window.actions_.full_screen.trigger()
    assert window.isFullScreen()
    window.close()
    again = open_window(FakeLink())
    qtbot.waitUntil(again.isFullScreen)
    assert again.actions_.full_screen.isChecked()
    again.actions_.full_screen.trigger()
    assert not again.isFullScreen()
    again.showFullScreen()  # by the window manager
    assert again.actions_.full_screen.isChecked()


def test_what_is_opened_for_the_first_time_fits_the_screen(open_window: OpenWindow) -> None:
    """Its lower edge, with the field to write in or the buttons, must not be below the screen's."""
    window = open_window(FakeLink())
    room = window.screen().availableGeometry()
    assert window.height() < room.height()
    window.actions_.models.trigger()
    (models,) = window.findChildren(ModelsDialog)
    assert models.height() < room.height()
    assert models.width() <= max(room.width(), models.minimumSizeHint().width())
    assert models.minimumSizeHint().height() < 480, "a laptop's screen at 150 percent"


@pytest.mark.parametrize("name", ["models", "server", "preferences", "compare", "export_picture", "palette"])
def test_what_is_opened_can_be_as_small_as_a_small_screen_at_200_percent(
    window: MainWindow, link: FakeLink, name: str
) -> None:
    window.chat.ask("Hello")
    link.say("Good", " day")
    link.finish(passes=2)
    window.resize(660, 330)
    QGuiApplication.processEvents()
    before = {each for each in QApplication.topLevelWidgets() if each.isVisible()}
    getattr(window.actions_, name).trigger()
    QGuiApplication.processEvents()
    (opened,) = {each for each in QApplication.topLevelWidgets() if each.isVisible()} - before
    for each in (window, opened):
        assert each.minimumSizeHint().width() <= 667
        assert each.minimumSizeHint().height() <= 350
    opened.close()


def test_menus_show_what_is_on(window: MainWindow) -> None:
    """An icon would stand where the mark is to be."""
    marked = [each for each, _ in window.actions_.commands if each.isCheckable()]
    assert {window.actions_.chats, window.actions_.tree, window.actions_.telemetry} <= set(marked)
    assert [each.text() for each in marked if each.isIconVisibleInMenu() and not each.icon().isNull()] == []


def test_a_wide_window_gives_its_docks_back_what_a_narrow_one_took(window: MainWindow) -> None:
    docks = window.chats_dock, window.tree_dock
    window.resize(1400, 700)
    QGuiApplication.processEvents()
    wide = [each.width() for each in docks]
    window.resize(window.minimumSizeHint().width(), 700)
    QGuiApplication.processEvents()
    assert sum(each.width() for each in docks) < sum(wide)
    window.resize(1400, 700)
    QGuiApplication.processEvents()
    assert [each.width() for each in docks] == wide


def test_a_narrow_window_takes_room_from_its_docks_before_it_takes_it_from_the_chat(window: MainWindow) -> None:
    assert window.chat_panel.width() >= 470, "from the beginning, on a screen of 800 pixels"
    window.resize(1000, 700)
    QGuiApplication.processEvents()
    assert window.chat_panel.width() >= 470
    assert window.chats_dock.width() >= 160


@pytest.mark.parametrize("state", ["empty", "answered", "of long names"])
def test_it_can_be_narrow_whatever_it_shows(window: MainWindow, link: FakeLink, state: str) -> None:
    if state == "answered":
        window.chat.ask("Hello")
        link.say("Good", " day", " to", " you")
        link.finish(passes=2)
    elif state == "of long names":
        words = "Ready: " + "a-model-of-a-long-name " * 9
        window.status_area.words.setText(words)
        assert window.status_area.words.minimumSizeHint().width() == 0
    window.resize(100, 600)
    QGuiApplication.processEvents()
    assert window.width() <= 640
    composer = window.chat_panel.composer
    assert composer.speculation.toolButtonStyle() is Qt.ToolButtonStyle.ToolButtonIconOnly
    for dock in (window.chats_dock, window.tree_dock):
        dock.hide()
    QGuiApplication.processEvents()
    window.resize(100, 600)
    QGuiApplication.processEvents()
    assert window.width() <= 400
    window.resize(1200, 600)
    QGuiApplication.processEvents()
    assert composer.speculation.toolButtonStyle() is Qt.ToolButtonStyle.ToolButtonTextBesideIcon


def test_a_dock_that_was_dragged_stays_as_it_was_dragged(window: MainWindow) -> None:
    window.resize(1400, 700)
    QGuiApplication.processEvents()
    edge, left, nothing = (
        window.chats_dock.geometry().topRight() + QPoint(1, 300),
        Qt.MouseButton.LeftButton,
        Qt.MouseButton.NoButton,
    )
    for kind, x, button, held in (
        (QEvent.Type.MouseButtonPress, 0, left, left),
        (QEvent.Type.MouseMove, -70, nothing, left),
        (QEvent.Type.MouseButtonRelease, -70, left, nothing),
    ):
        at = QPointF(edge + QPoint(x, 0))
        event = QMouseEvent(kind, at, window.mapToGlobal(at), button, held, Qt.KeyboardModifier.NoModifier)
        QGuiApplication.sendEvent(window, event)
        QGuiApplication.processEvents()
        QTest.qWait(30)  # Qt waits a moment before it moves what is dragged
    dragged = window.chats_dock.width()
    assert dragged < 200
    window.resize(1410, 700)
    QGuiApplication.processEvents()
    assert window.chats_dock.width() == dragged


@pytest.mark.parametrize("is_known", [True, False], ids=["as closed", "of an older version"])
def test_docks_of_a_window_that_was_closed_narrow_come_back_in_the_next(
    open_window: OpenWindow, settings: SettingsFile, is_known: bool
) -> None:
    window = open_window(FakeLink())
    window.resize(1400, 700)
    QGuiApplication.processEvents()
    wide = [window.chats_dock.width(), window.tree_dock.width()]
    window.resize(window.minimumSizeHint().width(), 700)
    QGuiApplication.processEvents()
    narrow = window.chats_dock.width()
    window.close()
    if not is_known:
        settings.change(dock_widths={})
    again = open_window(FakeLink())
    QGuiApplication.processEvents()
    assert again.chats_dock.width() <= narrow < wide[0]
    again.resize(1400, 700)
    QGuiApplication.processEvents()
    if is_known:
        assert [again.chats_dock.width(), again.tree_dock.width()] == wide
    else:
        assert again.chats_dock.width() >= 160


@pytest.mark.parametrize("stored", ["nonsense", base64.b64encode(b"\x00" * 40).decode()])
def test_a_layout_that_cannot_be_read_is_the_default(
    open_window: OpenWindow, settings: SettingsFile, stored: str
) -> None:
    settings.change(geometry=stored, docks=stored)
    window = open_window(FakeLink())
    assert window.tree_dock.isVisible()
    assert window.width() > 600


def test_the_window_comes_back_onto_a_screen_that_is_there(open_window: OpenWindow, settings: SettingsFile) -> None:
    first = open_window(FakeLink())
    first.move(QPoint(20_000, 20_000))
    first.close()
    second = open_window(FakeLink())
    assert second.screen().availableGeometry().intersects(second.frameGeometry())


def test_code_has_the_font_of_terminals_on_windows(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(QFontDatabase, "hasFamily", lambda family: family == "Consolas")
    assert (monospace_family(), code_font().family()) == ("Consolas", "Consolas")
    monkeypatch.setattr(QFontDatabase, "hasFamily", lambda _family: False)
    usual = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    assert code_font() == usual


def test_light_and_dark_follow_the_system(window: MainWindow, theme: Theme, monkeypatch: pytest.MonkeyPatch) -> None:
    colors = {Qt.ColorScheme.Light: LIGHT, Qt.ColorScheme.Dark: DARK}
    for scheme in (Qt.ColorScheme.Dark, Qt.ColorScheme.Light):
        monkeypatch.setattr(type(theme), "_wanted", lambda _, wanted=colors[scheme]: wanted)
        QGuiApplication.styleHints().colorSchemeChanged.emit(scheme)
        assert window.palette().window().color().name() == colors[scheme].window
        assert theme.colors == colors[scheme]
