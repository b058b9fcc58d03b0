"""Which colours and lines a style has, in every way to show a tree."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPen

from app.tree.drawing import ACCEPTED, BONUS, ROOT
from app.tree.palette import EDGE_WIDTHS, Ink, Palette

_OUTLINES = {ROOT: 1.0, ACCEPTED: 1.6, BONUS: 1.6}  # logical pixels; drafted chips have no outline
_EDGES = {ROOT: 3.6, ACCEPTED: 3.6, BONUS: 2.2}
_MARK = 2.5

PATH_STYLES = frozenset(_EDGES)
"""Root, accepted and bonus: what is never left out."""

BOLD_STYLES = frozenset((ACCEPTED, BONUS))


def ink(palette: Palette, style: int) -> Ink:
    """The colours of a style."""
    return {ROOT: palette.root, ACCEPTED: palette.accepted, BONUS: palette.bonus}.get(style) or palette.ramp[style]


def edge(palette: Palette, style: int) -> QPen:
    """The line that leads to a chip."""
    return QPen(QColor(ink(palette, style).line), _EDGES.get(style) or EDGE_WIDTHS[style])


def outline(palette: Palette, style: int) -> QPen:
    """The line around a chip; the bonus token's is dashed."""
    if style not in _OUTLINES:
        return QPen(Qt.PenStyle.NoPen)
    pen = QPen(QColor(ink(palette, style).line), _OUTLINES[style])
    if style == BONUS:
        pen.setStyle(Qt.PenStyle.DashLine)
    return pen


def mark(palette: Palette) -> QPen:
    """The line around the chip that is being looked at."""
    return QPen(QColor(palette.text), _MARK)
