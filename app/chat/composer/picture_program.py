"""A program without a window that decodes a picture: the file goes in, and what a chat keeps of it comes out.

Decoders are written in C, and a hostile file may break them, or take much memory. Here time and memory are limited,
and what comes out is encoded anew: upright, no larger than models look at, and without what a camera notes of a photo,
such as where it was taken.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize, Qt
from PySide6.QtGui import QColor, QColorSpace, QImage, QImageReader, QImageWriter, QPainter

from app.chat.history.picture_kinds import kind_of
from app.system import json_text as json
from app.system.own_program import answering

MOST_SIDE = 2048  # pixels
MOST_KEPT_BYTES = 6 << 20
_MOST_PNG_BYTES = 2 << 20  # of a picture that could be a JPEG as well
_MOST_MEGABYTES = 512  # of a picture decoded; cameras of 100 million pixels take 400
_MOST_JPEG_PIXELS = 1 << 28  # decoded at an eighth of its size, where it is so large
_MEMORY_BYTES = 2 << 30  # of addresses, a quarter of which the libraries take
_QUALITY, _LOWER_QUALITY = 90, 75

Reason = Literal["", "kind", "damaged", "large"]


@dataclass(frozen=True, slots=True)
class Told:
    """The first line of what comes out: why nothing follows, or the width and height in pixels of what does."""

    refused: Reason = ""
    width: int = 0
    height: int = 0


def kept_of(content: bytes) -> tuple[Told, bytes]:
    """What a chat keeps of a picture, as PNG or JPEG; nothing where it is refused."""
    kind = kind_of(content)
    if kind.encode() not in QImageReader.supportedImageFormats():
        return Told("kind"), b""
    buffer = QBuffer()
    buffer.setData(QByteArray(content))
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer, kind.encode())
    reader.setAutoDetectImageFormat(False)  # no other decoder is tried
    reader.setAutoTransform(True)
    reader.setAllocationLimit(_MOST_MEGABYTES)
    size = reader.size()
    if _is_too_large(size, kind):
        return Told("large"), b""
    if max(size.width(), size.height()) > MOST_SIDE:
        reader.setScaledSize(_fitting(size))
    image = reader.read()
    if image.isNull():
        return Told("damaged"), b""
    return _kept(image, kind)


def kept_of_pixels(content: bytes, width: int, height: int) -> tuple[Told, bytes]:
    """The same of a picture that was copied decoded: red, green, blue and alpha of each pixel."""
    return _kept(QImage(content, width, height, 4 * width, QImage.Format.Format_RGBA8888), "")


def _kept(image: QImage, kind: str) -> tuple[Told, bytes]:
    plain = _plain(image)
    return Told("", plain.width(), plain.height()), _encoded(plain, kind)


def _is_too_large(size: QSize, kind: str) -> bool:
    pixels = size.width() * size.height()
    return pixels > (_MOST_JPEG_PIXELS if kind == "jpeg" else _MOST_MEGABYTES << 18)


def _fitting(size: QSize) -> QSize:
    return size.scaled(MOST_SIDE, MOST_SIDE, Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1))


def _plain(image: QImage) -> QImage:
    """The picture in sRGB, 8 bits a channel, of the size that is kept, and nothing but its pixels."""
    if max(image.width(), image.height()) > MOST_SIDE:  # what did not tell its size before
        image = image.scaled(
            _fitting(image.size()), Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
        )
    if image.colorSpace().isValid():
        image = image.convertedToColorSpace(QColorSpace(QColorSpace.NamedColorSpace.SRgb))
    is_clear = image.hasAlphaChannel() and not _is_opaque(image)
    kept = image.convertToFormat(QImage.Format.Format_RGBA8888 if is_clear else QImage.Format.Format_RGB888)
    return QImage(kept.constBits(), kept.width(), kept.height(), kept.bytesPerLine(), kept.format()).copy()


def _is_opaque(image: QImage) -> bool:
    alpha = image.convertToFormat(QImage.Format.Format_Alpha8)
    width, step, bits = alpha.width(), alpha.bytesPerLine(), bytes(alpha.constBits())
    return all(not bits[row : row + width].strip(b"\xff") for row in range(0, step * alpha.height(), step))


def _encoded(image: QImage, kind: str) -> bytes:
    """Photos as JPEG. Others as PNG, which keeps every pixel, unless that takes much more."""
    is_clear = image.hasAlphaChannel()
    if kind != "jpeg":
        png = _written(image, "png")
        if len(png) <= (MOST_KEPT_BYTES if is_clear else _MOST_PNG_BYTES):
            return png
    found = _written(_on_white(image) if is_clear else image, "jpeg", _QUALITY)
    return found if len(found) <= MOST_KEPT_BYTES else _written(_on_white(image), "jpeg", _LOWER_QUALITY)


def _on_white(image: QImage) -> QImage:
    whole = QImage(image.size(), QImage.Format.Format_RGB888)
    whole.fill(QColor(Qt.GlobalColor.white))
    painter = QPainter(whole)
    painter.drawImage(0, 0, image)
    painter.end()
    return whole


def _written(image: QImage, kind: str, quality: int = -1) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, kind.encode())
    writer.setQuality(quality)
    writer.write(image)
    return bytes(buffer.data().data())


def main(words: Sequence[str]) -> int:
    """Decode what is read from stdin; `words`: the most seconds, and of pixels the width and height."""
    seconds, size = float(words[0]), [int(each) for each in words[1:3]]
    with answering(seconds, _MEMORY_BYTES) as answer:
        content = sys.stdin.buffer.read()
        told, kept = kept_of_pixels(content, *size) if size else kept_of(content)
        answer.write(json.dumps(asdict(told)).encode() + b"\n" + kept)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
