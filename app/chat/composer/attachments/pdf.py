"""The text of a PDF, page by page, within a time and a length: such files come from anywhere."""

import io
import logging
import time
from typing import Any

from app.chat.composer.attachments.refusal import Refused
from app.i18n.translation import tr
from app.i18n.wording import mark

_MOST_PAGES = 3000
_BLANK = mark("It has no text, perhaps because its pages are pictures.")


class _OutOfTime(Exception):  # noqa: N818  # not an error: what is there is taken
    """The time is over in the middle of a page."""


def read_pdf(content: bytes, most_characters: int, deadline: float) -> tuple[str, str]:
    """The text, and what was left out in words if something was; `deadline` in seconds of the monotonic clock.

    Raises `Refused` for a file that is encrypted, damaged or without text. The library is Python alone: a hostile file
    can waste this thread's time within one page, but not run code or take memory without limit.
    """
    from pypdf import PdfReader  # noqa: PLC0415  # only for who attaches a PDF
    from pypdf.errors import DependencyError  # noqa: PLC0415

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every irregularity, and most files have some
    try:
        reader = PdfReader(io.BytesIO(content))
        readable = not reader.is_encrypted or bool(reader.decrypt(""))
        text, note = _read_pages(reader, most_characters, deadline) if readable else ("", "")
    except DependencyError:
        readable = False
    except Exception as error:  # damaged files raise anything here
        raise Refused(tr("It is damaged, or not a PDF.")) from error
    if not readable:
        raise Refused(tr("It is encrypted. Save a copy without a password, and attach that."))
    if not text.strip():
        raise Refused(tr("No text was found in it: {note}.").format(note=note) if note else tr(_BLANK))
    return text, note


def _read_pages(reader: Any, most_characters: int, deadline: float) -> tuple[str, str]:
    """The texts of the pages under their numbers, and what was left out."""

    def keep_time(*_: object) -> None:
        if time.monotonic() > deadline:
            raise _OutOfTime

    texts: list[str] = []
    length, count = 0, len(reader.pages)
    for number in range(min(count, _MOST_PAGES)):
        try:
            keep_time()
            page = reader.pages[number].extract_text(visitor_operand_before=keep_time).strip()
        except _OutOfTime:
            note = tr("reading was stopped after {number} of {count} pages: it took too long")
            return "\n\n".join(texts), note.format(number=number, count=count)
        if length + len(page) > most_characters:
            note = tr("only the first {number} of {count} pages: the rest is too long")
            return "\n\n".join(texts), note.format(number=number, count=count)
        if page:
            texts.append(f"[Page {number + 1}]\n{page}")
            length += len(page)
    left_out = tr("only the first {number} of {count} pages").format(number=_MOST_PAGES, count=count)
    return "\n\n".join(texts), left_out if count > _MOST_PAGES else ""
