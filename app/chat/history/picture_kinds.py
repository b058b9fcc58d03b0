"""What kind of picture some bytes are, by how they begin."""

_BRANDS = {  # in the first box of a file in HEIF's form
    b"heic": "HEIC", b"heix": "HEIC", b"hevc": "HEIC", b"mif1": "HEIC", b"msf1": "HEIC",
    b"avif": "AVIF", b"avis": "AVIF",
}  # fmt: skip
_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cJXL \r\n\x87\n": "JPEG XL",
    b"\0\0\0\x0cjP  \r\n\x87\n": "JPEG 2000",
    b"8BPS\0\x01": "Photoshop",
    b"\0\0\x01\0": "ICO",
}
_LARGEST_BMP_HEADER = 256
SUFFIXES = {"png": ".png", "jpeg": ".jpg"}
"""Of the kinds that a chat keeps."""


def kind_of(content: bytes) -> str:
    """One of `engine.protocol.pictures.PICTURE_KINDS`; the name of another kind of picture in capitals; or nothing."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    if content[4:8] == b"ftyp" and content[8:12] in _BRANDS:
        return _BRANDS[content[8:12]]
    if content[:2] == b"BM" and 12 <= int.from_bytes(content[14:18], "little") <= _LARGEST_BMP_HEADER:
        return "bmp"
    return next((kind for beginning, kind in _BEGINNINGS.items() if content.startswith(beginning)), "")
