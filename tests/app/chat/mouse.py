"""A mouse whose button is held and let go as events: wherever a text has been scrolled to, and nothing stays held."""

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from app.chat.text.message_text import MessageText

INSIDE = QPoint(5, 5)


def hold(text: MessageText, place: QPoint = INSIDE) -> None:
    """Press the left button."""
    _send(text, QEvent.Type.MouseButtonPress, place, Qt.MouseButton.LeftButton, Qt.MouseButton.LeftButton)


def drag(text: MessageText, place: QPoint) -> None:
    """Move with the button held."""
    _send(text, QEvent.Type.MouseMove, place, Qt.MouseButton.NoButton, Qt.MouseButton.LeftButton)


def release(text: MessageText) -> None:
    """Let go."""
    _send(text, QEvent.Type.MouseButtonRelease, INSIDE, Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton)


def _send(text: MessageText, kind: QEvent.Type, place: QPoint, button: Qt.MouseButton, held: Qt.MouseButton) -> None:
    at = QPointF(place)
    world = text.viewport().mapToGlobal(at)
    event = QMouseEvent(kind, at, world, button, held, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(text.viewport(), event)
