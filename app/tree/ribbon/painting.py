"""Paints the columns of the ribbon: tokens above a line, time below it, the budget across.

All of it is one array of pixels: thousands of rounds cost no more than a few, and none is a call of a painter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPolygonF

from app.tree.ribbon.columns import Columns
from app.ui.colors import TreeColors

Pixels = NDArray[np.uint32]

_LEAST_SCALE = 4  # tokens that the full height stands for at least: two tokens do not look like the most there can be
_LEAST_BUDGET = 64  # that the height stands for at least, on a logarithmic scale
_LEAST_BRICK = 4  # logical pixels: tokens this high can be counted
_GAPPED = 4  # columns as wide as this have a gap between them
_SHADE, _MARKED = 0.09, 0.16  # opacity: of every other answer, of what is pointed at or looked at
_LEAST_BONUS = 2  # logical pixels: it is there in nearly every round, and is to be seen
_UNREAD = 3  # logical pixels: the height of a round that was not read yet
_MARK = 5  # half the width of the sign above the column that is looked at, and its height
_TOKENS_SHARE = 2 / 3  # of the height; below is what hangs from the line


@dataclass(frozen=True, slots=True)
class Marks:
    """Columns that stand out: the one that is looked at, and the one that is pointed at, if any is."""

    looked_at: int
    pointed_at: int | None = None


class _Canvas:
    """Pixels [height, width] that are filled column by column, all at once."""

    def __init__(self, columns: Columns, height: int, colors: TreeColors) -> None:
        self.columns, self.colors = columns, colors
        widths = np.diff(columns.edges)
        self.at = np.repeat(np.arange(len(columns)), widths)  # the column of every x
        self.pixels: Pixels = np.full((height, len(self.at)), _rgb(colors.background), np.uint32)
        self.axis = round(height * _TOKENS_SHARE)  # the row of the line
        self.room = self.axis - _MARK - 1  # above it, for tokens
        self.above = self.axis - np.arange(height)[:, None]  # of every row: 1 is the lowest above the line
        self.is_gap = np.zeros(len(self.at), np.bool_)
        self.is_gap[columns.edges[1:][widths >= _GAPPED] - 1] = True

    def bars(self, low: NDArray[np.intp], high: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which pixels belong to bars from `low` to `high` above the line; below 0 they hang from it."""
        found: NDArray[np.bool_] = (self.above > low[self.at]) & (self.above <= high[self.at]) & ~self.is_gap
        return found

    def fill(self, mask: NDArray[np.bool_], colour: str) -> None:
        """Give these pixels a colour."""
        self.pixels[mask] = _rgb(colour)

    def shade(self, columns: NDArray[np.bool_], colour: str, opacity: float) -> None:
        """Tint what stands behind some columns, from top to bottom."""
        self.pixels[:, columns[self.at]] = _mixed(self.colors.background, colour, opacity)


def column_pixels(columns: Columns, height: int, colors: TreeColors, marks: Marks) -> Pixels:
    """[height, width of all columns], as 0xffRRGGBB."""
    canvas = _Canvas(columns, height, colors)
    begins = np.flatnonzero(columns.begins)[1:]
    if len(begins):
        canvas.shade(columns.answers % 2 == 1, colors.text, _SHADE)
    marked = np.arange(len(columns))
    if marks.pointed_at is not None:
        canvas.shade(marked == marks.pointed_at, colors.muted, _MARKED)
    canvas.shade(marked == marks.looked_at, colors.root.line, 2 * _MARKED)
    _fill_tokens(canvas)
    _fill_seconds(canvas)
    canvas.pixels[canvas.axis] = _rgb(colors.muted)
    canvas.pixels[:, columns.edges[begins]] = _rgb(colors.muted)
    _fill_budget(canvas)
    return canvas.pixels


def paint_pixels(painter: QPainter, pixels: Pixels, left: int, top: int) -> None:
    """Put them on the screen, one for every logical pixel."""
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, 4 * width, QImage.Format.Format_RGB32)
    painter.drawImage(QRect(left, top, width, height), image)


def paint_place(painter: QPainter, column: QRect, colors: TreeColors) -> None:
    """In front of the columns: a sign above the one that is looked at, and lines at its sides."""
    ink = QColor(colors.text)
    painter.setPen(ink)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(column.adjusted(-1, 0, 0, -1))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(ink)
    middle, top = column.left() + column.width() / 2, float(column.top())
    sign = (QPointF(middle - _MARK, top), QPointF(middle + _MARK, top), QPointF(middle, top + _MARK + 1))
    painter.drawPolygon(QPolygonF(sign))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _fill_tokens(canvas: _Canvas) -> None:
    columns, colors = canvas.columns, canvas.colors
    unit = canvas.room / max(_LEAST_SCALE, int(columns.most.max()))
    accepted, tokens = _heights(columns.accepted * unit), _heights(columns.tokens * unit)
    tokens = np.maximum(tokens, accepted + np.where(columns.tokens > columns.accepted, _LEAST_BONUS, 0))
    ground = np.zeros_like(accepted)
    if columns.is_merged:
        canvas.fill(canvas.bars(tokens, _heights(columns.most * unit)), colors.accepted.fill)
    canvas.fill(canvas.bars(ground, accepted), colors.accepted.line)
    canvas.fill(canvas.bars(accepted, tokens), colors.bonus.line)
    canvas.fill(canvas.bars(ground, np.where(columns.is_unread, _UNREAD, 0)), colors.rejected[-1].line)
    if not columns.is_merged and unit >= _LEAST_BRICK:
        joints = [round(unit * token) + 1 for token in range(1, int(columns.most.max()))]
        canvas.fill(canvas.bars(ground, tokens) & np.isin(canvas.above, joints), colors.background)


def _fill_seconds(canvas: _Canvas) -> None:
    """Bars that hang from the line; the slowest round has the full length."""
    columns = canvas.columns
    longest, room = float(columns.seconds.max()), len(canvas.pixels) - canvas.axis - 2
    if longest > 0:
        lengths = np.ceil(columns.seconds / longest * room).astype(np.intp)
        canvas.fill(canvas.bars(-2 - lengths, np.full_like(lengths, -2)), canvas.colors.rejected[0].line)


def _fill_budget(canvas: _Canvas) -> None:
    """A line of steps, on a logarithmic scale: from one token to a thousand, trees are of every size."""
    columns = canvas.columns
    most = float(columns.budget.max())
    if most <= 0:
        return
    shares = np.log2(1 + columns.budget) / np.log2(1 + max(_LEAST_BUDGET, most))
    heights = 1 + _heights(shares * (canvas.room - 1))[canvas.at]
    known = columns.is_known[canvas.at]
    before = np.concatenate((heights[:1], heights[:-1]))
    before[1:] = np.where(known[:-1], before[1:], heights[1:])
    is_line = (canvas.above >= np.minimum(heights, before)) & (canvas.above <= np.maximum(heights, before)) & known
    canvas.fill(is_line, canvas.colors.ramp[0].line)


def _heights(pixels: NDArray[np.floating[Any]]) -> NDArray[np.intp]:
    return np.round(pixels).astype(np.intp)


def _rgb(colour: str) -> int:
    return 0xFF000000 | int(colour[1:], 16)


def _mixed(ground: str, colour: str, opacity: float) -> int:
    one, other = (np.array([int(each[begin : begin + 2], 16) for begin in (1, 3, 5)]) for each in (ground, colour))
    red, green, blue = np.round(one + (other - one) * opacity).astype(int).tolist()
    return int(0xFF000000 | red << 16 | green << 8 | blue)
