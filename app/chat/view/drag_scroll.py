"""Scrolls on while text is selected beyond the edge of what can be seen."""

from PySide6.QtCore import QObject, QPoint, QTimer
from PySide6.QtWidgets import QScrollArea

from app.chat.view.message_selection import MessageSelection
from app.ui.throttle import FRAME_MS

_MOST = 60  # pixels a frame


class DragScroll(QObject):
    """The farther the mouse is outside, the faster; the selection follows."""

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
        return max(-_MOST, min(place, 0)) or min(_MOST, max(0, place - viewport.height()))

    def _scroll(self) -> None:
        if not self._selection.can_extend:  # nobody will tell of the mouse's release
            self._timer.stop()
            return
        bar = self._area.verticalScrollBar()
        bar.setValue(bar.value() + self._step)
        self._selection.extend(self._mouse)
