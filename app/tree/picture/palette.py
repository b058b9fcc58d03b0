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
    """`ramp` and `rejected` hold drafted nodes from likely to unlikely, one ink per step of `styles.STEPS`: those that are not
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
        Ink("#303a46", "#566678", "#b4bec8"),
        Ink("#2b3540", "#4e5d6d", "#abb5bf"),
        Ink("#27303a", "#475462", "#a2acb6"),
        Ink("#232b33", "#404c58", "#99a3ad"),
        Ink("#1e242c", "#39444f", "#909aa4"),
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
        Ink("#dfe4e9", "#8896a5", "#46515b"),
        Ink("#e4e8ec", "#94a1ae", "#4c5761"),
        Ink("#e9edf0", "#a0abb7", "#535e68"),
        Ink("#eef1f3", "#aab4bf", "#5a656f"),
        Ink("#f3f5f6", "#bcc4cc", "#616c76"),
    ),
    ahead=Ink("#fdfdfc", "#7d8893", "#4d5862"),
    tiers={"device": "#0b8a63", "ram": "#3b78d8", "ssd": "#b86a00"},
)
