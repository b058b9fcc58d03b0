"""The colours of every theme: light and dark, each also in high contrast; of the window, the tree and the charts.

Hues are apart for colour-blind eyes too (blue, bluish green, orange), and colour never stands alone: in the tree
accepted chips are also bold and outlined, the bonus chip is dashed, guesses that are not decided yet have a thin
outline, those for the time after the target's pass a dotted one, and rejected ones none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ink:
    """Colours of a node, as `#rrggbb`; `line` is its outline and the edge that leads to it."""

    fill: str
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class TreeColors:
    """The colours of the speculation tree.

    `ramp` and `rejected` hold drafted nodes from likely to unlikely, one ink for each step of probability: those that
    are not decided yet, and those that were not accepted. `ahead`: guesses for the time after the target's pass.
    `tiers`: the places where layers are kept, of `device`, `ram` and `ssd`.
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
    tiers: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ChartColors:
    """The colours of what is drawn in charts. `strong` draws what is looked at first, `pale` what stands behind it."""

    strong: str
    pale: str
    limit: str
    draft: str
    hidden_draft: str
    stream_wait: str
    compute: str
    other: str
    device: str
    ram: str
    ssd: str


@dataclass(frozen=True, slots=True)
class Colors:
    """The colours of one theme, as `#rrggbb`; `code_style` is the name of a pygments style that fits them."""

    window: str
    surface: str
    raised: str
    border: str
    hover: str
    text: str
    muted: str
    accent: str
    accent_hover: str
    on_accent: str
    bubble: str
    code: str
    selection: str
    link: str
    warning: str
    error: str
    error_surface: str
    hint_surface: str
    code_style: str
    tree: TreeColors
    charts: ChartColors
    is_dark: bool
    is_contrast: bool = False


_LIGHT_TREE = TreeColors(
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

_DARK_TREE = TreeColors(
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

_LIGHT_CONTRAST_TREE = TreeColors(
    background="#ffffff",
    text="#000000",
    muted="#2b2b2b",
    root=Ink("#dcdcdc", "#000000", "#000000"),
    accepted=Ink("#bdeccf", "#004d26", "#002512"),
    bonus=Ink("#ffe9b3", "#945200", "#3d2100"),
    ramp=(
        Ink("#b9d3fb", "#0033b3", "#000a2e"),
        Ink("#c4dafb", "#1544b4", "#000a2e"),
        Ink("#cfe1fc", "#2a55b6", "#000a2e"),
        Ink("#dae8fd", "#3f66b9", "#000a2e"),
        Ink("#e4eefe", "#5477bc", "#000a2e"),
    ),
    rejected=(
        Ink("#dedede", "#4a4a4a", "#141414"),
        Ink("#e4e4e4", "#555555", "#191919"),
        Ink("#eaeaea", "#606060", "#1e1e1e"),
        Ink("#f0f0f0", "#6b6b6b", "#232323"),
        Ink("#f5f5f5", "#767676", "#282828"),
    ),
    ahead=Ink("#ffffff", "#4d4d4d", "#1a1a1a"),
    tiers={"device": "#00663a", "ram": "#0033b3", "ssd": "#945200"},
)

_DARK_CONTRAST_TREE = TreeColors(
    background="#000000",
    text="#ffffff",
    muted="#dcdcdc",
    root=Ink("#3a3a3a", "#ffffff", "#ffffff"),
    accepted=Ink("#004a26", "#6dffac", "#ffffff"),
    bonus=Ink("#453000", "#ffd166", "#fff0c2"),
    ramp=(
        Ink("#1a4a8a", "#9cc7ff", "#ffffff"),
        Ink("#164079", "#8cb9f5", "#ffffff"),
        Ink("#123668", "#7dabe6", "#ffffff"),
        Ink("#0f2c56", "#6f9dd8", "#ffffff"),
        Ink("#0c2446", "#6491cb", "#ffffff"),
    ),
    rejected=(
        Ink("#303030", "#b0b0b0", "#f0f0f0"),
        Ink("#292929", "#a4a4a4", "#e8e8e8"),
        Ink("#222222", "#999999", "#e0e0e0"),
        Ink("#1c1c1c", "#8e8e8e", "#d8d8d8"),
        Ink("#161616", "#848484", "#d0d0d0"),
    ),
    ahead=Ink("#000000", "#c8c8c8", "#e6e6e6"),
    tiers={"device": "#6dffac", "ram": "#8cc8ff", "ssd": "#ffd166"},
)

_LIGHT_CHARTS = ChartColors(
    strong="#1f66d0",
    pale="#8794a3",
    limit="#b86a00",
    draft="#3b78d8",
    hidden_draft="#a8559f",
    stream_wait="#b86a00",
    compute="#0b8a63",
    other="#8a949e",
    device="#0b8a63",
    ram="#3b78d8",
    ssd="#b86a00",
)

_DARK_CHARTS = ChartColors(
    strong="#5b9cf5",
    pale="#64727f",
    limit="#ffb224",
    draft="#5b9cf5",
    hidden_draft="#d38ad0",
    stream_wait="#ffb224",
    compute="#2fbf8f",
    other="#8a949e",
    device="#2fbf8f",
    ram="#5b9cf5",
    ssd="#ffb224",
)

_LIGHT_CONTRAST_CHARTS = ChartColors(
    strong="#0033b3",
    pale="#6b7885",
    limit="#945200",
    draft="#0033b3",
    hidden_draft="#7a1f73",
    stream_wait="#945200",
    compute="#00663a",
    other="#5a5a5a",
    device="#00663a",
    ram="#0033b3",
    ssd="#945200",
)

_DARK_CONTRAST_CHARTS = ChartColors(
    strong="#8cc8ff",
    pale="#a8b4c0",
    limit="#ffd166",
    draft="#8cc8ff",
    hidden_draft="#ff9cf7",
    stream_wait="#ffd166",
    compute="#6dffac",
    other="#c0c0c0",
    device="#6dffac",
    ram="#8cc8ff",
    ssd="#ffd166",
)

LIGHT = Colors(
    window="#fbfbf9",
    surface="#ffffff",
    raised="#f1f2ee",
    border="#dcdfd8",
    hover="#e8eae4",
    text="#1d211e",
    muted="#646c66",
    accent="#2c7a4b",
    accent_hover="#246640",
    on_accent="#ffffff",
    bubble="#e9efe8",
    code="#f3f4f0",
    selection="#bfe0cb",
    link="#1a66dd",
    warning="#96590a",
    error="#a8321f",
    error_surface="#fdeeea",
    hint_surface="#edf3ee",
    code_style="friendly",
    tree=_LIGHT_TREE,
    charts=_LIGHT_CHARTS,
    is_dark=False,
)

DARK = Colors(
    window="#181a19",
    surface="#202322",
    raised="#262a28",
    border="#363b38",
    hover="#303532",
    text="#e4e8e5",
    muted="#98a29b",
    accent="#58b981",
    accent_hover="#6bcb93",
    on_accent="#0d1a12",
    bubble="#2a332e",
    code="#121413",
    selection="#2f5f45",
    link="#79b8ff",
    warning="#ffb224",
    error="#ff9b88",
    error_surface="#3a2420",
    hint_surface="#232d27",
    code_style="one-dark",
    tree=_DARK_TREE,
    charts=_DARK_CHARTS,
    is_dark=True,
)

LIGHT_CONTRAST = Colors(
    window="#ffffff",
    surface="#ffffff",
    raised="#f0f0f0",
    border="#000000",
    hover="#dedede",
    text="#000000",
    muted="#2b2b2b",
    accent="#004d26",
    accent_hover="#00341a",
    on_accent="#ffffff",
    bubble="#ececec",
    code="#f6f6f6",
    selection="#9fd8b8",
    link="#0033b3",
    warning="#7a4200",
    error="#8a0000",
    error_surface="#ffffff",
    hint_surface="#ffffff",
    code_style="bw",
    tree=_LIGHT_CONTRAST_TREE,
    charts=_LIGHT_CONTRAST_CHARTS,
    is_dark=False,
    is_contrast=True,
)

DARK_CONTRAST = Colors(
    window="#000000",
    surface="#000000",
    raised="#1a1a1a",
    border="#ffffff",
    hover="#333333",
    text="#ffffff",
    muted="#dcdcdc",
    accent="#6dffac",
    accent_hover="#a6ffcc",
    on_accent="#000000",
    bubble="#1c1c1c",
    code="#0d0d0d",
    selection="#005a32",
    link="#8cc8ff",
    warning="#ffd166",
    error="#ffb0a3",
    error_surface="#000000",
    hint_surface="#000000",
    code_style="github-dark",
    tree=_DARK_CONTRAST_TREE,
    charts=_DARK_CONTRAST_CHARTS,
    is_dark=True,
    is_contrast=True,
)
