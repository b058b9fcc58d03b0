"""A picture's file, opened: what is in it is checked before it is decoded, as anybody may have sent it."""

import io
import struct
import warnings
import zlib
from hashlib import sha256

from PIL import Image, ImageOps, UnidentifiedImageError

from engine.errors import InputError
from engine.protocol.pictures import MOST_PICTURE_BYTES, PICTURE_KINDS
from engine.protocol.sentences import say

MOST_PIXELS = 1 << 26  # of a file, which takes 4 bytes for each while it is opened
MOST_READ_PIXELS = 1 << 21  # of what a model is shown, a full screen; larger pictures are made smaller first
LEAST_SIDE = 2  # pixels
MOST_ELONGATED = 100  # how many times as long as high a picture may be, or the other way round

# What damaged files make decoders raise.
FAULTS = (
    OSError, ValueError, SyntaxError, LookupError, TypeError, EOFError, OverflowError, ArithmeticError, MemoryError,
    struct.error, zlib.error,
)  # fmt: skip
# Told in words of ours, by the size, which is known before anything is decoded.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
ANOTHER = say("Give a picture as PNG, JPEG, WebP, GIF or BMP.")


def digest_of(data: bytes) -> bytes:
    """What tells a picture's file from any other."""
    return sha256(data).digest()


def open_picture(data: bytes) -> Image.Image:
    """The picture in a file, upright, in RGB and with at most `MOST_READ_PIXELS`; what is transparent is white.

    Raises `InputError` for what is no picture, of a kind that is not read, damaged, or too large.
    """
    if len(data) > MOST_PICTURE_BYTES:
        raise InputError(
            say("A picture has more than {size} MB.", size=MOST_PICTURE_BYTES >> 20), say("Make the picture smaller.")
        )
    try:
        with Image.open(io.BytesIO(data), formats=[kind.upper() for kind in PICTURE_KINDS]) as picture:
            _require_sides(*picture.size)
            picture.draft("RGB", _shown(*picture.size))  # a large JPEG is decoded at a fraction of its size
            return _opaque(ImageOps.exif_transpose(_reduced(picture)))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_many_pixels() from None
    except UnidentifiedImageError:
        raise InputError(say("A file is not a picture that can be read."), ANOTHER) from None
    except FAULTS:
        raise InputError(say("A picture is damaged."), ANOTHER) from None


def _require_sides(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise _too_many_pixels()
    if min(width, height) < LEAST_SIDE or max(width, height) > MOST_ELONGATED * min(width, height):
        raise InputError(
            say("A picture of {width} x {height} pixels cannot be read.", width=width, height=height),
            say("Give a picture that is less narrow."),
        )


def _too_many_pixels() -> InputError:
    words = say("A picture has more than {count} million pixels.", count=MOST_PIXELS >> 20)
    return InputError(words, say("Make the picture smaller."))


def _shown(width: int, height: int) -> tuple[int, int]:
    """The size that a picture is shown in to a model, at most."""
    factor = min(1.0, (MOST_READ_PIXELS / (width * height)) ** 0.5)
    return max(1, int(width * factor)), max(1, int(height * factor))


def _reduced(picture: Image.Image) -> Image.Image:
    """Smaller where it is too large; a palette becomes colours first, as they cannot be mixed otherwise."""
    if picture.width * picture.height <= MOST_READ_PIXELS:
        return picture
    colours = picture if picture.mode in ("RGB", "RGBA", "L") else picture.convert(_mode(picture))
    return colours.resize(_shown(*picture.size), Image.Resampling.BICUBIC, reducing_gap=2.0)


def _mode(picture: Image.Image) -> str:
    return "RGBA" if picture.has_transparency_data else "RGB"


def _opaque(picture: Image.Image) -> Image.Image:
    """In RGB, over white where something is transparent."""
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    colours = picture.convert("RGBA")
    white = Image.new("RGBA", colours.size, "white")
    return Image.alpha_composite(white, colours).convert("RGB")
