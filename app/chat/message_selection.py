"""Selecting text across messages with the mouse, and copying all of it in order."""

from collections.abc import Callable, Sequence
from typing import Protocol

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent, QTextCursor

from app.chat.message_text import MessageText

_MOVES = QTextCursor.MoveOperation
_KEEP = QTextCursor.MoveMode.KeepAnchor


class Selectable(Protocol):
    """A message whose text can be selected."""

    @property
    def texts(self) -> list[MessageText]:
        """The parts of its text that exist, from top to bottom."""

    @property
    def selection(self) -> str:
        """What of it is selected, as it is copied."""


class MessageSelection(QObject):
    """Extends a selection that leaves its message to the messages that the mouse comes to."""

    def __init__(self, messages: Callable[[], Sequence[Selectable]], parent: QObject) -> None:
        """`messages`: those that exist, from top to bottom."""
        super().__init__(parent)
        self._messages = messages
        self._origin: MessageText | None = None

    def watch(self, text: MessageText) -> None:
        """Take this message's text into account."""
        text.viewport().installEventFilter(self)
        text.copy_requested.connect(self.copy)

    @property
    def text(self) -> str:
        """All that is selected."""
        return "\n\n".join(selected for each in self._messages() if (selected := each.selection))

    def copy(self) -> None:
        """Put all that is selected on the clipboard."""
        if selected := self.text:
            QGuiApplication.clipboard().setText(selected)

    def _texts(self) -> list[MessageText]:
        return [text for each in self._messages() for text in each.texts]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the mouse; a message keeps its own events as long as the mouse is over it."""
        if not isinstance(event, QMouseEvent):
            return False
        text = watched.parent()
        if event.type() == QEvent.Type.MouseButtonPress and event.button() == Qt.MouseButton.LeftButton:
            self._begin(text)
        elif event.type() == QEvent.Type.MouseMove and event.buttons() & Qt.MouseButton.LeftButton:
            return self._extend(event.globalPosition().toPoint())
        return False

    def _begin(self, text: QObject | None) -> None:
        self._origin = text if isinstance(text, MessageText) else None
        for each in self._texts():
            if each is not text:
                _clear(each)

    def _extend(self, mouse: QPoint) -> bool:
        """Select from where the selection began to the mouse; True if the mouse is over another message."""
        texts = self._texts()
        if self._origin not in texts:
            return False
        start = texts.index(self._origin)
        target = _nearest(texts, mouse)
        for index, each in enumerate(texts):
            if not min(start, target) <= index <= max(start, target) and index != start:
                _clear(each)
        if target == start:
            return False
        down = target > start
        for index in range(min(start, target) + 1, max(start, target)):
            texts[index].selectAll()
        _reach(texts[start], down)
        _select_to(texts[target], mouse, down)
        return True


def _clear(text: MessageText) -> None:
    cursor = text.textCursor()
    if cursor.hasSelection():
        cursor.clearSelection()
        text.setTextCursor(cursor)


def _nearest(texts: Sequence[MessageText], mouse: QPoint) -> int:
    """The last message that begins above the mouse."""
    above = [index for index, each in enumerate(texts) if each.mapToGlobal(QPoint(0, 0)).y() <= mouse.y()]
    return above[-1] if above else 0


def _reach(text: MessageText, down: bool) -> None:
    """Extend the selection that began in this message to its end, or its beginning."""
    cursor = text.textCursor()
    cursor.movePosition(_MOVES.End if down else _MOVES.Start, _KEEP)
    text.setTextCursor(cursor)


def _select_to(text: MessageText, mouse: QPoint, down: bool) -> None:
    """Select this message from its beginning to the mouse, or from its end."""
    place = text.cursorForPosition(text.viewport().mapFromGlobal(mouse)).position()
    cursor = text.textCursor()
    cursor.movePosition(_MOVES.Start if down else _MOVES.End)
    cursor.setPosition(place, _KEEP)
    text.setTextCursor(cursor)
