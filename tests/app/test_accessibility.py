"""Every control of every window and panel: a name for who hears it, a way to it for who has no mouse."""

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, QRect, Qt, QTimer
from PySide6.QtGui import QAccessible, QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFocusFrame,
    QInputDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.preferences.dialog import PreferencesDialog
from app.shell.window import MainWindow
from app.ui.notices import Notice, Tone
from engine.protocol.serving import Serving, Visit
from tests.app.fake_link import FakeLink
from tests.app.test_without_mouse import contrast

FIELDS = (QLineEdit, QPlainTextEdit)  # which have a cursor that blinks
CONTROLS = (QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QTabBar)
# Parts that Qt makes inside its own controls, and drives by the keys of these.
INNER = ("qt_", "Scroll", "scroll")


def heard(widget: QWidget) -> str:
    """What a screen reader says of it."""
    face = QAccessible.queryAccessibleInterface(widget)
    return face.text(QAccessible.Text.Name) if face else widget.accessibleName()


def controls(root: QWidget) -> Iterator[QWidget]:
    """What is shown below a widget, in the same window, and does something; Qt's own inner parts are left out."""
    for each in root.findChildren(QWidget):
        parent = each.parentWidget()
        inner = each.objectName().startswith(INNER) or isinstance(parent, QComboBox | QAbstractSpinBox | QTabBar)
        inner = inner or (
            isinstance(each, QAbstractSlider) and isinstance(parent and parent.parentWidget(), QAbstractScrollArea)
        )
        takes_focus = bool(each.focusPolicy() & Qt.FocusPolicy.TabFocus) and not isinstance(each, QDialog)
        is_control = isinstance(each, CONTROLS) or (takes_focus and not isinstance(each, QLabel))
        if is_control and not inner and each.isVisibleTo(root) and each.window() is root.window():
            yield each


def chat(window: MainWindow) -> QWidget:
    """A conversation with code, a version beside, figures, an attachment's tray and a notice."""
    link = window.link
    assert isinstance(link, FakeLink)
    window.chat.ask("Hello")
    link.say("Here it is:\n\n```python\nprint(1)\n```\n\n", "<think>", "so", "</think>", " done.")
    link.finish()
    window.chat.regenerate()
    link.say("Otherwise.")
    link.finish("length")
    window.notices.add(Notice("any", "Something went wrong.", action="Undo"))
    return window.chat_panel


def telemetry(window: MainWindow) -> QWidget:
    """The charts."""
    window.actions_.telemetry.trigger()
    assert window.telemetry.panel.isVisible(), "made now instead of a moment later"
    return window.telemetry.dock


def preferences(window: MainWindow) -> QWidget:
    """Every page is looked at below; here the dialog."""
    window.actions_.preferences.trigger()
    return next(each for each in window.findChildren(PreferencesDialog))


def palette(window: MainWindow) -> QWidget:
    """Everything that can be done."""
    window.actions_.palette.trigger()
    return window.tools.palette


def generation(window: MainWindow) -> QWidget:
    """Settings and presets of a conversation."""
    window.open_generation()
    return window.generation


def models(window: MainWindow) -> QWidget:
    """The picker."""
    window.open_models()
    return next(each for each in window.findChildren(QDialog) if each.isVisible())


def server(window: MainWindow) -> QWidget:
    """The local server, on and asked, with everything about it that can be pressed."""
    window.actions_.server.trigger()
    assert isinstance(window.link, FakeLink)
    window.server.controller.switch_on()
    window.link.answer(
        Serving("http://127.0.0.1:8383"),
        Visit(1, "::1", "curl", "/v1/models", "done"),
        Visit(2, "::1", "", "/", "gone"),
    )
    return window.server.dialog


def comparison(window: MainWindow) -> QWidget:
    """Two answers side by side; without a conversation there are none, and it is said."""
    window.actions_.compare.trigger()
    dialog = window.comparison.dialog
    if not dialog.isVisible():
        return window
    dialog.playback.set_duration(2.0)
    return dialog


PLACES: tuple[Callable[[MainWindow], QWidget], ...] = (
    chat,
    lambda window: window,
    lambda window: window.conversations.panel,
    lambda window: window.tree_panel,
    telemetry,
    preferences,
    palette,
    generation,
    models,
    server,
    comparison,
)


def test_every_control_has_a_name_and_can_be_reached_with_keys(window: MainWindow) -> None:
    window.resize(1500, 1000)
    silent, unreachable, mute = set[str](), set[str](), set[str]()
    for place in (*PLACES[1:], chat, comparison):  # without a conversation first
        root = place(window)
        QApplication.processEvents()
        for page in pages(root):
            page()
            found = list(controls(root))
            assert found, place
            silent |= {described(each) for each in found if not heard(each).strip()}
            unreachable |= {described(each) for each in found if each.isEnabled() and not reachable(each)}
            off = [each for each in found if isinstance(each, QAbstractButton) and not each.isEnabled()]
            mute |= {described(each) for each in off if not reason(each)}
        leave(root)
    assert (sorted(silent), sorted(unreachable), sorted(mute)) == ([], [], [])


def reason(button: QAbstractButton) -> str:
    """Why a button is off: what its tip says besides what it does."""
    return button.toolTip().partition("\n")[2]


def leave(root: QWidget) -> None:
    """Close what lies in front of the window."""
    if isinstance(root, QDialog):
        root.reject()
    elif root.windowFlags() & Qt.WindowType.Popup == Qt.WindowType.Popup:
        root.close()


def pages(root: QWidget) -> list[Callable[[], object]]:
    """What brings every page of a dialog to the front."""
    if isinstance(root, PreferencesDialog):
        return [lambda row=row: root.list.setCurrentRow(row) for row in range(root.list.count())]  # type: ignore[misc]
    tabs = root.findChild(QTabBar)
    if isinstance(root, QDialog) and tabs is not None:
        return [lambda tab=tab: tabs.setCurrentIndex(tab) for tab in range(tabs.count())]  # type: ignore[misc]
    return [lambda: None]


def reachable(widget: QWidget) -> bool:
    """By Tab; or by the arrow keys of the field above it."""
    driven = widget.objectName() == "palette-list"
    return driven or bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) or widget.focusProxy() is not None


def described(widget: QWidget) -> str:
    """Which one it is, for who reads a failure."""
    above = type(widget.parentWidget()).__name__
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return f"{above} > {type(widget).__name__} {widget.objectName()} {text}".strip()


def test_tab_goes_through_everything_and_comes_back(window: MainWindow) -> None:
    window.resize(1500, 1000)
    chat(window)
    telemetry(window)
    QApplication.processEvents()
    assert QTest.qWaitForWindowActive(window)
    window.chat_panel.setFocus()
    start = window.focusWidget()
    assert start is not None
    passed = {start}
    for _ in range(300):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        focus = window.focusWidget()
        assert focus is not None
        if focus is start:
            break
        passed.add(focus)
    assert window.focusWidget() is start, "Tab never came back"
    wanted = [each for each in controls(window) if each.isEnabled() and reachable(each) and each.focusProxy() is None]
    missed = [described(each) for each in wanted if each not in passed and not in_a_group(each, passed)]
    assert missed == []


def test_what_has_the_focus_shows_it_and_shows_no_ring_to_the_mouse(window: MainWindow) -> None:
    window.resize(1500, 1000)
    chat(window)
    telemetry(window)
    QApplication.processEvents()
    assert QTest.qWaitForWindowActive(window)
    for each in [each for each in controls(window) if each.isEnabled() and reachable(each)]:
        if isinstance(each, FIELDS) or each.focusProxy() is not None:
            continue
        each.clearFocus()
        before = middle_line(each)
        each.setFocus(Qt.FocusReason.TabFocusReason)
        contrasts = [contrast(*pair) for pair in zip(before, middle_line(each), strict=True) if len(set(pair)) > 1]
        assert max(contrasts, default=0.0) >= 3, described(each)
    tool = window.chat_panel.composer.attach_tool
    window.chat_panel.setFocus()
    assert not tool.findChildren(QFocusFrame)
    text = window.chat_panel.view.answers[-1].text
    QTest.mousePress(text.viewport(), Qt.MouseButton.LeftButton)
    assert text.hasFocus()
    assert not text.findChildren(QFocusFrame)
    QTest.mouseRelease(text.viewport(), Qt.MouseButton.LeftButton)  # else Qt takes it for pressed in the tests behind


def middle_line(widget: QWidget) -> list[str]:
    """The colours through the middle of a widget, from its left to its right edge."""
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    line = widget.grab(QRect(0, widget.height() // 2, widget.width(), 1)).toImage()
    return [line.pixelColor(x, 0).name() for x in range(line.width())]


def test_notices_and_answers_that_are_over_are_said(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    for room in ("app.ui.notices", "app.chat.view.answer_view"):
        monkeypatch.setattr(f"{room}.announce", lambda _widget, words: said.append(words))
    link = window.link
    assert isinstance(link, FakeLink)
    window.chat.ask("Hello")
    link.say("Good", " day")
    assert said == []
    link.finish()
    window.notices.add(Notice("any", "It went wrong.", "Try again.", tone=Tone.HINT, action="Again"))
    window.notices.add(Notice("any", "It goes wrong.", tone=Tone.HINT, action="Again"))
    assert said == ["Good day", "It went wrong. Try again."], "changing words are not said again and again"


def test_tab_goes_through_messages_from_top_to_bottom(window: MainWindow) -> None:
    assert QTest.qWaitForWindowActive(window)
    chat(window)
    window.chat.edit(window.chat.conversation.messages[0].id, "Otherwise?")
    assert isinstance(window.link, FakeLink)
    window.link.say("Good day.")
    window.link.finish()
    QApplication.processEvents()
    view = window.chat_panel.view
    question, answer = view.questions[-1], view.answers[-1]
    view.setFocus()
    passed = []
    while not window.chat_panel.composer.field.hasFocus():
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        passed.append(window.focusWidget())
    wanted = [
        question.text,
        question.versions.earlier,
        question.copy_tool,
        answer.text,
        answer.tools[0],
        answer.figures,
    ]
    assert [each for each in passed if each in wanted] == wanted
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_Backtab)
    assert window.focusWidget() is passed[-2]
    assert view.isAncestorOf(window.focusWidget())


def test_f6_goes_to_notices_and_to_telemetry(window: MainWindow) -> None:
    assert QTest.qWaitForWindowActive(window)
    chat(window)
    telemetry(window)
    QApplication.processEvents()
    window.chat_panel.setFocus()
    for pane in (window.notices, window.tree_dock, window.telemetry.dock):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_F6)
        assert pane.isAncestorOf(window.focusWidget())


def test_tab_comes_from_the_send_button_to_the_attachments(window: MainWindow) -> None:
    assert QTest.qWaitForWindowActive(window)
    composer = window.chat_panel.composer
    for text in ("one", "two"):
        composer.tray.add_text(text)
    QApplication.processEvents()
    composer.button.setFocus()
    for part in (part for chip in composer.tray.chips for part in (chip.words, chip.remove)):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert part.hasFocus()
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    assert composer.attach_tool.hasFocus()


def test_conversations_are_arranged_with_keys_alone(window: MainWindow, qtbot: QtBot) -> None:
    assert QTest.qWaitForWindowActive(window)
    link = window.link
    assert isinstance(link, FakeLink)
    window.chat.ask("Hello")
    link.finish()
    identity = window.conversations.autosave.current
    window.chats_dock.hide()
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_F2)
    editor = window.conversations.panel.list.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    assert editor.isVisible()
    QTest.keyClicks(editor, "Greetings")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.conversations.autosave.records[0].title == "Greetings")
    control = Qt.KeyboardModifier.ControlModifier
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_I, control | Qt.KeyboardModifier.ShiftModifier)
    assert window.conversations.autosave.records[0].is_pinned

    def choose() -> None:
        dialog = next(each for each in window.findChildren(QInputDialog) if each.isVisible())
        dialog.setTextValue("Letters")
        dialog.accept()

    QTimer.singleShot(0, choose)
    QTest.keyClick(window.focusWidget(), Qt.Key.Key_F, control | Qt.KeyboardModifier.AltModifier)
    record = window.conversations.autosave.record(identity)
    assert record is not None
    assert record.folder == "Letters"


def test_versions_are_gone_through_with_keys_alone(window: MainWindow) -> None:
    chat(window)
    assert QTest.qWaitForWindowActive(window)
    for key, text in ((Qt.Key.Key_PageUp, "Here it is"), (Qt.Key.Key_PageDown, "Otherwise.")):
        QTest.keyClick(window.focusWidget(), key, Qt.KeyboardModifier.AltModifier)
        answer = window.chat.conversation.last_answer
        assert answer is not None
        assert answer.text.startswith(text)


def in_a_group(widget: QWidget, passed: set[QWidget]) -> bool:
    """Of buttons of which one is chosen, Tab reaches that one and arrow keys the others."""
    group = widget.group() if isinstance(widget, QAbstractButton) else None
    return group is not None and any(each in passed for each in group.buttons())


def test_every_action_has_a_shortcut_a_menu_and_a_place_in_the_palette(window: MainWindow) -> None:
    actions = [each for each in vars(window.actions_).values() if isinstance(each, QAction)]
    assert [each.text() for each in actions if each.shortcut().isEmpty()] == []
    listed = {each for each, menu in window.actions_.commands if menu}
    assert [each.text() for each in actions if each not in listed] == []
    window.actions_.palette.trigger()
    shown = window.tools.palette.list.model().rowCount()
    assert shown >= len(actions) - 1, "all but the palette itself"
