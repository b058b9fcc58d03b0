"""The window without a mouse, in high contrast, in large letters, and from right to left."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QDesktopServices, QFontInfo, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QDialog,
    QFileDialog,
    QLineEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.library.picker.dialog import ModelsDialog
from app.server.dialog import ServerDialog
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.ui.colors import DARK_CONTRAST, LIGHT_CONTRAST, Colors
from app.ui.theme import DARK, LIGHT, Theme

LEAST_CONTRAST = {False: 4.5, True: 7.0}  # WCAG 2.2: level AA, and AAA for high contrast


def press(window: MainWindow, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    """Press a key, wherever the focus is."""
    QTest.keyClick(window.focusWidget() or window, key, modifiers)


def holds_focus(window: MainWindow, pane: QWidget) -> bool:
    """Whether the focus is in a part of the window."""
    focus = window.focusWidget()
    return focus is not None and (focus is pane or pane.isAncestorOf(focus))


def test_f6_goes_through_the_panes_that_are_shown_and_tab_through_the_tool_bar(window: MainWindow) -> None:
    assert QTest.qWaitForWindowActive(window)
    composer, tree, chats = window.chat_panel.composer, window.tree_panel, window.conversations.panel
    order = []
    for _ in range(4):
        press(window, Qt.Key.Key_F6)
        order += [pane for pane in (composer, tree, chats) if holds_focus(window, pane)]
    assert order == [tree, chats, composer]  # and the tool bar between them
    press(window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert holds_focus(window, chats)

    assert QTest.qWaitForWindowActive(window)
    window.tree_panel.setFocus()
    window.actions_.write.trigger()
    assert holds_focus(window, window.chat_panel.composer)

    names = {each.text() for each in window.findChildren(QToolButton) if each.text() and each.isVisible()}
    reached = set()
    for _ in range(80):
        press(window, Qt.Key.Key_Tab)
        focus = window.focusWidget()
        if isinstance(focus, QToolButton):
            reached.add(focus.text())
    assert {"Chats", "New chat", "Models", "Generation settings", "Speculation tree"} <= names & reached

    window.tree_dock.hide()
    window.chats_dock.hide()
    for _ in range(6):
        press(window, Qt.Key.Key_F6)
        assert not holds_focus(window, window.tree_panel)
        assert not holds_focus(window, window.conversations.panel)


def test_every_action_can_be_triggered_in_an_empty_window(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a menu or a shortcut does it; what cannot be done yet does nothing, or says so."""
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_, **__: ([], ""))
    for name in ("getOpenFileName", "getSaveFileName"):
        monkeypatch.setattr(QFileDialog, name, lambda *_, **__: ("", ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_, **__: "")
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _: True)
    for action, _ in window.actions_.commands:
        if action in (window.actions_.quit, window.actions_.close_window):
            continue
        action.trigger()
        QApplication.processEvents()
        for dialog in QApplication.topLevelWidgets():
            if isinstance(dialog, QDialog):
                dialog.close()
    assert window.isVisible()


def luminance(color: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = (QColor(color).redF(), QColor(color).greenF(), QColor(color).blueF())
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """From 1 (none) to 21 (black and white)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colors", [LIGHT, DARK, LIGHT_CONTRAST, DARK_CONTRAST])
def test_text_can_be_read(colors: Colors) -> None:
    least = LEAST_CONTRAST[colors.is_contrast]
    for ground in (colors.window, colors.surface, colors.raised, colors.bubble, colors.hover, colors.selection):
        assert contrast(colors.text, ground) >= least
    for ground in (colors.window, colors.surface):
        assert contrast(colors.muted, ground) >= least
        assert contrast(colors.link, ground) >= LEAST_CONTRAST[False]
        assert contrast(colors.error, ground) >= least
    assert contrast(colors.on_accent, colors.accent) >= least


@pytest.fixture
def followed(theme: Theme) -> Iterator[Theme]:
    """The theme, put back to how it begins."""
    yield theme
    theme.follow(type(theme._preferences)())


def test_theme_contrast_and_text_size_hold_at_once(
    window: MainWindow, settings: SettingsFile, followed: Theme, qapp: QApplication
) -> None:
    size = qapp.font().pointSizeF()
    for changes, colors in (
        ({"theme": "dark"}, DARK),
        ({"high_contrast": True}, DARK_CONTRAST),
        ({"theme": "light"}, LIGHT_CONTRAST),
        ({"high_contrast": False}, LIGHT),
    ):
        settings.change(**changes)
        followed.follow(settings.current)
        assert followed.colors == colors
        assert window.palette().window().color().name() == colors.window
    settings.change(text_size=200)
    followed.follow(settings.current)
    assert qapp.font().pointSizeF() == pytest.approx(2 * size)
    assert window.chat_panel.composer.field.font().pointSizeF() > 2 * size
    window.actions_.models.trigger()
    (models,) = window.findChildren(ModelsDialog)
    assert models.discover.field.width() > models.discover.width() / 2
    window.actions_.server.trigger()
    (server,) = window.findChildren(ServerDialog)
    title, below = server.head.title, server.head.about
    for percent in (200, 100):
        settings.change(text_size=percent)
        followed.follow(settings.current)
        assert QFontInfo(title.font()).pixelSize() > QFontInfo(below.font()).pixelSize(), "titles grow, too"


@pytest.mark.parametrize("theme_name", ["light", "dark"])
def test_boxes_of_any_dialog_can_be_seen_checked_or_not(
    followed: Theme, settings: SettingsFile, theme_name: str, qtbot: QtBot
) -> None:
    settings.change(theme=theme_name)
    followed.follow(settings.current)
    dialog = QDialog()
    qtbot.addWidget(dialog)
    column = QVBoxLayout(dialog)
    empty, checked = QCheckBox("", dialog), QCheckBox("", dialog)
    checked.setChecked(True)
    for box in (empty, checked):
        column.addWidget(box)
    dialog.show()
    dialog.setFocus()
    colors = followed.colors
    pictures = [box.grab().toImage() for box in (empty, checked)]
    seen = [
        {QColor(picture.pixel(x, y)).name() for x in range(picture.width()) for y in range(picture.height())}
        for picture in pictures
    ]
    assert colors.muted in seen[0]
    assert contrast(colors.muted, colors.window) >= 3.0, "WCAG 2.2: what is no text"
    assert colors.accent in seen[1]


def test_the_system_is_not_followed_where_a_theme_is_chosen(
    followed: Theme, settings: SettingsFile, qapp: QApplication
) -> None:
    settings.change(theme="dark")
    followed.follow(settings.current)
    QGuiApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert followed.colors == DARK


@pytest.fixture
def from_right_to_left(qapp: QApplication) -> Iterator[None]:
    """Everything the other way round."""
    qapp.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    yield
    qapp.setLayoutDirection(Qt.LayoutDirection.LeftToRight)


@pytest.mark.usefixtures("from_right_to_left")
def test_from_right_to_left_nothing_is_clipped_or_overlaps(window: MainWindow) -> None:
    window.resize(1400, 860)
    window.chat.ask("How are you?")
    controls = [
        *(each for each in window.findChildren(QToolButton) if each.isVisible() and each.text()),
        window.chat_panel.composer,
        window.conversations.panel.search,
        window.status_area.words,
    ]
    places = [(each, QRect(each.mapTo(window, QPoint(0, 0)), each.size())) for each in controls]
    for each, place in places:
        assert window.rect().contains(place), each
        assert isinstance(each, QLineEdit) or each.width() >= min(
            each.sizeHint().width(), each.minimumSizeHint().width()
        )
    for index, (one, place) in enumerate(places):
        for other, another in places[index + 1 :]:
            nested = one.isAncestorOf(other) or other.isAncestorOf(one)
            assert nested or not place.intersects(another), (one, other)
    chats = window.conversations.panel.mapTo(window, QPoint(0, 0)).x()
    assert chats > window.width() // 2, "the list of chats is at the beginning of the line, which is the right"
