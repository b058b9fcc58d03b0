"""Pictures as clients send them: as base64 in the request itself. Addresses and paths are never followed.

A server that fetches what it is told to would ask other computers of its network on behalf of strangers.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NoReturn

from pydantic import AfterValidator

from engine.data_urls import base64_begin, decode_base64
from engine.errors import InputError
from engine.protocol.messages import ChatMessage
from engine.protocol.pictures import MOST_PICTURE_BYTES, Picture
from engine.protocol.sentences import say
from engine.serving.guard.errors import ApiError

if TYPE_CHECKING:
    from engine.engine import Engine

MOST_BASE64 = 4 * -(-MOST_PICTURE_BYTES // 3)  # characters of one picture


@dataclass(frozen=True, slots=True)
class SentPicture:
    """A picture in the text of a turn, behind its first `at` characters: base64 from the character `begin` on."""

    base64: str = field(repr=False)
    begin: int = 0
    at: int = 0

    def read(self) -> Picture:
        """The picture itself. Raises `InputError` for what is no base64."""
        try:
            return Picture(decode_base64(self.base64, self.begin), self.at)
        except ValueError:
            words = say("A picture is not sent as base64 that can be read.")
            raise InputError(words, say("Use the standard alphabet, with padding and without line breaks.")) from None


def _require_data_url(url: str) -> str:
    """A URL as it is; raises `InputError` unless it holds the picture itself, and `ApiError` (413) for a long one."""
    begin = base64_begin(url)
    if begin is None:
        words = say("Pictures are not fetched from addresses or files here.")
        raise InputError(words, say("Send the picture itself as a data: URL (data:image/png;base64,…)."))
    _require_fit(len(url) - begin)
    return url


def _require_base64(text: str) -> str:
    _require_fit(len(text))
    return text


def _require_fit(characters: int) -> None:
    if characters > MOST_BASE64:
        words = say("A picture has more than {mib} MiB.", mib=MOST_PICTURE_BYTES >> 20)
        raise ApiError(413, words, say("Send a smaller one."), code="request_too_large")


PictureUrl = Annotated[str, AfterValidator(_require_data_url)]
"""A data: URL with base64."""
Base64 = Annotated[str, AfterValidator(_require_base64)]
"""Base64 alone."""


def sent_as_url(url: str) -> SentPicture:
    """The picture of a `PictureUrl`."""
    return SentPicture(url, base64_begin(url) or 0)


def require_pictures_read(engine: "Engine", chat: tuple[ChatMessage, ...]) -> None:
    """Raise `InputError` where pictures are shown to a model that reads none."""
    if any(turn.pictures for turn in chat) and not engine.reads_pictures:
        words = engine.no_pictures or say("The loaded model reads no pictures.")
        raise InputError(words, say("Send text alone, or have a model loaded that reads pictures."))


def refuse_pictures_in_text() -> NoReturn:
    """Raise `InputError` for pictures beside a text that no chat template writes."""
    words = say("A text that is read as it stands cannot show pictures.")
    raise InputError(words, say("Send them in a message of a chat."))
