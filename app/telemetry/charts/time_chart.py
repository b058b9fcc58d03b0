"""A chart over time: shares its time and its crosshair with all others, and takes wheel, drag, click and arrow keys."""

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QWheelEvent

from app.telemetry.charts.chart import Chart, Words, time_step
from app.telemetry.charts.legend import Entry
from app.telemetry.charts.scope import Scope
from app.telemetry.figures.history import Rows
from app.telemetry.figures.numbers import clocks
from app.ui.colors import Colors

_ZOOM_STEP = 1.25
_WHEEL_NOTCH = 120  # eighths of a degree
_CLICK = 4  # pixels that a hand may slip between press and release
_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -20, Qt.Key.Key_PageDown: 20}


class TimeChart(Chart):
    """What it draws and reads is for its kinds to say."""

    def __init__(self, scope: Scope, words: Words) -> None:
        super().__init__(words, clocks, time_step)
        self._scope = scope
        self._grip: QPointF | None = None
        self._slipped = False
        self._cross = pg.InfiniteLine(angle=90)
        self._cross.setZValue(10)
        self._cross.hide()
        self.draw(self._cross)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.CrossCursor)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        self._cross.setPen(pg.mkPen(QColor(colors.text), width=1))

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view; False if there is nothing to draw."""
        raise NotImplementedError

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The values of one of the rows that were drawn last."""
        raise NotImplementedError

    def show_cross(self, row: Any | None) -> None:
        """Mark one round; None for none."""
        self._cross.setVisible(row is not None)
        if row is not None:
            self._cross.setPos(row["begin"] + row["seconds"] / 2)

    @property
    def groups(self) -> int:
        """How many things can be told apart across."""
        return max(40, int(self.width()) // 2)

    # ---- what the person does ----------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        """Zoom at the pointer with Control; otherwise the panel scrolls."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._scope.zoom(_ZOOM_STEP ** (event.angleDelta().y() / _WHEEL_NOTCH), self._seconds(event.position()))
            event.accept()
        else:
            event.ignore()

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Begin to drag, or to click."""
        self.setFocus()
        if event.button() == Qt.MouseButton.LeftButton:
            self._grip, self._slipped = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Drag the time along, or point at a round."""
        if self._grip is None:
            self._scope.point(self._seconds(event.position()))
        elif self._slipped or abs(event.position().x() - self._grip.x()) > _CLICK:
            self._slipped = True
            self._scope.pan(self._seconds(self._grip) - self._seconds(event.position()))
            self._grip = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Choose the round where the mouse was pressed."""
        if event.button() == Qt.MouseButton.LeftButton and self._grip is not None:
            if not self._slipped:
                self._scope.point(self._seconds(event.position()))
                self._scope.choose()
            self._grip = None

    def mouseDoubleClickEvent(self, _event: QMouseEvent) -> None:  # noqa: N802
        """Show everything."""
        self._scope.show_all()

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802
        """Point at nothing any more."""
        super().leaveEvent(event)
        self._scope.point(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Left and right go from round to round, Return chooses, + and - zoom, Home shows everything."""
        key = Qt.Key(event.key())
        if key in _STEPS:
            self._scope.step(_STEPS[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._scope.choose()
        elif key == Qt.Key.Key_Home:
            self._scope.show_all()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus):
            middle = sum(self._scope.span) / 2
            self._scope.zoom(_ZOOM_STEP if key == Qt.Key.Key_Plus else 1 / _ZOOM_STEP, middle)
        else:
            event.ignore()

    def _seconds(self, position: QPointF) -> float:
        scene = self.mapToScene(position.toPoint())
        return float(self.view_box.mapSceneToView(scene).x())
