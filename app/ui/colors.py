"""The colours of every theme: light and dark, each also in high contrast."""

from dataclasses import dataclass


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
    error: str
    error_surface: str
    hint_surface: str
    code_style: str
    is_dark: bool
    is_contrast: bool = False


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
    error="#a8321f",
    error_surface="#fdeeea",
    hint_surface="#edf3ee",
    code_style="friendly",
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
    error="#ff9b88",
    error_surface="#3a2420",
    hint_surface="#232d27",
    code_style="one-dark",
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
    error="#8a0000",
    error_surface="#ffffff",
    hint_surface="#ffffff",
    code_style="bw",
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
    error="#ffb0a3",
    error_surface="#000000",
    hint_surface="#000000",
    code_style="github-dark",
    is_dark=True,
    is_contrast=True,
)
