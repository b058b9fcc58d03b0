"""A restless person in front of the window: hundreds of clicks, keys and words, on whatever is there at the moment."""

import gc
import logging
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import (
    QAbstractEventDispatcher,
    QCoreApplication,
    QEvent,
    QEventLoop,
    QMessageLogContext,
    QPoint,
    Qt,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFileDialog,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QWidget,
)

from app.engine.link import EngineLink
from app.engine.program import EngineProgram
from app.settings.store import SettingsFile
from app.shell.window import MainWindow
from app.shell.wiring import connected_window
from app.system.paths import folders_below
from app.ui.actions import MENUS
from app.ui.theme import Theme
from engine.protocol.options import LoadOptions
from tests.app.conftest import FAKE_ENGINE
from tests.campaigns.outcome import Kind, Outcome

if TYPE_CHECKING:
    from threading import ExceptHookArgs

STEPS = 300
PATIENCE_SECONDS = 60.0  # for all of them to be made, and then for everything to be closed
DEEPEST = 4  # dialogs and menus inside one another, before the topmost is left
LONG_SECONDS = 0.05  # of a processor, in one turn of the event loop: what a person may notice
PAUSES_MS = (2, 2, 5, 20, 20, 60, 250)  # never none: turns would have no end
WORDS = (
    *("say A larch grows *here*.", "drip 30", "hang", "fail", "kill", "exit 3", "long", "say $$x^2$$ and `code`"),
    *("larch", "ä \U0001f332 e\u0301 \u202eabc", "0", "-1", "1e9", "/", "w" * 3000, "<b>no</b>", "a\tb"),
    *("", "http://[", "\0"),
)
KEYS = (
    *(Qt.Key.Key_Tab, Qt.Key.Key_Return, Qt.Key.Key_Escape, Qt.Key.Key_Space, Qt.Key.Key_Down, Qt.Key.Key_Up),
    *(Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageDown, Qt.Key.Key_Delete),
)
TOUCHED = (
    *(QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QMenu),
    *(QPlainTextEdit, QTabBar, QTextEdit),
)
NOT_TRIGGERED = ("quit", "close_window")
EXPECTED = "This plugin does not support"  # of windows without a screen
NO_NETWORK = "tests do without the network"  # behind a name that was written into a field for an address


class Troubles(logging.Handler):
    """Keeps what nobody has caught, in any thread, and what Qt warns of."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []
        sys.excepthook = self._on_error
        sys.unraisablehook = lambda met: self._on_error(met.exc_type, met.exc_value, met.exc_traceback)
        threading.excepthook = self._on_thread_error
        qInstallMessageHandler(self._on_message)
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return [each for each in found if NO_NETWORK not in each]

    def _on_error(self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        self.found.append("".join(traceback.format_exception(kind, error, trace)))

    def _on_thread_error(self, met: "ExceptHookArgs") -> None:
        self._on_error(met.exc_type, met.exc_value, met.exc_traceback)

    def _on_message(self, kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg) and not message.startswith(EXPECTED):
            self.found.append(message)


class Turns:
    """The longest turn of the event loop in processor time, and what was done in it."""

    def __init__(self) -> None:
        self.longest, self.deed = 0.0, ""
        self._since: float | None = None
        self.doing = ""
        dispatcher = QAbstractEventDispatcher.instance()
        assert dispatcher is not None
        dispatcher.awake.connect(self._begin)
        dispatcher.aboutToBlock.connect(self._end)

    def restart(self) -> None:
        """Forget what was before now."""
        self.longest, self.deed, self.doing = 0.0, "", ""
        self._begin()

    def _begin(self) -> None:
        self._since = time.thread_time()

    def _end(self) -> None:
        if self._since is not None and (took := time.thread_time() - self._since) > self.longest:
            self.longest, self.deed = took, self.doing
        self._since = None


class Person:
    """Does one thing after another; those of one seed are the same where the window is as fast."""

    def __init__(self, seed: int, folder: Path, turns: Turns) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._turns = turns
        self._left = STEPS
        self._inside = 0
        self._loop = QEventLoop()
        self.stuck = ""
        self.deeds: list[str] = []

    def work(self) -> None:
        """Do it all, then leave whatever is open; `stuck` says what could not be left."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        self._next(deadline)
        self._loop.exec()

    def _next(self, deadline: float) -> None:
        QTimer.singleShot(self._random.choice(PAUSES_MS), lambda: self._step(deadline))

    def _step(self, deadline: float) -> None:
        """The next step is arranged before this one is made: a menu or a dialog comes back only when it is left."""
        now = time.monotonic()
        if self._left > 0 and now < deadline:
            self._left -= 1
            self._next(deadline)
            self._inside += 1
            try:
                self._act(leaves=self._inside > DEEPEST)
            finally:
                self._inside -= 1
        elif (top := _topmost()) is None:
            self._loop.quit()
        elif now > deadline + PATIENCE_SECONDS:
            self.stuck = f"{type(top).__name__} {top.windowTitle()!r} cannot be left"
            self._loop.quit()
        else:
            self._next(deadline)
            self._note("leave", top)
            _leave(top)

    def _act(self, leaves: bool) -> None:
        top = _topmost()
        if top is not None and (leaves or self._random.random() < 0.06):
            self._note("leave", top)
            _leave(top)
        elif isinstance(top, QFileDialog):
            self._choose_file(top)
        else:
            windows = [each for each in QApplication.topLevelWidgets() if each.isVisible()]
            if not windows:  # the last one was closed, or Quit was chosen in a menu
                self._left = 0
                return
            deeds: tuple[Callable[[QWidget], None], ...] = (self._touch, self._press, self._trigger, self._resize)
            (deed,) = self._random.choices(deeds, (6, 2, 1, 1))
            deed(top or self._random.choice(windows))

    def _note(self, deed: str, what: QWidget | QAction | None, more: str = "") -> None:
        name = "" if what is None else f" {type(what).__name__} {_name(what)!r}"
        self._turns.doing = f"{deed}{name} {more}".rstrip()
        self.deeds.append(self._turns.doing)
        sys.stderr.write(f"{self._turns.doing}\n")  # what was done last is told of a process that dies or hangs
        sys.stderr.flush()

    def _choose_file(self, dialog: QFileDialog) -> None:
        """Only in the folder of this run: a person would not write elsewhere by accident, and neither must this one."""
        if dialog.acceptMode() == QFileDialog.AcceptMode.AcceptOpen:
            self._note("leave", dialog)
            dialog.reject()
            return
        self._note("accept", dialog)
        dialog.setDirectory(str(self._folder))
        dialog.selectFile(str(self._folder / f"{self._random.randrange(5)}.file"))
        dialog.accept()

    def _touch(self, window: QWidget) -> None:
        shown = [each for each in window.findChildren(QWidget) if each.isVisible() and each.isEnabled()]
        shown = [each for each in shown if not each.visibleRegion().isEmpty()]
        likely = [each for each in shown if isinstance(each, TOUCHED)]
        if isinstance(window, QMenu):
            likely.append(window)
        if not shown and not likely:
            return
        widget = self._random.choice(likely if likely and self._random.random() < 0.8 else shown or likely)
        self._note("touch", widget)
        if isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit | QAbstractSpinBox):
            self._write(widget)
        elif isinstance(widget, QComboBox | QAbstractSlider):
            QTest.keyClick(widget, self._random.choice((Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown)))
        else:
            self._click(widget)

    def _click(self, widget: QWidget) -> None:
        place = widget.rect().center()
        if isinstance(widget, QMenu) and widget.actions():
            place = widget.actionGeometry(self._random.choice(widget.actions())).center()
        elif not isinstance(widget, QAbstractButton):
            widget = widget.viewport() if isinstance(widget, QAbstractItemView) else widget
            place = QPoint(*(self._random.randrange(max(1, each)) for each in (widget.width(), widget.height())))
        button = self._random.choice([Qt.MouseButton.LeftButton] * 5 + [Qt.MouseButton.RightButton])
        click = QTest.mouseDClick if self._random.random() < 0.1 else QTest.mouseClick
        QTest.mouseMove(widget, place)
        if shiboken6.isValid(widget) and widget.isVisible():
            click(widget, button, Qt.KeyboardModifier.NoModifier, place)

    def _write(self, widget: QWidget) -> None:
        widget.setFocus()
        if self._random.random() < 0.3:
            QTest.keyClick(widget, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        words = self._random.choice(WORDS)
        if isinstance(widget, QPlainTextEdit | QTextEdit) and not widget.isReadOnly():
            widget.insertPlainText(words)
        elif isinstance(widget, QLineEdit) and not widget.isReadOnly():
            widget.insert(words)
            widget.textEdited.emit(widget.text())
        else:
            QTest.keyClicks(widget, "".join(filter(str.isalnum, words.encode("ascii", "ignore").decode()[:20])))
        if shiboken6.isValid(widget) and self._random.random() < 0.6:
            QTest.keyClick(widget, Qt.Key.Key_Return)

    def _press(self, window: QWidget) -> None:
        focused = QApplication.focusWidget()
        widget = focused if focused is not None and focused.isVisible() else window
        key = self._random.choice(KEYS)
        self._note("press", widget, key.name)
        QTest.keyClick(widget, key)

    def _trigger(self, window: QWidget) -> None:
        """A command, by its keys or its menu; in front of a dialog most have nothing to do."""
        if isinstance(window, MainWindow):
            own = window.actions_
            commands = [each.name for menu in MENUS.values() for each in menu if each is not None]
            action = getattr(own, self._random.choice([each for each in commands if each not in NOT_TRIGGERED]))
            if action.isEnabled():
                self._note("trigger", action)
                action.trigger()

    def _resize(self, window: QWidget) -> None:
        if window.isWindow() and not isinstance(window, QMenu):
            self._note("resize", window)
            window.resize(self._random.randrange(300, 1500), self._random.randrange(200, 1000))


def _name(what: QWidget | QAction) -> str:
    texts = [what.objectName(), what.toolTip()]
    if isinstance(what, QAbstractButton | QAction):
        texts.append(what.text())
    return next(filter(None, texts), "")[:40]


def _topmost() -> QWidget | None:
    return QApplication.activePopupWidget() or QApplication.activeModalWidget()


def _leave(top: QWidget) -> None:
    if isinstance(top, QDialog):
        top.reject()
    else:
        top.close()


def one_run(folder: Path, seed: int, troubles: Troubles, turns: Turns) -> Outcome:
    """Open a window on a folder of its own, have somebody at it, and quit."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    here = folder / f"run-{seed}"
    folders = folders_below(here / "data")
    folders.create()
    settings, theme = SettingsFile(folders.settings_file), Theme(application)
    link = EngineLink(EngineProgram((sys.executable, str(FAKE_ENGINE)), folders.engine_log))
    window = connected_window(link, settings, folders, theme, LoadOptions())
    program = window.program
    window.show()
    person = Person(seed, here, turns)
    turns.restart()
    person.work()
    windows = [*program.windows]
    program.close_all()
    if not person.stuck and program.windows:
        person.stuck = "the program does not end"
    link.close()
    link.wait_closed()
    for each in windows:
        if shiboken6.isValid(each):
            each.deleteLater()
    QTest.qWait(50)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()  # of later runs, nothing of this one is to be looked at
    gc.freeze()
    application.styleHints().colorSchemeChanged.disconnect(theme._on_scheme_changed)
    met = troubles.take()
    if person.stuck or met:
        last = " / ".join(person.deeds[-6:])
        return Outcome(seed, Kind.TRACEBACK, f"{person.stuck} {' '.join(met)[-1500:]} after: {last}")
    if turns.longest > LONG_SECONDS:
        return Outcome(seed, Kind.SLOW, f"{turns.longest * 1000:.0f} ms of a processor: {turns.deed}")
    return Outcome(seed, Kind.SURVIVED)


def click_cases(folder: Path, seeds: range) -> Iterator[Outcome]:
    """Have one restless person per seed."""
    application = QApplication(["coppice"])
    application.setQuitOnLastWindowClosed(False)
    QDesktopServices.openUrl = lambda _url: True  # type: ignore[method-assign]  # no browser, no file manager
    gc.disable()  # as the program does, which looks for garbage when nothing else is to be done
    troubles, turns = Troubles(), Turns()
    for seed in seeds:
        yield one_run(folder, seed, troubles, turns)
