"""Decodes pictures that a chat keeps: small ones, in forms that come with Qt, and never more of them than is seen.

What Qt reads from is a buffer of its own. One that is made here would call Python whenever something is read, while Qt
holds a lock that the window's thread may be waiting for with Python's: neither would go on.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QByteArray, QDataStream, QSize, Qt
from PySide6.QtGui import QImage, QImageReader

from app.chat.history.picture_kinds import SUFFIXES, kind_of

_MOST_PIXELS = 1 << 25  # eight times what a chat keeps; an imported one may say that it is larger


def size_of(picture: bytes) -> QSize:
    """Its width and height in pixels, as it says itself; nothing of what is none, or too large to be shown."""
    if kind_of(picture) not in SUFFIXES:
        return QSize()
    with _reading(picture) as reader:
        size = reader.size()
    return size if 0 < size.width() * size.height() <= _MOST_PIXELS else QSize()


def decoded(picture: bytes, most: QSize | None = None) -> QImage:
    """The picture, no larger than `most` in pixels; an empty one where it is damaged. Takes its time: for a thread."""
    size = size_of(picture)
    if size.isEmpty():
        return QImage()
    with _reading(picture) as reader:
        if most is not None:
            reader.setScaledSize(fitting(size, most))
        return reader.read()


def fitting(size: QSize, most: QSize) -> QSize:
    """As large as there is room for, but no larger than it is; a pixel at least."""
    if size.width() <= most.width() and size.height() <= most.height():
        return size
    return size.scaled(most, Qt.AspectRatioMode.KeepAspectRatio).expandedTo(QSize(1, 1))


@contextmanager
def _reading(picture: bytes) -> Iterator[QImageReader]:
    """A reader, which does not keep alive what it reads from."""
    stream = QDataStream(QByteArray(picture))
    reader = QImageReader(stream.device(), kind_of(picture).encode())
    reader.setAutoDetectImageFormat(False)  # no other decoder is tried
    yield reader
