"""Files read as text, within bounds: whatever is no text, or too much of it, is refused in words."""

import codecs
import os
import stat
import time
from pathlib import Path

from app.chat.composer.attachments.pdf import read_pdf
from app.chat.composer.attachments.refusal import Refused
from app.chat.history.attachment import Attachment
from app.i18n.translation import tr
from app.system.plain_text import well_formed

LARGEST_TEXT = 2 << 20  # bytes; four times that would fill the longest context there is
LARGEST_PDF = 64 << 20
PATIENCE_SECONDS = 20.0

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins as UTF-16 does, so it must be looked for first
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\x1b")
_PDF = b"%PDF-"


def read_attachment(path: Path) -> Attachment:
    """The text of a file; raises `Refused` with the reason where it has none that can be used."""
    try:
        content = _read_bytes(path)
    except OSError as error:
        raise Refused(tr("It cannot be read: {reason}.").format(reason=error.strerror or error)) from error
    if _PDF in content[:1024]:
        text, note = read_pdf(content, LARGEST_TEXT, time.monotonic() + PATIENCE_SECONDS)
        return Attachment(well_formed(path.name), well_formed(text), note)
    if len(content) > LARGEST_TEXT:
        raise Refused(tr("It is larger than {size} MB.").format(size=LARGEST_TEXT >> 20))
    text = decode(content)
    if not text.strip():
        raise Refused(tr("It is empty."))
    return Attachment(well_formed(path.name), well_formed(text))


def decode(content: bytes) -> str:
    """Text in UTF-8, in UTF-16 or UTF-32 with a byte order mark, or in Western letters; raises `Refused` for others."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            raise Refused(tr("It is not text.")) from None
        text = content.decode("cp1252", "replace")
    if encoding in ("utf-8", "utf-8-sig") and any(byte < 32 and byte not in _TEXT_CONTROLS for byte in set(content)):
        raise Refused(tr("It is not text. Only texts, code and PDFs can be attached."))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(path: Path) -> bytes:
    """The whole file, or one byte more than is allowed; a pipe or a device is never waited for."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        kind = os.fstat(file.fileno())
        if stat.S_ISDIR(kind.st_mode):
            raise Refused(tr("It is a folder. Attach the files in it."))
        if not stat.S_ISREG(kind.st_mode):
            raise Refused(tr("It is not an ordinary file."))
        content = file.read(LARGEST_PDF + 1)
    if len(content) > LARGEST_PDF:
        raise Refused(tr("It is larger than {size} MB.").format(size=LARGEST_PDF >> 20))
    return content
