"""The colours of the tree, dark and light. Hues are apart for colour-blind eyes too (blue, bluish green, orange).

Colour never stands alone: accepted chips are also bold and outlined, the bonus chip is dashed, guesses that are not
decided yet have a thin outline, those for the time after the target's pass a dotted one, and rejected ones none.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours of a chip, as #rrggbb; `line` is its outline and the edge that leads to it."""

    fill: str
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class Palette:
    """`ramp` and `rejected` hold drafted nodes from likely to unlikely, one ink per step of `STEPS`: those that are not
    decided yet, and those that were not accepted. `ahead`: guesses for the time after the target's pass. `tiers`: the
    places where layers are kept, of `device`, `ram` and `ssd`.
    """

    background: str
    text: str
    muted: str
    root: Ink
    accepted: Ink
    bonus: Ink
    ramp: tuple[Ink, ...]
    rejected: tuple[Ink, ...]
    ahead: Ink
    tiers: Mapping[str, str]


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
    rejected=(
        Ink("#22282f", "#4a5968", "#a9b3bd"),
        Ink("#20252c", "#445362", "#a2acb6"),
        Ink("#1e2329", "#3f4d5b", "#9ba5af"),
        Ink("#1c2026", "#3b4855", "#949ea8"),
        Ink("#1a1e23", "#38444f", "#8d97a1"),
    ),
    ahead=Ink("#14171c", "#7f8b98", "#a9b3bd"),
    tiers={"device": "#2fbf8f", "ram": "#5b9cf5", "ssd": "#ffb224"},
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
    rejected=(
        Ink("#eef0f2", "#9aa7b4", "#4d5862"),
        Ink("#f0f2f4", "#a3afba", "#535e68"),
        Ink("#f3f4f6", "#abb6c0", "#59646e"),
        Ink("#f5f6f7", "#b3bcc5", "#5f6973"),
        Ink("#f8f8f9", "#bac2ca", "#646e78"),
    ),
    ahead=Ink("#fdfdfc", "#7d8893", "#4d5862"),
    tiers={"device": "#0b8a63", "ram": "#3b78d8", "ssd": "#b86a00"},
)
