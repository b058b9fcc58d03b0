"""WebP: all colours; of every picture only what has changed is written, as it comes."""

import io
from typing import BinaryIO

from PIL import Image, ImageChops, WebPImagePlugin

from app.ui.colors import TreeColors

if not WebPImagePlugin.SUPPORTED:
    raise ImportError("Pillow was built without WebP")
Image.preinit()  # or these plugins would be read while the first picture is saved

_QUALITY, _EFFORT = 80, 2  # effort: of 0 to 6; more is slower by far, and hardly smaller
_HEAD = 12  # bytes of a file before its first chunk
_ANIMATED, _UNBLENDED = 1 << 1, 1 << 1  # flags of the file, and of a picture in it
_MOST_MS = (1 << 24) - 1
_RIFF_SIZE_AT = 4


class WebpEncoder:
    """The container is written here, as the library keeps all of an animation in memory.

    Pictures are kept back until the next one that differs, as it is the change that ends their time.
    """

    def __init__(self, file: BinaryIO, size: tuple[int, int], _colors: TreeColors, repeats: bool) -> None:
        """Writes the head. Raises `OSError`, as all methods."""
        self._file = file
        self._size = size
        self._before: Image.Image | None = None
        self._waiting: tuple[tuple[int, int, int, int], bytes, int] | None = None  # box, data, milliseconds
        file.write(b"RIFF\0\0\0\0WEBP")
        file.write(_chunk(b"VP8X", bytes((_ANIMATED, 0, 0, 0)) + b"".join(_three(side - 1) for side in size)))
        file.write(_chunk(b"ANIM", b"\xff\xff\xff\xff" + (0 if repeats else 1).to_bytes(2, "little")))

    def add(self, image: Image.Image, milliseconds: int) -> None:
        """The next picture, and how long it is shown."""
        box = (0, 0, *self._size) if self._before is None else ImageChops.difference(image, self._before).getbbox()
        if box is None and self._waiting:
            place, data, shown = self._waiting
            self._waiting = place, data, shown + milliseconds
            return
        assert box, "the first picture is written whole"
        self._flush()
        box = (box[0] & ~1, box[1] & ~1, box[2], box[3])  # pictures begin at even places
        self._waiting = box, _data(image.crop(box)), milliseconds
        self._before = image

    def finish(self) -> None:
        """Write the end, and how long the file is."""
        self._flush()
        length = self._file.tell()
        self._file.seek(_RIFF_SIZE_AT)
        self._file.write((length - 8).to_bytes(4, "little"))
        self._file.seek(length)

    def _flush(self) -> None:
        if self._waiting is None:
            return
        (left, top, right, bottom), data, milliseconds = self._waiting
        numbers = (left // 2, top // 2, right - left - 1, bottom - top - 1, min(milliseconds, _MOST_MS))
        head = b"".join(_three(each) for each in numbers) + bytes([_UNBLENDED])
        self._file.write(_chunk(b"ANMF", head + data))


def _data(image: Image.Image) -> bytes:
    """The chunk of the picture itself. Without loss it would be a third larger, and take twice as long."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY, method=_EFFORT)
    return buffer.getvalue()[_HEAD:]


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content + b"\0" * (len(content) % 2)


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")
