"""Picture files: what is decoded, and what is refused before it could do harm."""

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.errors import InputError
from engine.model.pictures.picture_files import MOST_READ_PIXELS, digest_of, open_picture
from engine.protocol.pictures import MOST_PICTURE_BYTES, PICTURE_KINDS
from tests.engine.picture_models import picture, random_image


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that says it is of this size, and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", PICTURE_KINDS)
def test_every_kind_is_decoded(kind: str) -> None:
    image = Image.new("RGB", (40, 30), (200, 30, 60))
    found = open_picture(encoded(image, kind))
    assert (found.mode, found.size) == ("RGB", (40, 30))
    assert max(abs(one - other) for one, other in zip(found.getpixel((20, 15)), (200, 30, 60), strict=True)) < 8  # type: ignore[arg-type]


def test_lossless_pictures_keep_every_pixel() -> None:
    assert np.array_equal(np.asarray(open_picture(picture(3).data)), np.asarray(random_image(3)))


def test_what_is_transparent_is_white() -> None:
    clear = Image.new("RGBA", (8, 8), (10, 20, 30, 0))
    assert open_picture(encoded(clear, "PNG")).getpixel((4, 4)) == (255, 255, 255)
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert open_picture(encoded(palette, "GIF", transparency=0)).getpixel((4, 4)) == (255, 255, 255)


def test_a_photo_stands_upright() -> None:
    image = Image.new("RGB", (40, 20), "red")
    turned = Image.Exif()
    turned[0x0112] = 6
    assert open_picture(encoded(image, "JPEG", exif=turned)).size == (20, 40)


@pytest.mark.parametrize(
    ("mode", "kind"), [("RGB", "JPEG"), ("RGB", "PNG"), ("P", "PNG"), ("LA", "PNG"), ("I;16", "PNG")]
)
def test_large_pictures_are_made_smaller(mode: str, kind: str) -> None:
    found = open_picture(encoded(Image.new(mode, (4000, 2000)), kind))
    assert found.mode == "RGB"
    assert found.width * found.height <= MOST_READ_PIXELS
    assert abs(found.width / found.height - 2) < 0.01


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a picture"),
        (b"GGUF" + bytes(100), "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (encoded(Image.new("RGB", (9, 9)), "TIFF"), "not a picture"),
        (encoded(Image.new("RGB", (9, 9)), "PPM"), "not a picture"),
        (picture(0).data[:300], "damaged"),
        (encoded(random_image(), "JPEG")[:400], "damaged"),
        (encoded(random_image(), "WEBP")[:400], "damaged"),
        (png_of_size(50_000, 50_000), "more than 64 million pixels"),
        (png_of_size(60_000, 1), "cannot be read"),
        (png_of_size(900, 3), "cannot be read"),
        (png_of_size(20, 20), "damaged"),
        (bytes(MOST_PICTURE_BYTES + 1), "more than 32 MB"),
    ],
    ids=range(14),
)
def test_what_is_no_picture_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        open_picture(data)


def test_digests_tell_files_apart() -> None:
    assert digest_of(picture(0).data) != digest_of(picture(1).data)
    assert digest_of(picture(0).data) == digest_of(picture(0).data)
