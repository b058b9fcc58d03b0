"""What a way to show a tree has to do; chips and icicle are siblings."""

from typing import Protocol

from PySide6.QtCore import QRectF

from app.tree.picture.brink import Brink
from app.tree.picture.grid import Size
from app.tree.picture.lettering import Lettering
from app.tree.picture.palette import Palette
from app.tree.picture.picture import Picture
from app.tree.rounds.snapshot import Snapshot


class WayToShow(Protocol):
    """One item of a graphics scene that lays a tree out and paints it, in logical pixels from its top left corner."""

    def compose(self, tree: Snapshot, letters: Lettering, view: Size, zoom: float) -> Picture:
        """Lay a tree out and show it."""

    def clear(self) -> None:
        """Show nothing."""

    def set_brink(self, brink: Brink | None) -> None:
        """Leave out what stands at the left edge of the view; with None it is cut there."""

    def set_mark(self, place: QRectF | None) -> None:
        """Draw a line around a node, given in the coordinates of the picture."""

    def set_palette(self, palette: Palette) -> None:
        """Change the colours."""

    def setVisible(self, visible: bool) -> None:  # noqa: N802  # Qt's own
        """Show or hide the item."""
