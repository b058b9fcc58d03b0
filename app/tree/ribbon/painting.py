"""Paints the columns of the ribbon: tokens above a line, time below it, the budget across."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLine, QPointF, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPolygonF

from app.tree.ribbon.columns import Columns
from app.ui.colors import TreeColors

_LEAST_SCALE = 4  # tokens that the full height stands for at least: two tokens do not look like the most there can be
_LEAST_BUDGET = 64  # that the height stands for at least, on a logarithmic scale
_LEAST_BRICK = 4  # logical pixels: tokens this high can be counted
_GAPPED = 4  # columns as wide as this have a gap between them
_SHADE, _HOVER = 14, 40  # opacity of 255: of every other answer, of what is pointed at
_UNREAD = 3  # logical pixels: the height of a round that was not read yet
_MARK = 5.0  # half the width of the sign above the column that is looked at


class Areas:
    """Where things are, in logical pixels: `tokens` stands on the line `axis`, `seconds` hangs below it."""

    def __init__(self, left: int, top: int, width: int, height: int) -> None:
        self.tokens = QRect(left, top + round(_MARK) + 1, width, height * 2 // 3 - round(_MARK) - 1)
        self.axis = self.tokens.bottom() + 1
        self.seconds = QRect(left, self.axis + 2, width, height - height * 2 // 3 - 3)
        self.whole = QRect(left, top, width, height)


def paint_columns(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors) -> None:
    """All but what is pointed at or looked at."""
    _paint_answers(painter, columns, areas, colors)
    scale = max(_LEAST_SCALE, int(columns.most.max()))
    _paint_tokens(painter, columns, areas, colors, scale)
    painter.setPen(QColor(colors.muted))
    painter.drawLine(areas.whole.left(), areas.axis, areas.whole.left() + int(columns.edges[-1]) - 1, areas.axis)
    _paint_seconds(painter, columns, areas, colors)
    _paint_budget(painter, columns, areas, colors)


def paint_column_mark(painter: QPainter, column: QRect, colors: TreeColors, *, is_looked_at: bool) -> None:
    """Behind the columns: what is pointed at, or what is looked at, which has a sign of its own in front."""
    tint = QColor(colors.root.line if is_looked_at else colors.muted)
    tint.setAlpha(_HOVER)
    painter.fillRect(column, tint)


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


def _paint_answers(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors) -> None:
    """Every other answer is shaded, and a line stands where one begins."""
    begins = np.flatnonzero(columns.begins)
    if len(begins) < 2:
        return
    shade, left = QColor(colors.text), areas.whole.left()
    shade.setAlpha(_SHADE)
    edges = [*columns.edges[begins].tolist(), int(columns.edges[-1])]
    is_shaded = (columns.answers[begins] % 2 == 1).tolist()
    painter.setPen(QColor(colors.muted))
    for (begin, end), shaded in zip(pairwise(edges), is_shaded, strict=True):
        if shaded:
            painter.fillRect(left + begin, areas.whole.top(), end - begin, areas.whole.height(), shade)
    lines = [QLine(left + x, areas.whole.top(), left + x, areas.whole.bottom()) for x in edges[1:-1]]
    painter.drawLines(lines)


def _paint_tokens(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors, scale: int) -> None:
    unit = areas.tokens.height() / scale
    accepted = np.round(columns.accepted * unit).astype(np.intp)
    tokens = np.round(columns.tokens * unit).astype(np.intp)
    painter.setPen(Qt.PenStyle.NoPen)
    if columns.is_merged:
        _fill(painter, columns, areas, colors.accepted.fill, tokens, np.round(columns.most * unit).astype(np.intp))
    _fill(painter, columns, areas, colors.accepted.line, np.zeros_like(accepted), accepted)
    _fill(painter, columns, areas, colors.bonus.line, accepted, np.maximum(tokens, columns.is_known))
    unread = np.where(columns.is_unread, _UNREAD, 0)
    _fill(painter, columns, areas, colors.rejected[-1].line, np.zeros_like(unread), unread)
    if not columns.is_merged and unit >= _LEAST_BRICK:
        _cut(painter, columns, areas, colors, unit)


def _fill(
    painter: QPainter, columns: Columns, areas: Areas, colour: str, low: NDArray[np.intp], high: NDArray[np.intp]
) -> None:
    """A part of every column, from `low` to `high` logical pixels above the line."""
    shown = np.flatnonzero(high > low)
    if not len(shown):
        return
    painter.setBrush(QColor(colour))
    lefts, widths = _sides(columns)
    boxes = np.stack([areas.whole.left() + lefts, areas.axis - high, widths, high - low], 1)[shown]
    painter.drawRects([QRect(*box) for box in boxes.tolist()])


def _sides(columns: Columns) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where every column begins, and how wide it is without the gap behind it."""
    widths = np.diff(columns.edges)
    return columns.edges[:-1], widths - (widths >= _GAPPED)


def _cut(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors, unit: float) -> None:
    """Tokens stand on each other like bricks, to be counted; the joints are between them."""
    painter.setPen(QColor(colors.background))
    right = areas.whole.left() + int(columns.edges[-1]) - 1
    heights = {round(unit * token) for token in range(1, int(columns.most.max()))}
    painter.drawLines([QLine(areas.whole.left(), areas.axis - y, right, areas.axis - y) for y in sorted(heights)])
    painter.setPen(Qt.PenStyle.NoPen)


def _paint_seconds(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors) -> None:
    """Bars that hang from the line; the slowest round has the full length."""
    longest = float(columns.seconds.max())
    if longest <= 0:
        return
    lengths = np.ceil(columns.seconds / longest * areas.seconds.height()).astype(np.intp)
    shown = np.flatnonzero(lengths > 0)
    lefts, widths = _sides(columns)
    boxes = np.stack([areas.whole.left() + lefts, np.full_like(lefts, areas.seconds.top()), widths, lengths], 1)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colors.rejected[0].line))
    painter.drawRects([QRect(*box) for box in boxes[shown].tolist()])


def _paint_budget(painter: QPainter, columns: Columns, areas: Areas, colors: TreeColors) -> None:
    """A line of steps, on a logarithmic scale: from one token to a thousand, trees are of every size."""
    most = float(columns.budget.max())
    if most <= 0:
        return
    shares = np.log2(1 + columns.budget) / np.log2(1 + max(_LEAST_BUDGET, most))
    ys = (areas.axis - 1 - np.round(shares * (areas.tokens.height() - 2))).astype(np.intp).tolist()
    xs = (areas.whole.left() + columns.edges).tolist()
    known = columns.is_known
    lines = [QLine(xs[i], ys[i], xs[i + 1] - 1, ys[i]) for i in np.flatnonzero(known).tolist()]
    both = 1 + np.flatnonzero(known[1:] & known[:-1])
    lines += [QLine(xs[i], ys[i - 1], xs[i], ys[i]) for i in both.tolist() if ys[i] != ys[i - 1]]
    painter.setPen(QColor(colors.ramp[0].line))
    painter.drawLines(lines)
