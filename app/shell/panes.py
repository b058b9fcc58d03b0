"""F6: from one part of the window to the next, for who has no mouse."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QWidget


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
