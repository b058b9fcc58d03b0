"""Gives docks back what a narrow window took from them: Qt leaves them as narrow as they once had to be."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow


class DockWidths(QObject):
    """Knows how wide a person has the docks at the sides: as wide as they were laid out, or dragged since."""

    def __init__(self, window: QMainWindow, docks: Sequence[QDockWidget]) -> None:
        super().__init__(window)
        self._window = window
        self._docks = docks
        self._wanted: dict[QDockWidget, int] = {}
        self._before: dict[QDockWidget, int] = {}  # when a button of the mouse went down
        window.installEventFilter(self)

    def lay_out(self, *widths: int) -> None:
        """Make every dock so wide, in pixels."""
        self._wanted = dict(zip(self._docks, widths, strict=True))
        self._window.resizeDocks(self._docks, widths, Qt.Orientation.Horizontal)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """The window has another size by now, or what is between its docks was dragged."""
        if event.type() == QEvent.Type.Resize:
            self._give_back()
        elif event.type() == QEvent.Type.MouseButtonPress:
            self._before = self._now()
        elif event.type() == QEvent.Type.MouseButtonRelease:
            now = self._now()
            self._wanted.update(
                {each: now[each] for each, width in self._before.items() if now.get(each, width) != width}
            )
        return False

    def _now(self) -> dict[QDockWidget, int]:
        return {each: each.width() for each in self._docks if each.isVisible() and not each.isFloating()}

    def _give_back(self) -> None:
        now = self._now()
        narrow = [each for each, width in now.items() if width < self._wanted.setdefault(each, width)]
        if narrow:
            widths = [self._wanted[each] for each in narrow]
            self._window.resizeDocks(narrow, widths, Qt.Orientation.Horizontal)
