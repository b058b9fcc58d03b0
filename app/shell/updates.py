"""News of newer versions: one static JSON file at an address that a person can set, asked for only if they want it."""

import re
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.hub.failures import HubError, Reason, TransientError
from app.hub.transport import HttpClient, read_whole
from app.i18n.sentences import translated
from app.i18n.translation import tr
from app.system import json_text as json
from app.system.background import Stop
from engine.errors import CoppiceError
from engine.protocol.sentences import say

if TYPE_CHECKING:
    import httpx2

_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){0,3}")
_LONGEST_NOTES = 300
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Release:
    """A version that can be had: its number, the page to get it from, and a sentence about it."""

    version: str
    page: str
    notes: str = ""


def parse_release(text: bytes | str) -> Release:
    """A release as `{"version": "1.2.0", "page": "https://...", "notes": "..."}`. Raises `ValueError` otherwise."""
    said: Any = json.loads(text)
    said = said if isinstance(said, dict) else {}
    version, page, notes = said.get("version"), said.get("page"), said.get("notes", "")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ValueError("no version")
    if not isinstance(page, str) or urlsplit(page).scheme != "https" or not urlsplit(page).hostname:
        raise ValueError("no https page")
    return Release(version, page, " ".join(notes.split())[:_LONGEST_NOTES] if isinstance(notes, str) else "")


def is_newer(version: str, than: str) -> bool:
    """Compare numbers; what follows them in a version under development does not count."""
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


class ReleaseClient(HttpClient):
    """One client of the server that has the file."""

    server = say("the server with news of versions")

    def __init__(self, address: str) -> None:
        super().__init__(address)

    def newest(self, stop: Stop) -> Release:
        """What the file says. Raises `CoppiceError`."""
        try:
            with self.request("GET", self.endpoint, stop, "news") as response:
                return parse_release(read_whole(response, "news", _MAX_BYTES, stop))
        except TransientError as passing:
            words = tr("News of versions cannot be had: {reason}.").format(reason=translated(passing.words))
            raise CoppiceError(words, tr("Try again later.")) from passing
        except (ValueError, RecursionError) as error:
            words = tr("What {address} holds is no news of a version.").format(address=self.endpoint)
            raise HubError(Reason.UNUSABLE, words, tr("Check the address in Preferences, Advanced.")) from error

    def _failure(self, response: "httpx2.Response", what: str, from_server: bool) -> CoppiceError:  # noqa: ARG002
        return TransientError(say("{server} answered with {status}", server=self.server, status=response.status_code))


def newest_release(address: str) -> Release:
    """Ask once. Blocks; raises `CoppiceError`."""
    with closing(ReleaseClient(address)) as client:
        return client.newest(Stop())
