"""Where the time of every round went, as columns of parts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.telemetry.charts.chart import Drawing, round_top
from app.telemetry.charts.legend import Entry, Mark
from app.telemetry.charts.scope import Scope, in_span, keep_greatest
from app.telemetry.charts.time_chart import TimeChart
from app.telemetry.figures.history import PARTS, ROW, Rows
from app.telemetry.figures.numbers import milliseconds
from app.ui.colors import Colors

_TINT = 70  # of 255
_TILE = 8  # pixels, the period of Qt's patterns
_APART_FROM = 4  # pixels of a column


class StackItem(Drawing):
    """Paints columns: `edges` [columns, 2] in seconds of time, `levels` [parts + 1, columns] in seconds upwards."""

    def __init__(self) -> None:
        super().__init__()
        self._edges = np.zeros((0, 2))
        self._levels = np.zeros((1, 0))
        self._tiles = np.zeros((1, _TILE, _TILE), np.uint32)

    def show_columns(self, edges: NDArray[Any], levels: NDArray[Any], room: QRectF) -> None:
        """Replace them; `room` is what is in view."""
        self._edges, self._levels = edges, levels
        self.show_in(room)

    def set_marks(self, marks: tuple[Mark, ...], background: str) -> None:
        """Colour and pattern of each part, lowest first."""
        ground = np.full((1, _TILE, _TILE), QColor(background).rgba(), np.uint32)
        self._tiles = np.concatenate([*(_tile(mark, background) for mark in marks), ground])
        self.update()

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """In whole pixels, so that patterns are not stretched."""
        view = painter.transform()
        corner = view.map(self._room.topLeft())
        size = view.mapRect(self._room).toAlignedRect().size()
        if not len(self._edges) or size.isEmpty() or len(self._tiles) < len(self._levels):
            return
        left, bottom = int(np.floor(corner.x())), int(np.round(view.dy()))
        x = np.floor(view.m11() * self._edges + view.dx()).astype(int) - left
        heights = np.round(-view.m22() * self._levels).astype(int)
        pixels = _pixels(x, heights, size.width(), size.height(), self._tiles)
        image = QImage(pixels.data, size.width(), size.height(), 4 * size.width(), QImage.Format.Format_RGB32)
        painter.save()
        painter.resetTransform()
        painter.drawImage(left, bottom - size.height(), image)
        painter.restore()


def _pixels(
    x: NDArray[Any], heights: NDArray[Any], width: int, height: int, tiles: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """The picture [height, width]. Columns `x` [columns, 2] from left to right, `heights` [parts + 1, columns]."""
    across, apart = np.arange(width), 1 if (x[:, 1] - x[:, 0]).min() > _APART_FROM else 0
    column = np.searchsorted(x[:, 0], across, "right") - 1
    ends = np.maximum(x[:, 1] - apart, x[:, 0] + 1)
    is_column = (column >= 0) & (across < ends[np.maximum(column, 0)])
    reached = (
        np.where(is_column, heights[1:, np.maximum(column, 0)], 0).clip(0, height).astype(np.int16)
    )  # [parts, width]
    up = np.arange(height, 0, -1, dtype=np.int16)[:, None]  # pixels above the ground
    part = np.zeros((height, width), np.uint8)
    for level in reached:  # above it, it is the next part
        part += (up > level).view(np.uint8)
    cell = part.astype(np.int32) * (_TILE * _TILE)
    cell += (np.arange(height, dtype=np.int32) % _TILE)[:, None] * _TILE + (across % _TILE).astype(np.int32)
    pixels: NDArray[np.uint32] = tiles.reshape(-1).take(cell)
    return pixels


def _tile(mark: Mark, background: str) -> NDArray[np.uint32]:
    """[1, 8, 8]: a pattern on a tint of its colour."""
    image = QImage(_TILE, _TILE, QImage.Format.Format_RGB32)
    image.fill(QColor(background))
    painter = QPainter(image)
    tint = QColor(mark.color)
    if mark.brush is not None and mark.brush != Qt.BrushStyle.SolidPattern:
        tint.setAlpha(_TINT)
        painter.fillRect(image.rect(), tint)
        painter.fillRect(image.rect(), QBrush(QColor(mark.color), mark.brush))
    else:
        painter.fillRect(image.rect(), tint)
    painter.end()
    return np.frombuffer(image.constBits(), np.uint32).reshape(1, _TILE, _TILE).copy()


_NAMES = (mark("draft"), mark("hidden draft"), mark("stream wait"), mark("compute"), mark("other"))
_ORDER = (3, 2, 1, 0, 4)  # from the bottom: the target's pass first, with what happens inside it
_BRUSHES = {"hidden draft": Qt.BrushStyle.Dense4Pattern, "stream wait": Qt.BrushStyle.BDiagPattern}
_WIDEST = "999 ms"


class StackChart(TimeChart):
    """Columns as wide as their rounds took; where they are too many, the slowest of each group of neighbours."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, milliseconds)
        self._item = StackItem()
        self._rows: Rows = np.zeros(0, ROW)
        self._marks: tuple[Mark, ...] = ()
        self.draw(self._item)

    def set_colors(self, colors: Colors) -> None:
        """Change the colours."""
        super().set_colors(colors)
        self._marks = tuple(
            Mark(tr(name), getattr(colors.charts, part), brush=_BRUSHES.get(name, Qt.BrushStyle.SolidPattern))
            for name, part in zip(_NAMES, PARTS, strict=True)
        )
        self._item.set_marks(tuple(self._marks[part] for part in _ORDER), colors.surface)

    def show_rows(self, rows: Rows) -> bool:
        """Draw those of at least one round that are in view."""
        self._rows = rows
        span = self._scope.span
        seen = rows[in_span(rows, span)]
        first, last, slowest = keep_greatest(seen["seconds"], self.groups // 2)
        ends = seen["begin"] + seen["seconds"]
        parts = np.stack([seen[PARTS[part]][slowest] for part in _ORDER])
        levels = np.concatenate((np.zeros((1, len(slowest))), np.cumsum(parts, axis=0)))
        room = self.show_range(span, round_top(float(levels[-1].max())))
        self._item.show_columns(np.stack((seen["begin"][first], ends[last]), axis=1), levels, room)
        return True

    def entries(self, row: int) -> tuple[Entry, ...]:
        """The parts of one round, as they stand from the bottom."""
        values = (milliseconds(float(self._rows[PARTS[part]][row])) for part in _ORDER)
        marks = (self._marks[part] for part in _ORDER)
        return tuple(Entry(mark, value, _WIDEST) for mark, value in zip(marks, values, strict=True))
