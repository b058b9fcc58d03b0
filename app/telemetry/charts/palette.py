"""The colours of the charts. Hues are apart for colour-blind eyes too; no figure is told apart by colour alone."""

from dataclasses import dataclass

from app.ui.theme import Colors


@dataclass(frozen=True, slots=True)
class Palette:
    """As #rrggbb. `strong` draws what is looked at first, `pale` what stands behind it."""

    background: str
    card: str
    text: str
    muted: str
    grid: str
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


def palette_of(colors: Colors) -> Palette:
    """The charts' colours in a theme of the window."""
    series = _DARK if colors.is_dark else _LIGHT
    return Palette(
        background=colors.window,
        card=colors.surface,
        text=colors.text,
        muted=colors.muted,
        grid=colors.border,
        **series,
    )


_DARK = {
    "strong": "#5b9cf5",
    "pale": "#5d6b7a",
    "limit": "#ffb224",
    "draft": "#5b9cf5",
    "hidden_draft": "#d38ad0",
    "stream_wait": "#ffb224",
    "compute": "#2fbf8f",
    "other": "#8a949e",
    "device": "#2fbf8f",
    "ram": "#5b9cf5",
    "ssd": "#ffb224",
}

_LIGHT = {
    "strong": "#1f66d0",
    "pale": "#a9b6c4",
    "limit": "#b86a00",
    "draft": "#3b78d8",
    "hidden_draft": "#a8559f",
    "stream_wait": "#e08e00",
    "compute": "#0b8a63",
    "other": "#8a949e",
    "device": "#0b8a63",
    "ram": "#3b78d8",
    "ssd": "#e08e00",
}
