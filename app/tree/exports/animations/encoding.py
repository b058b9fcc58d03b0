"""What a thread does of an animation: it encodes frames as they come, into a file that is whole or not there."""

import logging
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO

from PySide6.QtGui import QImage

from app.system.background import Stop
from app.system.files import chosen_replacement
from app.tree.exports.animations.formats import AnimationFormat, EncoderOf
from app.tree.exports.failures import writing_failed
from app.ui.colors import TreeColors
from engine.errors import InputError

_log = logging.getLogger(__name__)

_RGB32 = "BGRX" if sys.byteorder == "little" else "XRGB"  # Pillow's name for it

Painted = tuple[QImage, int]
"""A frame, in the format RGB32, and how many milliseconds it stays."""

Written = tuple[int, int]
"""How many frames are encoded, into how many bytes."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """`frames` end with None, also where they are not wanted any more; `size` is in pixels."""

    frames: "SimpleQueue[Painted | None]"
    path: Path
    form: AnimationFormat
    size: tuple[int, int]
    colors: TreeColors
    repeats: bool

    def run(self, stop: Stop) -> Iterator[Written]:
        """Write the file; tell when the encoder is loaded, of every frame, and once more when the file is in its place.

        Without a frame there is no file, and nothing more is told.

        Raises `InputError` in words, and `Cancelled`; nothing is left then.
        """
        encoder_of = self.form.load()
        yield 0, 0
        try:
            replacement = chosen_replacement(self.path)
            try:
                count = yield from self._encode(encoder_of, replacement.file, stop)
                written = replacement.file.tell()
            except BaseException:
                replacement.discard()
                raise
            if not count:
                replacement.discard()
                return
            replacement.commit()
        except OSError as error:
            _log.warning("An animation could not be written: %s", error)
            raise InputError(writing_failed(self.path, error)) from error
        yield count, written

    def _encode(self, encoder_of: EncoderOf, file: BinaryIO, stop: Stop) -> Generator[Written, None, int]:
        from PIL import Image  # noqa: PLC0415  # few sessions need it

        encoder, count = encoder_of(file, self.size, self.colors, self.repeats), 0
        while (painted := self.frames.get()) is not None:
            stop.check()
            image, milliseconds = painted
            pixels = bytes(image.constBits())
            encoder.add(Image.frombytes("RGB", self.size, pixels, "raw", _RGB32, image.bytesPerLine(), 1), milliseconds)
            count += 1
            yield count, file.tell()
        stop.check()
        if count:
            encoder.finish()
        return count
