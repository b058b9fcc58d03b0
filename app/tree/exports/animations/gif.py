"""GIF: at most 256 colours, and pictures that are put over what was there, written as they come."""

import io
from itertools import product
from typing import BinaryIO

from PIL import Image, ImageChops

from app.ui.colors import Ink, TreeColors

_TRANSPARENT = 255  # the entry of the palette that leaves what was there
_LEAST = 2  # hundredths of a second: viewers show shorter pictures slower
_BLENDS = (0.25, 0.5, 0.75)  # of the colours at the edges of letters and lines
_CUBE = (0, 64, 128, 192, 255)  # of red, green and blue, for all that is not of the tree
_SAME = 4  # levels that nobody tells apart
_OVER = 1 << 2  # leave the picture when its time is over

Rgb = tuple[int, int, int]


class GifEncoder:
    """Pictures are kept back until the next one that differs, as it is the change that ends their time."""

    def __init__(self, file: BinaryIO, size: tuple[int, int], colors: TreeColors, repeats: bool) -> None:
        """Writes the head. Raises `OSError`, as all methods."""
        self._file = file
        self._size = size
        self._before: Image.Image | None = None
        self._waiting: tuple[bytes, bytes, int] | None = None  # where it stands, its data, its milliseconds
        self._owed = 0  # milliseconds that rounding has lost
        self._table = _table(colors)
        self._palette = Image.new("P", (1, 1))
        self._palette.putpalette(self._table)
        width, height = (side.to_bytes(2, "little") for side in size)
        file.write(b"GIF89a" + width + height + b"\xf7\x00\x00" + self._table)
        if repeats:
            file.write(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")

    def add(self, image: Image.Image, milliseconds: int) -> None:
        """The next picture, and how long it is shown."""
        few = image.quantize(palette=self._palette, dither=Image.Dither.NONE)
        box = (0, 0, *self._size) if self._before is None else ImageChops.difference(few, self._before).getbbox()
        if box is None and self._waiting:
            place, data, shown = self._waiting
            self._waiting = place, data, shown + milliseconds
            return
        assert box, "the first picture is written whole"
        self._flush()
        part = few.crop(box)
        if self._before is not None:
            unchanged = ImageChops.difference(part, self._before.crop(box)).point([255] + [0] * 255, "L")
            part.paste(_TRANSPARENT, (0, 0), unchanged.convert("1"))
        self._waiting = _place(box), _data(part, self._palette), milliseconds
        self._before = few

    def finish(self) -> None:
        """Write the end."""
        self._flush()
        self._file.write(b"\x3b")

    def _flush(self) -> None:
        if self._waiting is None:
            return
        place, data, milliseconds = self._waiting
        wanted = milliseconds + self._owed
        hundredths = min(max(_LEAST, round(wanted / 10)), 0xFFFF)
        self._owed = min(wanted - 10 * hundredths, 10)  # what is longer than a picture can stand is cut
        control = bytes([_OVER | 1]) + hundredths.to_bytes(2, "little") + bytes([_TRANSPARENT])
        self._file.write(b"\x21\xf9\x04" + control + b"\x00" + place + data)


def _table(colors: TreeColors) -> bytes:
    """The same 255 colours for all pictures, so that nothing flickers: those of the tree, and some of all others."""
    inks = (colors.root, colors.accepted, colors.bonus, *colors.ramp, *colors.rejected, colors.ahead)
    page = _rgb(colors.background)
    found: list[Rgb] = [page, *(_rgb(each) for each in (colors.text, colors.muted))]
    found += [_rgb(each) for ink in inks for each in (ink.fill, ink.line, ink.text)]
    found += [_mixed(*pair, blend) for blend in _BLENDS for pair in _pairs(inks, colors)]
    found += [(red, green, blue) for red, green, blue in product(_CUBE, repeat=3)]
    kept = list({tuple(part // _SAME for part in each): each for each in reversed(found)}.values())[::-1]
    entries = [part for each in kept[:_TRANSPARENT] for part in each]
    return bytes(entries).ljust(3 * (_TRANSPARENT + 1), b"\x00")


def _pairs(inks: tuple[Ink, ...], colors: TreeColors) -> list[tuple[Rgb, Rgb]]:
    """Colours that meet, the likeliest first."""
    page = _rgb(colors.background)
    pairs = [(page, _rgb(each)) for each in (colors.text, colors.muted)]
    pairs += [(_rgb(ink.fill), _rgb(ink.text)) for ink in inks]
    return pairs + [(page, _rgb(ink.line)) for ink in inks]


def _rgb(name: str) -> Rgb:
    red, green, blue = bytes.fromhex(name[1:])
    return red, green, blue


def _mixed(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _place(box: tuple[int, int, int, int]) -> bytes:
    left, top, right, bottom = box
    numbers = (left, top, right - left, bottom - top)
    return b"\x2c" + b"".join(each.to_bytes(2, "little") for each in numbers) + b"\x00"


_HEAD, _DESCRIPTION = 13, 10  # bytes


def _data(part: Image.Image, palette: Image.Image) -> bytes:
    """The compressed pixels, taken from a GIF of this picture alone."""
    part.putpalette(palette.getpalette() or [])
    buffer = io.BytesIO()
    part.save(buffer, "GIF", optimize=False, interlace=0)
    written = buffer.getvalue()
    at = _HEAD + _table_bytes(written[10])
    while written[at] == 0x21:  # blocks beside the picture
        at += 2
        while written[at]:
            at += written[at] + 1
        at += 1
    at += _DESCRIPTION + _table_bytes(written[at + 9])
    return written[at:-1]


def _table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0
