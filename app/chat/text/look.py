"""How messages are shown: what a person can choose about it."""

from dataclasses import dataclass

from app.settings.preferences import TINT_OFF
from app.ui.theme import Colors

SMALLEST, LARGEST, STEP = 60, 240, 10


@dataclass(frozen=True, slots=True)
class Look:
    """Colours, size in percent, whether text comes evenly, and what the ground of its tokens shows.

    `points` is the size of letters at 100 percent, which Preferences can change.
    """

    colors: Colors
    zoom: int = 100
    smooth: bool = True
    tint: str = TINT_OFF
    points: float = 0.0

    @property
    def writing(self) -> tuple[Colors, int, float]:
        """What a text has to be written anew for when it changes."""
        return self.colors, self.zoom, self.points
