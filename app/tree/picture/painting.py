"""Painting a graphics item elsewhere than in its scene: on pictures and pages."""

from typing import Protocol

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyleOptionGraphicsItem


class Painted(Protocol):
    """What of a graphics item is needed for that."""

    def scale(self) -> float:
        """How much larger it is shown than it is painted."""

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem) -> None:
        """Paint it, in its own coordinates."""


def paint_item(painter: QPainter, item: Painted, part: QRectF) -> None:
    """Paint a part of an item, given in logical pixels of its picture; the part's top left corner comes to (0, 0)."""
    scale = item.scale()
    option = QStyleOptionGraphicsItem()
    option.exposedRect = QRectF(part.x() / scale, part.y() / scale, part.width() / scale, part.height() / scale)
    painter.save()
    painter.translate(-part.topLeft())
    painter.scale(scale, scale)
    item.paint(painter, option)
    painter.restore()
