"""The left edge of a view that goes by itself: chips are shown whole there, or not at all."""

from dataclasses import dataclass

from PySide6.QtCore import QRectF

from app.tree.picture.inks import PATH_STYLES


@dataclass(frozen=True, slots=True)
class Brink:
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
