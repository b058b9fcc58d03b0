"""Pictures that are attached, which another process decodes: a hostile file takes neither the window nor its memory."""

from PySide6.QtCore import QMimeData
from PySide6.QtGui import QImage, QImageReader

from app.chat.composer.pdf_text import Refused
from app.chat.composer.picture_program import Told
from app.chat.history.picture_kinds import SUFFIXES, kind_of
from app.i18n.translation import tr
from app.system import json_text as json
from app.system.background import Stop
from app.system.bundle import READ_PICTURE
from app.system.own_program import Content, answer_of, command
from engine.protocol.pictures import PICTURE_KINDS

TIMEOUT_SECONDS = 20.0
_MORE_SECONDS = 5.0  # after which the process ends by itself, where nobody has ended it
_PROGRAM = "app.chat.composer.picture_program"
_MOST_PIXELS = 1 << 26  # of one that was copied; two screens of 8K
_PATTERNS = {"jpeg": "*.jpg *.jpeg *.jfif"}
_ADDRESS = ("http://", "https://")


def read_picture(content: bytes, stop: Stop, seconds: float = TIMEOUT_SECONDS) -> bytes:
    """What a chat keeps of a picture: PNG or JPEG. Takes so many seconds at most.

    Raises `Refused` for one that is damaged, too large or of another kind, `OSError` where no process can be started,
    and `Cancelled`.
    """
    kind = kind_of(content)
    if kind and kind not in PICTURE_KINDS:
        raise _other_kind(kind)
    told, kept = _answer(content, stop, seconds)
    if told.refused == "kind" and kind:
        raise _other_kind(kind)
    if told.refused == "large":
        raise Refused(tr("It has too many pixels."))
    if told.refused or kind_of(kept) not in SUFFIXES:
        raise Refused(tr("It is damaged, or no picture."))
    return kept


def read_pixels(image: QImage, stop: Stop) -> bytes:
    """The same of a picture that was copied decoded. It is not encoded here: see `app.chat.pictures.decoding`."""
    if image.width() * image.height() > _MOST_PIXELS:
        raise Refused(tr("It has too many pixels."))
    pixels = image.convertToFormat(QImage.Format.Format_RGBA8888)
    size = (str(pixels.width()), str(pixels.height()))
    _, kept = _answer(pixels.constBits(), stop, TIMEOUT_SECONDS, *size)  # a copy would hold up the window
    return kept


def _answer(content: Content, stop: Stop, seconds: float, *size: str) -> tuple[Told, bytes]:
    limit = str(seconds + _MORE_SECONDS)
    said = answer_of([*command(READ_PICTURE, _PROGRAM), limit, *size], content, seconds, stop)
    stop.check()
    line, _, kept = said.partition(b"\n")
    if not line:
        raise Refused(tr("Reading it takes too long, or too much memory."))
    return Told(**json.loads(line)), kept


def _other_kind(kind: str) -> Refused:
    words = tr("Pictures of this kind ({kind}) cannot be read. Save it as PNG or JPEG, and attach that.")
    return Refused(words.format(kind=kind.upper()))


def file_kinds() -> str:
    """What the dialog to attach files offers: all of them, or pictures of the kinds that can be read here."""
    there = {bytes(each.data()).decode() for each in QImageReader.supportedImageFormats()}
    patterns = " ".join(_PATTERNS.get(each, f"*.{each}") for each in PICTURE_KINDS if each in there)
    return f"{tr('All files')} (*);;{tr('Pictures')} ({patterns})"


def picture_in(source: QMimeData) -> bytes | QImage | None:
    """A picture that was pasted or dropped, encoded where it came so; None where there are words, or nothing.

    Programs that copy words with their look add a picture of them. One that comes from a browser has its address.
    """
    if source.hasText() and not source.text().startswith(_ADDRESS):
        return None
    for kind in PICTURE_KINDS:
        if source.hasFormat(f"image/{kind}"):
            return bytes(source.data(f"image/{kind}").data())
    image = source.imageData() if source.hasImage() else None
    return image if isinstance(image, QImage) and not image.isNull() else None


def has_picture(source: QMimeData) -> bool:
    """Whether `picture_in` may find one; asked while something is dragged."""
    if source.hasText() and not source.text().startswith(_ADDRESS):
        return False
    return source.hasImage() or any(source.hasFormat(f"image/{kind}") for kind in PICTURE_KINDS)
