"""Selecting text across messages with mouse and keys, and copying all of it in order."""

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QMouseEvent, QTextCursor
from PySide6.QtWidgets import QMenu, QScrollArea, QToolButton

from app.chat.history.answer_parts import answer_text
from app.chat.history.message import Message
from app.chat.text.message_text import MessageText
from app.system.plain_text import tip
from app.ui.throttle import FRAME_MS

_MOVES = QTextCursor.MoveOperation
_KEEP = QTextCursor.MoveMode.KeepAnchor

_MOST_PIXELS = 60  # pixels a frame


class Selectable(Protocol):
    """A message whose text can be selected."""

    @property
    def texts(self) -> list[MessageText]:
        """The parts of its text that exist, from top to bottom."""

    @property
    def tools(self) -> Sequence[QToolButton]:
        """The buttons that do something with it, those that can be seen."""

    @property
    def selection(self) -> str:
        """What of it is selected, as it is copied."""

    @property
    def is_selected(self) -> bool:
        """Whether all of it is selected."""

    def select_all(self) -> None:
        """Select all of its text, the parts too that do not exist yet."""

    def clear_selection(self) -> None:
        """Select nothing of it."""


class Messages(Protocol):
    """All messages, of which only those near the reader exist as views."""

    messages: list[Message]

    def view(self, index: int) -> Selectable | None:
        """The view of message number `index`, if it exists."""


class MessageSelection(QObject):
    """What is selected of a conversation: by the mouse from message to message, or everything by a key.

    Selecting everything selects the message, and where all of that is selected already, the conversation.
    """

    dragged = Signal(QPoint)  # the mouse, on the screen, while it selects
    released = Signal()

    def __init__(self, column: Messages, parent: QObject) -> None:
        super().__init__(parent)
        self._column = column
        self._origin: MessageText | None = None
        self.is_everything = False

    def watch(self, text: MessageText) -> None:
        """Take this part of a message's text into account."""
        text.viewport().installEventFilter(self)
        text.copy_requested.connect(self.copy)
        text.select_all_requested.connect(lambda: self._on_select_all(text))
        text.menu_opened.connect(lambda menu: self._on_menu(text, menu))

    def adopt(self, view: Selectable) -> None:
        """A message has come near."""
        for text in view.texts:
            self.watch(text)
        if self.is_everything:
            view.select_all()

    @property
    def text(self) -> str:
        """All that is selected; messages that do not exist as views, or that came to be later, as they were written."""
        views = {index: view for index, view in self._existing() if view.selection}
        indices = range(min(views, default=0), max(views, default=-1) + 1)
        if self.is_everything:
            views, indices = {}, range(len(self._column.messages))
        parts = (views[index].selection if index in views else self._written(index) for index in indices)
        return "\n\n".join(part for part in parts if part)

    def copy(self) -> None:
        """Put all that is selected on the clipboard."""
        if selected := self.text:
            QGuiApplication.clipboard().setText(selected)

    def select_everything(self) -> None:
        """Select the whole conversation."""
        self.is_everything = True
        for _, view in self._existing():
            view.select_all()

    def clear(self) -> None:
        """Select nothing."""
        self._clear_others(None)

    @property
    def can_extend(self) -> bool:
        """Whether the text is still there in which the selection began."""
        return self._origin in self._texts()

    def extend(self, mouse: QPoint) -> None:
        """Select from where the selection began to the mouse."""
        self._extend(mouse)

    def _on_menu(self, text: MessageText, menu: QMenu) -> None:
        """What the buttons of the message do is in its menu, too."""
        view = self._view_of(text)
        if view is not None:
            menu.addSeparator()
            for tool in view.tools:
                action = menu.addAction(tool.accessibleName(), tool.click)
                action.setEnabled(tool.isEnabled())
                action.setToolTip(tip(tool.toolTip()))
            menu.setToolTipsVisible(not all(each.isEnabled() for each in view.tools))

    def _view_of(self, text: MessageText) -> Selectable | None:
        return next((view for _, view in self._existing() if text in view.texts), None)

    def _on_select_all(self, text: MessageText) -> None:
        view = self._view_of(text)
        if view is None or view.is_selected:
            self.select_everything()
        else:
            self._clear_others(None)
            view.select_all()

    def _existing(self) -> list[tuple[int, Selectable]]:
        found = ((index, self._column.view(index)) for index in range(len(self._column.messages)))
        return [(index, view) for index, view in found if view is not None]

    def _written(self, index: int) -> str:
        return said(self._column.messages[index]).strip()

    def _clear_others(self, kept: QObject | None) -> None:
        self.is_everything = False
        for _, view in self._existing():
            if kept in view.texts and not view.is_selected:
                for each in view.texts:
                    if each is not kept:
                        each.clear_selection()
            else:
                view.clear_selection()

    def _texts(self) -> list[MessageText]:
        return [text for _, view in self._existing() for text in view.texts]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Follow the mouse; a message keeps its own events as long as the mouse is over it."""
        if not isinstance(event, QMouseEvent):
            return False
        text = watched.parent()
        if event.type() == QEvent.Type.MouseButtonPress and event.button() == Qt.MouseButton.LeftButton:
            self._begin(text)
        elif event.type() == QEvent.Type.MouseMove and event.buttons() & Qt.MouseButton.LeftButton:
            self.dragged.emit(event.globalPosition().toPoint())
            return self._extend(event.globalPosition().toPoint())
        elif event.type() == QEvent.Type.MouseButtonRelease:
            self.released.emit()
        return False

    def _begin(self, text: QObject | None) -> None:
        self._origin = text if isinstance(text, MessageText) else None
        self._clear_others(text)

    def _extend(self, mouse: QPoint) -> bool:
        """Select from where the selection began to the mouse; True if the mouse is over another message."""
        texts = self._texts()
        if self._origin not in texts:
            return False
        start = texts.index(self._origin)
        target = _nearest(texts, mouse)
        for index, each in enumerate(texts):
            if not min(start, target) <= index <= max(start, target) and index != start:
                each.clear_selection()
        if target == start:
            return False
        down = target > start
        for index in range(min(start, target) + 1, max(start, target)):
            texts[index].selectAll()
        _reach(texts[start], down)
        _select_to(texts[target], mouse, down)
        return True


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


class DragScroll(QObject):
    """Scrolls on while the mouse selects beyond the edge: the farther outside, the faster."""

    def __init__(self, area: QScrollArea, selection: MessageSelection) -> None:
        super().__init__(area)
        self._area = area
        self._selection = selection
        self._mouse = QPoint()
        self._timer = QTimer(self, interval=FRAME_MS)
        self._timer.timeout.connect(self._scroll)
        selection.dragged.connect(self._on_dragged)
        selection.released.connect(self._timer.stop)

    def _on_dragged(self, mouse: QPoint) -> None:
        self._mouse = mouse
        if not self._step:
            self._timer.stop()
        elif not self._timer.isActive():
            self._timer.start()

    @property
    def _step(self) -> int:
        """How many pixels to go down in a frame; 0 while the mouse is inside."""
        viewport = self._area.viewport()
        place = viewport.mapFromGlobal(self._mouse).y()
        return max(-_MOST_PIXELS, min(place, 0)) or min(_MOST_PIXELS, max(0, place - viewport.height()))

    def _scroll(self) -> None:
        if not self._selection.can_extend:  # nobody will tell of the mouse's release
            self._timer.stop()
            return
        bar = self._area.verticalScrollBar()
        bar.setValue(bar.value() + self._step)
        self._selection.extend(self._mouse)


def said(message: Message) -> str:
    """What a message says, as a person copies it: an answer without the thinking, a question without its files."""
    return answer_text(message.text, message.calls) if message.role == "assistant" else message.text
