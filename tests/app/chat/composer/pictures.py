"""Small pictures, made for tests."""

import random
import struct
import zlib

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QColor, QImage, QImageReader, QImageWriter


def picture(width: int = 40, height: int = 30, kind: str = "png", color: str = "#3a7", quality: int = -1) -> bytes:
    """A picture of one colour."""
    image = QImage(width, height, QImage.Format.Format_ARGB32)
    image.fill(QColor(color))
    return written(image, kind, quality)


def written(image: QImage, kind: str, quality: int = -1) -> bytes:
    """The same of any picture."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QImageWriter(buffer, kind.encode())
    writer.setQuality(quality)
    assert writer.write(image), writer.errorString()
    return bytes(buffer.data().data())


def noise(width: int, height: int) -> QImage:
    """A picture that nothing can pack well."""
    content = random.Random(width).randbytes(width * height * 4)  # no secret
    return QImage(content, width, height, width * 4, QImage.Format.Format_RGB32).copy()


def decoded(content: bytes) -> QImage:
    """The picture that some bytes are."""
    buffer = QBuffer()
    buffer.setData(QByteArray(content))
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    return QImageReader(buffer).read()


def color_at(content: bytes, x: int, y: int) -> QColor:
    """What stands at a place."""
    return decoded(content).pixelColor(x, y)


def is_red(color: QColor) -> bool:
    """As far as a JPEG keeps it so."""
    return color.red() > 200 and color.green() < 60 and color.blue() < 60


def sideways(width: int, height: int) -> bytes:
    """A photo whose camera was turned, red at its upper left as it is stored, with a place where it was taken."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(Qt.GlobalColor.white)
    for x in range(width // 2):
        for y in range(height // 2):
            image.setPixelColor(x, y, QColor("red"))
    entries = struct.pack(">HHIHH", 0x112, 3, 1, 6, 0) + struct.pack(">HHII", 0x8825, 4, 1, 38)
    place = struct.pack(">HHHI4sI", 1, 1, 2, 2, b"N\0\0\0", 0)
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 2) + entries + struct.pack(">I", 0) + place
    jpeg = written(image, "jpeg", 95)
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


def png_of(width: int, height: int, rows: int) -> bytes:
    """A PNG that says it is so large, with so many rows in it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes((3 * width + 1) * rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
