"""Reads attached files in a thread: text, PDFs and pictures up to a size; others are refused with a reason."""

import codecs
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QImage

from app.chat.composer.pdf_text import Refused, read_pdf
from app.chat.composer.pictures import read_picture, read_pixels
from app.chat.history.message import Attachment
from app.chat.history.picture_kinds import kind_of
from app.i18n.sentences import reason_text
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system.background import Stop, attempt
from app.system.paths import is_file, is_folder
from app.system.plain_text import well_formed
from app.ui.jobs import Jobs
from engine.errors import Cancelled

ONLY_TEXT = mark("It is not text. Only texts, code, PDFs and pictures can be attached.")

LARGEST_TEXT = 2 << 20  # bytes; four times that would fill the longest context there is
LARGEST_PDF = 64 << 20
LARGEST_PICTURE = 64 << 20  # as a camera writes it; a chat keeps less of it
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # begins as UTF-16 does, so it must be looked for first
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TEXT_CONTROLS = frozenset(b"\t\n\v\f\r\x1b")
_PDF = b"%PDF-"
RECORDING = ".coppice"
_OPENED = (RECORDING, ".gguf")


def read_attachment(path: Path, stop: Stop) -> Attachment:
    """The text of a file, or a picture; raises `Refused` with the reason where there is neither, and `Cancelled`."""
    try:
        content = _read_bytes(path)
    except OSError as error:
        raise Refused(tr("It cannot be read: {reason}.").format(reason=reason_text(error))) from error
    if _PDF in content[:1024]:
        text, note = _pdf(content, stop)
        return Attachment(well_formed(path.name), well_formed(text), note)
    if kind_of(content):
        return read_given(path.name, content, stop)
    text = decode(content[:LARGEST_TEXT])
    if len(content) > LARGEST_TEXT:
        raise Refused(tr("It is larger than {size} MB.").format(size=LARGEST_TEXT >> 20))
    if not text.strip():
        raise Refused(tr("It is empty."))
    return Attachment(well_formed(path.name), well_formed(text))


def read_given(name: str, given: bytes | QImage, stop: Stop) -> Attachment:
    """A picture; raises as `read_attachment`."""
    try:
        kept = read_picture(given, stop) if isinstance(given, bytes) else read_pixels(given, stop)
        return Attachment(well_formed(name), "", picture=kept)
    except OSError as error:
        raise Refused(tr("It cannot be read: {reason}.").format(reason=reason_text(error))) from error


def opened_elsewhere(path: Path) -> Path | None:
    """What another part of the window opens: a recording, or a model; of weights in safetensors their folder."""
    if path.suffix.casefold() in _OPENED:
        return path if is_file(path) else None
    folder = path.parent if path.suffix.casefold() == ".safetensors" else path
    return folder if is_file(folder / "config.json") else None


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
        raise Refused(tr(ONLY_TEXT))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(path: Path) -> bytes:
    """The whole file, or one byte more than its kind may have; a pipe or a device is never waited for."""
    if is_folder(path):
        raise Refused(tr("It is a folder. Attach the files in it."))
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise Refused(tr("It is not an ordinary file."))
        content = file.read(LARGEST_TEXT + 1)
        most = LARGEST_PDF if _PDF in content[:1024] else LARGEST_PICTURE if kind_of(content) else LARGEST_TEXT
        if most > LARGEST_TEXT < len(content):
            file.seek(0)
            content = file.read(most + 1)  # to join two parts would hold up the window
    if len(content) > most > LARGEST_TEXT:
        raise Refused(tr("It is larger than {size} MB.").format(size=most >> 20))
    return content


def _pdf(content: bytes, stop: Stop) -> tuple[str, str]:
    try:
        return read_pdf(content, LARGEST_TEXT, stop)
    except OSError as error:
        raise Refused(tr("It cannot be read: {reason}.").format(reason=reason_text(error))) from error


class AttachmentReader(QObject):
    """Files are read one after the other, in the order they were given; answers come as signals.

    Closing waits for nothing: a file that takes long is left unread.
    """

    was_read = Signal(object, object)  # path, Attachment
    was_passed_on = Signal(object, object)  # path, what another part of the window opens
    was_refused = Signal(object, str)  # path, reason

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: Jobs | None = None  # made with its thread when the first file is given
        self._is_closed = False

    def read(self, path: Path) -> None:
        """Ask for `was_read` or `was_refused`."""
        self._start(path, lambda stop: opened_elsewhere(path) or read_attachment(path, stop))

    def read_picture(self, path: Path, picture: bytes | QImage) -> None:
        """The same of a picture that was pasted; `path` is but a name."""
        self._start(path, lambda stop: read_given(path.name, picture, stop))

    def close(self) -> None:
        """Read nothing more; returns at once."""
        self._is_closed = True
        if self._jobs is not None:
            self._jobs.close()

    def _start(self, path: Path, read: Callable[[Stop], Attachment | Path]) -> None:
        if self._is_closed:
            return
        if self._jobs is None:
            self._jobs = Jobs(1, "attachments", self)
        job = self._jobs.start(lambda stop: attempt(partial(_answer, read, stop), _unexpected))
        job.done.connect(partial(self._on_done, path))

    def _on_done(self, path: Path, answer: Attachment | Path | str) -> None:
        if isinstance(answer, Attachment):
            self.was_read.emit(path, answer)
        elif isinstance(answer, Path):
            self.was_passed_on.emit(path, answer)
        else:
            self.was_refused.emit(path, answer)


def _answer(read: Callable[[Stop], Attachment | Path], stop: Stop) -> Attachment | Path | str:
    """The attachment, or what is opened elsewhere, or why there is neither."""
    try:
        return read(stop)
    except Refused as refusal:
        return str(refusal)
    except Cancelled:
        return ""  # nobody hears of it


def _unexpected(error: BaseException) -> str:
    reason = str(error) or type(error).__name__
    return tr("It cannot be read because of an error in this program ({error}).").format(error=reason)
