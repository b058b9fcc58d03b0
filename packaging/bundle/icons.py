"""Draws packaging/icons from the SVG files in resources/icons: PNG for Linux, ICO for Windows, ICNS for macOS.

Run it after a change of one of them: `python packaging/bundle/icons.py`; it needs PySide6, no screen.
"""

import os
import struct
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "resources" / "icons"
ICONS = ROOT / "packaging" / "icons"

SMALL = 32  # up to this size the simple drawing is taken, where there is one
PNG_SIZES = (16, 24, 32, 48, 64, 128, 256, 512)
ICO_SIZES = (16, 24, 32, 48, 64, 256)
ICNS_KINDS = {
    16: (b"icp4",),
    32: (b"icp5", b"ic11"),
    64: (b"icp6", b"ic12"),
    128: (b"ic07",),
    256: (b"ic08", b"ic13"),
    512: (b"ic09", b"ic14"),
    1024: (b"ic10",),
}
"""The kinds of picture in an ICNS file by their pixels: the plain ones, and those for screens with double density."""


def main() -> None:
    """Draw all of them."""
    application = QGuiApplication([])
    ICONS.mkdir(exist_ok=True)
    for name in ("coppice", "coppice-recording"):
        pictures = {size: draw(name, size) for size in {*PNG_SIZES, *ICO_SIZES, *ICNS_KINDS}}
        for size in PNG_SIZES:
            (ICONS / f"{name}-{size}.png").write_bytes(pictures[size])
        (ICONS / f"{name}.ico").write_bytes(ico({size: pictures[size] for size in ICO_SIZES}))
        (ICONS / f"{name}.icns").write_bytes(icns({size: pictures[size] for size in ICNS_KINDS}))
    application.quit()


def draw(name: str, size: int) -> bytes:
    """The icon as a PNG of `size` by `size` pixels."""
    small = SOURCES / f"{name}-small.svg"
    source = small if size <= SMALL and small.exists() else SOURCES / f"{name}.svg"
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(source.read_bytes())).render(painter)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # the stubs want bytes here, PySide takes text
    return bytes(buffer.data().data())


def ico(pictures: dict[int, bytes]) -> bytes:
    """A Windows icon that holds these PNG pictures, by their size."""
    offset = 6 + 16 * len(pictures)
    head, body = struct.pack("<HHH", 0, 1, len(pictures)), b""
    for size, picture in sorted(pictures.items()):
        edge = size % 256  # 256 is written as 0
        head += struct.pack("<BBBBHHII", edge, edge, 0, 0, 1, 32, len(picture), offset + len(body))
        body += picture
    return head + body


def icns(pictures: dict[int, bytes]) -> bytes:
    """A macOS icon that holds these PNG pictures, by their size."""
    body = b"".join(
        kind + struct.pack(">I", 8 + len(picture)) + picture
        for size, picture in sorted(pictures.items())
        for kind in ICNS_KINDS[size]
    )
    return b"icns" + struct.pack(">I", 8 + len(body)) + body


if __name__ == "__main__":
    main()
