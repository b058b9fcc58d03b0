"""Ways through the window without a mouse: F6 goes from one part to the next.

And shortcuts of the window where it would not get them: text fields take some for themselves, as Ctrl+K, which deletes
the end of a line on Linux, and of a dialog beside the window Qt asks the dialog alone.
"""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QDialog, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

from app.ui.actions import Actions


class Panes(QObject):
    """The parts of a window in the order in which they are gone through; hidden ones are left out."""

    def __init__(self, panes: Sequence[QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._panes = tuple(panes)

    def go(self, step: int = 1) -> None:
        """Put the focus into the next part, or with -1 into the one before."""
        ways = [(pane, entrance) for pane in self._panes if pane.isVisible() and (entrance := _entrance(pane))]
        if not ways:
            return
        here = next((place for place, (pane, _) in enumerate(ways) if _holds_focus(pane)), None)
        there = 0 if here is None else (here + step) % len(ways)
        ways[there][1].setFocus(Qt.FocusReason.TabFocusReason if step > 0 else Qt.FocusReason.BacktabFocusReason)


def _holds_focus(pane: QWidget) -> bool:
    focus = pane.window().focusWidget()
    return focus is not None and (focus is pane or pane.isAncestorOf(focus))


def _entrance(pane: QWidget) -> QWidget | None:
    """What is worked with first in it: what stands for it, itself, or the first thing inside that Tab would reach."""
    if pane.focusProxy() is not None:
        return pane.focusProxy()
    if pane.focusPolicy() & Qt.FocusPolicy.TabFocus:
        return pane
    inside = (each for each in pane.findChildren(QWidget) if each.isVisible() and each.isEnabled())
    return next((each for each in inside if each.focusPolicy() & Qt.FocusPolicy.TabFocus), None)


_FIELDS = (QLineEdit, QPlainTextEdit, QTextEdit)


class ShortcutGuard(QObject):
    """Keeps the shortcuts of some actions for the windows that have these, whichever of their fields has the focus."""

    def __init__(self, actions: tuple[QAction, ...], window: QWidget) -> None:
        super().__init__(window)
        self._actions = actions
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Qt asks the field first whether it wants a key: of ours it is not asked, so that the shortcut gets it."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            keys = QKeySequence(event.keyCombination())
            if any(action.shortcut() == keys for action in self._actions):
                event.ignore()
                return True
        return super().eventFilter(watched, event)

    def _on_focus_changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        if isinstance(new, _FIELDS) and any(action in new.window().actions() for action in self._actions):
            new.installEventFilter(self)  # a second time is the same as once


_CLOSE = "close-dialog"


class DialogShortcuts(QObject):
    """Gives dialogs that stay open beside the windows the commands that work everywhere, of the window in front.

    What closes a window closes such a dialog, too. A dialog that a window waits for gets none: it is to be answered.
    """

    def __init__(self, front: Callable[[], Actions], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._front = front
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusWindowChanged.connect(self._on_focus_window_changed)

    def _on_focus_window_changed(self) -> None:
        dialog = QApplication.activeWindow()
        if not isinstance(dialog, QDialog) or dialog.isModal():
            return
        actions = self._front()
        if dialog.findChild(QShortcut, _CLOSE) is None:
            close = QShortcut(actions.close_window.shortcut(), dialog, dialog.close)
            close.setObjectName(_CLOSE)
        held = dialog.actions()
        for other in held:
            if other not in actions.everywhere:
                dialog.removeAction(other)
        dialog.addActions([each for each in actions.everywhere if each not in held])
