"""The formats of animations, a table entry each. Their modules need Pillow, which the process that writes one loads."""

from dataclasses import dataclass

from app.i18n.translation import tr
from app.i18n.wording import mark


@dataclass(frozen=True, slots=True)
class AnimationFormat:
    """`encoder` is a module of this room and a class in it. `bytes_per_pixel`: of a wide frame, on average."""

    name: str
    suffix: str
    filter: str
    encoder: tuple[str, str]
    bytes_per_pixel: float


FORMATS = (
    AnimationFormat("WebP", ".webp", mark("WebP animations (*.webp)"), ("webp", "WebpEncoder"), 0.020),
    AnimationFormat("GIF", ".gif", mark("GIF animations (*.gif)"), ("gif", "GifEncoder"), 0.023),
)
"""All, in the order in which they are offered; sizes per pixel by `tests/bench/tree_animations.py`."""


def format_of(suffix: str) -> AnimationFormat | None:
    """The format whose files have this suffix, in any case."""
    return next((each for each in FORMATS if each.suffix == suffix.lower()), None)


def filters(first: str) -> dict[str, str]:
    """The filters of the file dialog with their suffixes, that of the format `first` before the others."""
    return {tr(each.filter): each.suffix for each in sorted(FORMATS, key=lambda each: each.suffix != first)}
