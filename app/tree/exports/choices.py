"""What a person can choose of pictures and animations, and how it is remembered."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from app.tree.picture.canvas import CHIPS, WAYS

SHOWN, WHOLE = "shown", "whole"
WINDOW, LIGHT, DARK = "window", "light", "dark"  # whose colours
PIXELS, MILLIMETRES = "px", "mm"
TRUE_TIME, SAME_TIME = "true", "same"

WIDTHS = {PIXELS: (200.0, 16_000.0), MILLIMETRES: (20.0, 1_000.0)}
"""The least and the most, by unit."""

SPEEDS = (0.1, 50.0)
ROUND_SECONDS = (0.1, 10.0)

_LOGICAL_PER_INCH = 96.0
_MM_PER_INCH = 25.4
_PIXELS_PER_LOGICAL = 2.0  # letters on a screen that shows a picture in its full width are as large as in the window


@dataclass(frozen=True, slots=True)
class PictureChoice:
    """`suffix` is that of the format; `width` is in `unit`."""

    part: str = SHOWN
    theme: str = WINDOW
    is_transparent: bool = False
    has_caption: bool = True
    width: float = 1600.0
    unit: str = PIXELS
    suffix: str = ".png"

    @property
    def logical_width(self) -> float:
        """In logical pixels, of which an inch has 96."""
        if self.unit == PIXELS:
            return self.width / _PIXELS_PER_LOGICAL
        return self.width / _MM_PER_INCH * _LOGICAL_PER_INCH


POST = PictureChoice()
PAPER = PictureChoice(
    part=WHOLE,
    theme=LIGHT,
    is_transparent=True,  # the page has its own white
    has_caption=False,
    width=160.0,
    unit=MILLIMETRES,
    suffix=".pdf",
)


@dataclass(frozen=True, slots=True)
class AnimationChoice:
    """`size` is a key of `SIZES`; rounds take their true time divided by `speed`, or `round_seconds` each."""

    size: str = "wide"
    theme: str = WINDOW
    way: str = CHIPS
    pace: str = TRUE_TIME
    speed: float = 1.0
    round_seconds: float = 0.8
    grows: bool = True
    repeats: bool = True
    suffix: str = ".webp"


SIZES = {"small": (800, 450), "wide": (1280, 720), "square": (1080, 1080), "tall": (1080, 1350), "full": (1920, 1080)}
"""Pixels of an animation. Even, as WebP's frames must begin at even places."""

_LEGAL: Mapping[str, tuple[str, ...]] = {
    "part": (SHOWN, WHOLE),
    "theme": (WINDOW, LIGHT, DARK),
    "unit": (PIXELS, MILLIMETRES),
    "size": tuple(SIZES),
    "way": WAYS,
    "pace": (TRUE_TIME, SAME_TIME),
}
_RANGES = {"speed": SPEEDS, "round_seconds": ROUND_SECONDS}

_Choice = TypeVar("_Choice", PictureChoice, AnimationChoice)


def stored(choice: PictureChoice | AnimationChoice) -> dict[str, Any]:
    """As the settings keep it."""
    return asdict(choice)


def restored(usual: _Choice, kept: Mapping[str, Any]) -> _Choice:
    """What was kept, and the usual where that is missing or cannot be used."""
    known = {each.name: kept[each.name] for each in fields(usual) if each.name in kept}
    sound = {name: value for name, value in known.items() if _is_sound(name, value, getattr(usual, name))}
    if "width" in sound or "unit" in sound:
        least, most = WIDTHS[sound.get("unit", getattr(usual, "unit", PIXELS))]
        if not least <= sound.get("width", getattr(usual, "width", 0)) <= most:
            sound.pop("width", None)
            sound.pop("unit", None)
    return replace(usual, **sound)


def _is_sound(name: str, value: object, usual: object) -> bool:
    if type(value) is not type(usual):
        return False
    if name in _LEGAL:
        return value in _LEGAL[name]
    if name in _RANGES:
        least, most = _RANGES[name]
        return least <= value <= most  # type: ignore[operator]  # a float, as the usual one
    return True
