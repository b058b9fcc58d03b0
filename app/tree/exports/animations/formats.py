"""The formats of animations, a table entry each. Their modules need Pillow, which is loaded when one is written."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from app.i18n.translation import tr
from app.i18n.wording import mark
from app.ui.colors import TreeColors
from engine.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image


class Encoder(Protocol):
    """Writes pictures to a file as they come; all of it can raise `OSError`."""

    def add(self, image: "Image", milliseconds: int) -> None:
        """The next picture, as RGB, and how long it is shown."""

    def finish(self) -> None:
        """There is no further one."""


EncoderOf = Callable[[BinaryIO, tuple[int, int], TreeColors, bool], Encoder]
"""Makes an encoder for a file that can be sought in, of pictures of a size, in these colours, which may repeat."""


@dataclass(frozen=True, slots=True)
class AnimationFormat:
    """`encoder` is a module of this room and a class in it. `bytes_per_pixel`: of a wide frame, on average."""

    name: str
    suffix: str
    filter: str
    encoder: tuple[str, str]
    bytes_per_pixel: float

    def load(self) -> EncoderOf:
        """The encoder's class. Raises `InputError` where Pillow is missing or was built without the format."""
        module, name = self.encoder
        try:
            return cast(EncoderOf, getattr(import_module(f"{__package__}.{module}"), name))
        except ImportError as error:
            words = tr("{name} animations cannot be written here: the library for it is missing.")
            raise InputError(words.format(name=self.name), tr("Choose another format.")) from error


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
