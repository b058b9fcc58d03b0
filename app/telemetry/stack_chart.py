"""Where the time of every round went, as columns of parts."""

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPixmap
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.telemetry.axis import round_top
from app.telemetry.downsample import in_span, keep_greatest
from app.telemetry.history import PARTS, ROW, Rows
from app.telemetry.legend import Entry, Mark
from app.telemetry.numbers import milliseconds
from app.telemetry.palette import Palette
from app.telemetry.scope import Scope
from app.telemetry.time_chart import TimeChart

_NAMES = ("draft", "hidden draft", "stream wait", "compute", "other")
_ORDER = (3, 2, 1, 0, 4)  # from the bottom: the target's pass first, with what happens inside it
_BRUSHES = {"hidden draft": Qt.BrushStyle.Dense4Pattern, "stream wait": Qt.BrushStyle.BDiagPattern}
_WIDEST = "999 ms"
_TINT = 70  # of 255
_TILE = 8  # pixels, the period of Qt's patterns
_APART_FROM = 4  # pixels of a column


class StackItem(pg.GraphicsObject):  # type: ignore[misc]
    """Paints columns: `edges` [columns, 2] in seconds of time, `levels` [parts + 1, columns] in seconds upwards."""

    def __init__(self) -> None:
        super().__init__()
        self._edges = np.zeros((0, 2))
        self._levels = np.zeros((1, 0))
        self._brushes: tuple[QBrush, ...] = ()

    def show_columns(self, edges: NDArray[Any], levels: NDArray[Any]) -> None:
        """Replace them."""
        self.prepareGeometryChange()
        self._edges, self._levels = edges, levels
        self.update()

    def set_marks(self, marks: tuple[Mark, ...], background: str) -> None:
        """Colour and pattern of each part, lowest first."""
        self._brushes = tuple(_texture(mark, background) for mark in marks)
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        """All columns."""
        if not len(self._edges):
            return QRectF()
        left, right = float(self._edges[0, 0]), float(self._edges[-1, 1])
        return QRectF(left, 0, right - left, float(self._levels[-1].max()))

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """In whole pixels: patterns are not stretched, and that is far faster than with fractions."""
        if not len(self._edges):
            return
        view = painter.transform()
        painter.save()
        painter.resetTransform()
        x = np.floor(view.m11() * self._edges + view.dx()).astype(int)
        y = np.round(view.m22() * self._levels + view.dy()).astype(int)
        apart = 1 if (x[:, 1] - x[:, 0]).min() > _APART_FROM else 0
        widths = np.maximum(x[:, 1] - x[:, 0] - apart, 1)
        painter.setPen(Qt.PenStyle.NoPen)
        for part, brush in enumerate(self._brushes):
            columns = np.stack((x[:, 0], y[part + 1], widths, y[part] - y[part + 1]), axis=1)
            painter.setBrush(brush)
            painter.drawRects([QRect(*column) for column in columns[columns[:, 3] > 0].tolist()])
        painter.restore()


def _texture(mark: Mark, background: str) -> QBrush:
    """A tile of the pattern on a tint of its colour: far faster to paint than a pattern of Qt's own."""
    if mark.brush in (None, Qt.BrushStyle.SolidPattern):
        return QBrush(QColor(mark.color))
    tile = QPixmap(_TILE, _TILE)
    tile.fill(QColor(background))
    painter = QPainter(tile)
    tint = QColor(mark.color)
    tint.setAlpha(_TINT)
    painter.fillRect(tile.rect(), tint)
    painter.fillRect(tile.rect(), QBrush(QColor(mark.color), mark.brush))
    painter.end()
    return QBrush(tile)


class StackChart(TimeChart):
    """Columns as wide as their rounds took; where they are too many, the slowest of each group of neighbours."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(scope, milliseconds, parent)
        self._item = StackItem()
        self._rows: Rows = np.zeros(0, ROW)
        self._marks: tuple[Mark, ...] = ()
        self.addItem(self._item, ignoreBounds=True)

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""
        super().set_palette(palette)
        self._marks = tuple(
            Mark(name, getattr(palette, part), brush=_BRUSHES.get(name, Qt.BrushStyle.SolidPattern))
            for name, part in zip(_NAMES, PARTS, strict=True)
        )
        self._item.set_marks(tuple(self._marks[part] for part in _ORDER), palette.card)

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view."""
        self._rows = rows
        span = self._scope.span
        seen = rows[in_span(rows, span)]
        first, last, slowest = keep_greatest(seen["seconds"], self.groups // 2)
        ends = seen["begin"] + seen["seconds"]
        parts = np.stack([seen[PARTS[part]][slowest] for part in _ORDER])
        levels = np.concatenate((np.zeros((1, len(slowest))), np.cumsum(parts, axis=0)))
        self._item.show_columns(np.stack((seen["begin"][first], ends[last]), axis=1), levels)
        self.show_range(span, round_top(float(levels[-1].max())))
        return True

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The parts of one round, as they stand from the bottom."""
        values = (milliseconds(float(self._rows[PARTS[part]][row])) for part in _ORDER)
        marks = (self._marks[part] for part in _ORDER)
        return tuple(Entry(mark, value, _WIDEST) for mark, value in zip(marks, values, strict=True))
