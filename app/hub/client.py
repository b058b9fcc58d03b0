"""The hub's API and files: answers within bounds, parts of files, and whole ones as they arrive."""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from app.hub.failures import HubError, Reason, TransientError, offline, unusable
from app.hub.place import HubPlace, hub_place
from app.hub.transport import HttpClient, TokenOf, read_some, read_whole
from app.system.background import Stop
from app.system.json_text import parse_json
from engine.protocol.sentences import say

if TYPE_CHECKING:
    import httpx2

_LOOK_UP_SECONDS = 10.0  # between two pieces of an answer that a person waits for
_SHORT_CONNECT_SECONDS = 5.0
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file on the hub, from where they were asked for; `whole_bytes` is the size of all of it."""

    content: bytes
    whole_bytes: int


class HubClient(HttpClient):
    """The hub, wherever it is at each request. Every method blocks; raises `HubError`, and `Cancelled` when stopped.

    Nothing is asked of the network while the hub is set to be offline.
    """

    def __init__(
        self,
        token_of: TokenOf = str,
        find_place: Callable[[], HubPlace] = hub_place,
        stall_seconds: float = _LOOK_UP_SECONDS,
        connect_seconds: float = _SHORT_CONNECT_SECONDS,
    ) -> None:
        super().__init__("", token_of, stall_seconds, connect_seconds)
        self._find_place = find_place

    @property
    def endpoint(self) -> str:
        """The hub's address, without a slash at its end."""
        return self._find_place().endpoint

    def json(
        self, address: str, stop: Stop, most_bytes: int, query: Mapping[str, Any] | None = None, repo: str = ""
    ) -> tuple[Any, str]:
        """An answer of the hub's API, and the address of the next page, if there is one."""
        url = urljoin(self.endpoint + "/", address)
        if urlsplit(url)[:2] != urlsplit(self.endpoint)[:2]:
            raise offline(say("it points to another host for its next page"))
        what = repo or self.endpoint
        with self._ask(url, stop, repo, query) as response:
            content = read_whole(response, what, most_bytes, stop)
            following = str(response.links.get("next", {}).get("url", ""))
        try:
            return parse_json(content), following
        except ValueError as error:
            shown = unusable(what, say("the hub's answer cannot be read: {reason}", reason=error))
            raise TransientError(say("the hub's answer is not the listing of a model"), shown=shown) from None

    def part(self, repo: str, revision: str, name: str, stop: Stop, first: int, count: int) -> Part:
        """At most `count` bytes of a file from `first` on, however much a server would send."""
        wanted = {"Range": f"bytes={first}-{first + count - 1}"}
        with self._ask(self.file_address(repo, revision, name), stop, repo, headers=wanted) as response:
            if response.status_code == 416:
                raise unusable(repo, say("one of its files is shorter than such a file can be"))
            if response.status_code == 206:
                match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
                if match is None or int(match[1]) != first:
                    raise unusable(repo, say("the hub sent another part of {name} than was asked for", name=name))
                return Part(read_some(response, count, stop)[:count], int(match[3]))
            content = read_some(response, first + count, stop)  # it ignored the range: it begins at the beginning
            announced = response.headers.get("content-length", "")
            whole = int(announced) if announced.isdecimal() and len(announced) < 19 else len(content)
            return Part(content[first : first + count], whole)

    def small_file(self, repo: str, revision: str, name: str, stop: Stop, most_bytes: int) -> bytes:
        """A whole file; `HubError` if it is larger than `most_bytes`."""
        with self._ask(self.file_address(repo, revision, name), stop, repo) as response:
            content = read_some(response, most_bytes, stop)
        if len(content) > most_bytes:
            raise unusable(repo, say("its {file} is larger than {size} MB", file=name, size=most_bytes >> 20))
        return content

    def file(
        self, repo: str, revision: str, name: str, stop: Stop, first_byte: int
    ) -> AbstractContextManager["httpx2.Response"]:
        """The answer that carries a file, from `first_byte` on if the server knows how to; it is not read yet."""
        headers = {"Range": f"bytes={first_byte}-"} if first_byte else {}
        return self._ask(self.file_address(repo, revision, name), stop, repo, headers=headers)

    def require_online(self) -> None:
        """Raise `HubError` where the hub must not be asked."""
        if self._find_place().is_offline:
            words = say("Coppice is set to stay offline, in Preferences or by HF_HUB_OFFLINE.")
            hint = say("Models on this computer can be used; change it to reach the hub.")
            raise HubError(Reason.OFFLINE, words, hint)

    def file_address(self, repo: str, revision: str, name: str) -> str:
        """Where a file of a model lies on the hub."""
        return f"{self.endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"

    def _ask(
        self,
        url: str,
        stop: Stop,
        repo: str,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AbstractContextManager["httpx2.Response"]:
        stop.check()
        self.require_online()
        return self.request("GET", url, stop, repo, query, headers)
