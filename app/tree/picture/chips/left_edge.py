"""The left edge of a view that follows the path: chips are whole there or left out, and a sign tells how many are."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter

from app.i18n.number_text import Number
from app.i18n.translation import tr
from app.tree.picture.lettering import Lettering
from app.tree.picture.picture import MARGIN, Picture, Point
from app.tree.picture.styles import PATH_STYLES
from app.ui.colors import TreeColors


@dataclass(frozen=True, slots=True)
class LeftClip:
    """Where chips are left out rather than cut: those that begin left of `left`, those of the accepted path that begin
    left of `path_left`, and those that touch `patch`; all in the units of the drawing.
    """

    left: float
    path_left: float
    patch: QRectF

    def takes(self, style: int, chip: QRectF) -> bool:
        """Whether a chip is left out."""
        left = self.path_left if style in PATH_STYLES else self.left
        return chip.x() < left or chip.intersects(self.patch)


@dataclass(frozen=True, slots=True)
class Marker:
    """`patch` hides what lies below; it and `start`, of the text on its baseline, are points of the view."""

    hidden: int
    patch: QRectF
    text: str
    start: QPointF

    @property
    def definition(self) -> str:
        """What the sign says."""
        one, more = (
            tr("The path begins 1 token to the left: drag, or press Home"),
            tr("The path begins {count} tokens to the left: drag, or press Home"),
        )
        return (one if self.hidden == 1 else more).format(count=f"{Number(self.hidden):,}")


def marker(picture: Picture, origin: Point, letters: Lettering) -> Marker | None:
    """The sign for a view that begins at `origin`; None where the root is in view, or no room for a sign.

    It stands in the row of the first token that is shown, or at the view's edge that is nearest to that row.
    """
    hidden = picture.hidden(origin)
    if not hidden or not picture.has_lead:
        return None
    path = picture.path
    chip = picture.chip(path[min(hidden, len(path) - 1)])
    text = tr("‹ {count} more").format(count=hidden if hidden <= 99 else "99+")
    y = max(0.0, min(picture.view.height - chip.height, chip.y - origin.y))
    patch = QRectF(0, y - 1, MARGIN + letters.small_width(text) + 2, chip.height + 2)  # the outline of a chip, too
    return Marker(hidden, patch, text, QPointF(MARGIN, round(y + chip.height / 2 + letters.small_baseline)))


def paint_marker(painter: QPainter, sign: Marker, colors: TreeColors, letters: Lettering) -> None:
    """Paint in the coordinates of the view."""
    painter.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
    painter.fillRect(sign.patch, QColor(colors.background))
    painter.setPen(QColor(colors.muted))
    painter.setFont(letters.small)
    painter.drawText(sign.start, sign.text)
