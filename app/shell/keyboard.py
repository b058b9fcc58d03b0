"""Ways through the window without a mouse: F6 goes from one part to the next.

And shortcuts of the window that text fields would take for themselves: Ctrl+K deletes the end of a line on Linux.
"""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget


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
    """Keeps the shortcuts of some actions for their window, whichever of its fields has the focus."""

    def __init__(self, actions: tuple[QAction, ...], window: QWidget) -> None:
        super().__init__(window)
        self._actions = actions
        self._window = window
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
        if isinstance(new, _FIELDS) and self._window.isAncestorOf(new):
            new.installEventFilter(self)  # a second time is the same as once
