"""What is written into a picture's file: a subject, as wide as it is wanted, with a caption and a background."""

import math
from dataclasses import dataclass, field

from PySide6.QtCore import QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from app.tree.exports.pictures.subjects import Subject
from app.ui.colors import TreeColors

_MARGIN = 8.0
_LARGEST_SCALE = 1.6  # of a subject: a tree of three nodes need not fill a page
_WRAPPED = Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop


@dataclass(frozen=True)
class Sheet:
    """`width` is in logical pixels, of which an inch has 96; an empty caption takes no room.

    `tallest`: how many times as high as it is wide the picture may be; a higher one is made smaller.
    """

    subject: Subject
    colors: TreeColors
    width: float
    font: QFont
    caption: str = ""
    is_transparent: bool = False
    tallest: float = math.inf
    size: QSizeF = field(init=False)
    """In logical pixels."""

    def __post_init__(self) -> None:
        height = self._picture.height() + 2 * _MARGIN
        if self.caption:
            height += self._caption_height + _MARGIN
        object.__setattr__(self, "size", QSizeF(self.width, math.ceil(height)))

    @property
    def ratio(self) -> float:
        """Of the height to the width."""
        return self.size.height() / self.size.width()

    def paint(self, painter: QPainter) -> None:
        """From (0, 0) on."""
        painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.is_transparent:
            painter.fillRect(QRectF(0, 0, self.size.width(), self.size.height()), QColor(self.colors.background))
        place = self._picture
        painter.save()
        painter.translate(place.topLeft())
        painter.scale(self._scale, self._scale)
        self.subject.paint(painter, self.colors)
        painter.restore()
        if self.caption:
            painter.setPen(QColor(self.colors.muted))
            painter.setFont(self.font)
            painter.drawText(self._below(place, self._caption_height), _WRAPPED, self.caption)

    @property
    def _scale(self) -> float:
        width, height = self.subject.size
        return min((self.width - 2 * _MARGIN) / width, self.tallest * self.width / height, _LARGEST_SCALE)

    @property
    def _picture(self) -> QRectF:
        """In the middle, where it is narrower than the sheet."""
        width, height = (self._scale * side for side in self.subject.size)
        return QRectF((self.width - width) / 2, _MARGIN, width, height)

    @property
    def _caption_height(self) -> float:
        everything = QRectF(0, 0, self.width - 2 * _MARGIN, 1e6)
        return math.ceil(QFontMetricsF(self.font).boundingRect(everything, _WRAPPED, self.caption).height())

    def _below(self, place: QRectF, height: float) -> QRectF:
        return QRectF(_MARGIN, place.bottom() + _MARGIN, self.width - 2 * _MARGIN, height)
