"""A line over time, painted in whole pixels: a tenth of the time of a path with a wide pen."""

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.telemetry.charts.legend import Mark


class LineItem(pg.GraphicsObject):  # type: ignore[misc]
    """`moments` and `values` [points]; as thick as it is to be, it is drawn so many times, a pixel apart."""

    def __init__(self) -> None:
        super().__init__()
        self._moments = self._values = np.zeros(0)
        self._room = QRectF()
        self._pen = QPen()
        self._thickness = 1

    def show_line(self, moments: NDArray[Any], values: NDArray[Any], room: QRectF) -> None:
        """Replace it; `room` is what is in view."""
        if room != self._room:
            self.prepareGeometryChange()
            self._room = room
        self._moments, self._values = moments, values
        self.update()

    def set_mark(self, mark: Mark) -> None:
        """Colour, width and style."""
        self._pen = QPen(QColor(mark.color), 1, mark.line)
        self._pen.setCosmetic(True)
        self._thickness = max(1, round(mark.width))
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """All that is in view."""
        return self._room

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Points that fall on the same pixel are one."""
        if not len(self._moments):
            return
        view = painter.transform()
        x = np.floor(view.m11() * self._moments + view.dx()) + 0.5
        y = np.floor(view.m22() * self._values + view.dy()) + 0.5
        painter.save()
        painter.resetTransform()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self._pen)
        for lower in range(self._thickness):
            painter.drawPolyline(pg.functions.arrayToQPolygonF(x, y - lower))
        painter.restore()
