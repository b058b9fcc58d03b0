"""Tooltips that a graphics view shows by itself, and at once: Qt must not take them away."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QWidget


class _Silence(QObject):
    """Asked for a tooltip when the mouse has rested for a moment, the scene would find none, and hide the one shown."""

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Only this question is kept away."""
        return event.type() == QEvent.Type.ToolTip


def keep_tips(viewport: QWidget) -> None:
    """What is shown while the mouse rests in this viewport stays until it moves on."""
    viewport.installEventFilter(_Silence(viewport))
