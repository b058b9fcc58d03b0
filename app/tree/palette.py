"""The colours of the tree, dark and light. Hues are apart for colour-blind eyes too (blue, bluish green, orange).

Colour never stands alone: accepted chips are also bold and outlined, the bonus chip is dashed.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours of a chip, as #rrggbb; `line` is its outline and the edge that leads to it."""

    fill: str
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class Palette:
    """`ramp` holds the drafted nodes from likely to unlikely, one ink per step of `STEPS`."""

    background: str
    text: str
    muted: str
    root: Ink
    accepted: Ink
    bonus: Ink
    ramp: tuple[Ink, ...]


STEPS = (0.5, 0.2, 0.05, 0.01, 0.0)
"""The least path probability of each step of the ramp."""

EDGE_WIDTHS = (2.6, 2.1, 1.6, 1.2, 0.9)
"""Logical pixels, one per step of the ramp."""

DARK = Palette(
    background="#14171c",
    text="#d8dee6",
    muted="#98a4b0",
    root=Ink("#3a424c", "#98a4b0", "#ffffff"),
    accepted=Ink("#0d5a3c", "#44e08a", "#ffffff"),
    bonus=Ink("#3d2b08", "#ffb224", "#ffdc97"),
    ramp=(
        Ink("#1f466d", "#5b9cf5", "#dce7f2"),
        Ink("#203e5d", "#4a86c4", "#d0dbe6"),
        Ink("#21364d", "#406f9d", "#c1cdd9"),
        Ink("#212f41", "#3f6286", "#b4c0cc"),
        Ink("#1f2732", "#40566d", "#a0aebb"),
    ),
)

LIGHT = Palette(
    background="#fdfdfc",
    text="#1d2630",
    muted="#5a6672",
    root=Ink("#dcdfe3", "#5a6672", "#16202a"),
    accepted=Ink("#c8efd9", "#006b3c", "#003a20"),
    bonus=Ink("#fff0cc", "#b86a00", "#553200"),
    ramp=(
        Ink("#cfe1fa", "#3b78d8", "#1a3552"),
        Ink("#dae8f8", "#5a90d8", "#223d59"),
        Ink("#e1ecf7", "#82abdc", "#26415c"),
        Ink("#eaf0f6", "#94b5d4", "#3b5064"),
        Ink("#f1f4f7", "#b5c5d4", "#53626f"),
    ),
)
