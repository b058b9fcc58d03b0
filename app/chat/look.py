"""How messages are shown: what a person can choose about it."""

from dataclasses import dataclass

from app.theme import Colors

SMALLEST, LARGEST, STEP = 60, 240, 10


@dataclass(frozen=True, slots=True)
class Look:
    """Colours, size in percent, whether text comes evenly, and whether it shows which model wrote it."""

    colors: Colors
    zoom: int = 100
    smooth: bool = True
    tint: bool = False
