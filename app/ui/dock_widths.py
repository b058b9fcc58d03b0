"""Takes room from docks where a window is narrow, and gives it back: Qt takes it from what is between them."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

_LEAST_WIDTH = 160  # pixels; narrower than that nobody is known to have wanted a dock
_BETWEEN = 480  # pixels that are left between them, as long as they can be narrower than wanted
_MOST_WIDTH = 10_000  # what a file of settings may ask for


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

    def expect(self, widths: Mapping[str, int]) -> None:
        """Take what was wanted in an earlier window, by the names of the docks, once its layout has been restored."""
        known = {each: widths.get(each.objectName(), 0) for each in self._docks}
        self._wanted = {each: width for each, width in known.items() if 0 < width <= _MOST_WIDTH}

    @property
    def wanted(self) -> dict[str, int]:
        """How wide a person has the docks, in pixels, by their names; without those that were never seen."""
        return {each.objectName(): width for each, width in self._wanted.items()}

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """The window is shown, or has another size by now, or what is between its docks was dragged."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
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
        for each, width in now.items():
            self._wanted.setdefault(each, max(width, _LEAST_WIDTH))
        whole = sum(self._wanted[each] for each in now)
        share = min(1.0, max(0, self._window.width() - _BETWEEN) / whole) if whole else 1.0
        widths = {each: max(1, round(self._wanted[each] * share)) for each in now}
        if widths != now:
            self._window.resizeDocks(list(widths), list(widths.values()), Qt.Orientation.Horizontal)
