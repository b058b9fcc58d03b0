"""The text of PDFs, which another process finds: a hostile file takes neither the window's time nor its memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.chat.composer.pdf_program import Told
from app.i18n.translation import tr
from app.i18n.wording import mark
from app.system import json_text as json
from app.system.background import Stop
from app.system.bundle import READ_PDF
from app.system.own_program import answer_of, command

TIMEOUT_SECONDS = 20.0
_MORE_SECONDS = 5.0  # after which the process ends by itself, where nobody has ended it
_BLANK = mark("It has no text, perhaps because its pages are pictures.")
_PROGRAM = "app.chat.composer.pdf_program"


class Refused(Exception):  # noqa: N818  # what happens to the file
    """The reason why a file cannot be attached, as a sentence for the person."""


@dataclass(slots=True)
class FoundPages:
    """How many pages there are, None where it did not come to that, and the texts of the first of them.

    `is_whole`: no further ones were to be found.
    """

    count: int | None = None
    texts: list[str] = field(default_factory=list)
    is_whole: bool = False

    def within(self, most_characters: int) -> tuple[str, str]:
        """The texts under their numbers, and what was left out in words if something was; raises `Refused`."""
        if self.count is None:
            raise Refused(tr("Reading it takes too long, or too much memory."))
        kept, note = self._kept(most_characters)
        text = "\n\n".join(f"[Page {number}]\n{page}" for number, page in enumerate(kept, start=1) if page)
        note = note.format(number=len(kept), count=self.count)
        if not text:
            raise Refused(tr("No text was found in it: {note}.").format(note=note) if note else tr(_BLANK))
        return text, note

    def _kept(self, most_characters: int) -> tuple[list[str], str]:
        length = 0
        for index, page in enumerate(self.texts):
            length += len(page)
            if length > most_characters:
                return self.texts[:index], tr("only the first {number} of {count} pages: the rest is too long")
        if not self.is_whole:
            note = tr("reading was stopped after {number} of {count} pages: it took too long, or too much memory")
            return self.texts, note
        is_all = len(self.texts) == self.count
        return self.texts, "" if is_all else tr("only the first {number} of {count} pages")


def read_pdf(content: bytes, most_characters: int, stop: Stop, seconds: float = TIMEOUT_SECONDS) -> tuple[str, str]:
    """The text, and what was left out in words if something was; takes so many seconds at most.

    Raises `Refused` for a file that is encrypted, damaged or without text, `OSError` where no process can be started,
    and `Cancelled`.
    """
    found = found_in(_lines(content, most_characters, stop, seconds))
    stop.check()
    return found.within(most_characters)


def found_in(lines: bytes) -> FoundPages:
    """What the process told, whose last line may have been cut off. Raises `Refused` with its reason."""
    found = FoundPages()
    for told in _told(lines):
        if told.refused == "encrypted":
            raise Refused(tr("It is encrypted. Save a copy without a password, and attach that."))
        if told.refused:
            raise Refused(tr("It is damaged, or not a PDF."))
        if told.page is not None:
            found.texts.append(told.page)
        found.count = found.count if told.count is None else told.count
        found.is_whole |= told.is_last
    return found


def _told(lines: bytes) -> Iterator[Told]:
    for line in lines.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield Told(**json.loads(line))


def _lines(content: bytes, most_characters: int, stop: Stop, seconds: float) -> bytes:
    """What the process says until it ends, or is ended."""
    limits = (str(most_characters), str(seconds + _MORE_SECONDS))
    return answer_of([*command(READ_PDF, _PROGRAM), *limits], content, seconds, stop)
