"""Requests to the model hub: bounded in bytes and time, stoppable, with the token for the hub's own host alone."""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from app.hub.token_trust import token_for, withheld
from app.hub.trouble import HubError, Trouble, in_trouble, offline, refusal, unusable
from app.system.background import Stop
from app.system.json_text import parse_json
from engine import __version__

if TYPE_CHECKING:
    import httpx2

REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)

_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 10.0  # between two pieces of an answer
_WHOLE_SECONDS = 60.0
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")

TokenOf = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file on the hub, from where they were asked for; `whole_bytes` is the size of all of it."""

    content: bytes
    whole_bytes: int


class HubClient:
    """The hub, from any number of threads. Every method blocks; it raises `HubError`, and `Cancelled` when stopped.

    Proxies are the environment's, else the system's. Nothing is asked of the network while the hub client is set to
    be offline. A redirect to another host is followed without the token, as the hub's content network expects.
    """

    def __init__(self, token_of: TokenOf = str, endpoint: str = "", silent_seconds: float = _SILENT_SECONDS) -> None:
        """`token_of` gives the token, or nothing; it is called in the thread of each request, as it may block."""
        self._token_of = token_of
        self._endpoint = endpoint
        self._silent_seconds = silent_seconds
        self._opening = threading.Lock()
        self._sessions: dict[tuple[str, ...], httpx2.Client] = {}  # by the proxies of the time

    @property
    def endpoint(self) -> str:
        """The hub's address, without a slash at its end."""
        if self._endpoint:
            return self._endpoint
        from huggingface_hub import constants  # noqa: PLC0415  # a fifth of a second

        return constants.ENDPOINT.rstrip("/")

    def close(self) -> None:
        """Close idle connections; requests under way end with an error."""
        for session in self._sessions.values():
            session.close()

    def json(
        self, address: str, stop: Stop, most_bytes: int, query: Mapping[str, Any] | None = None, repo: str = ""
    ) -> tuple[Any, str]:
        """An answer of the hub's API, and the address of the next page, if there is one."""
        url = urljoin(self.endpoint + "/", address)
        if _origin(url) != _origin(self.endpoint):
            raise offline("it points to another host for its next page")
        with self._answer("GET", url, stop, repo, query) as response:
            content = _read(response, most_bytes, stop)
            following = str(response.links.get("next", {}).get("url", ""))
        if len(content) > most_bytes:
            raise unusable(repo or self.endpoint, f"the hub's answer is larger than {most_bytes >> 20} MB")
        try:
            return parse_json(content), following
        except ValueError as error:
            raise unusable(repo or self.endpoint, f"the hub's answer cannot be read: {error}") from None

    def part(self, repo: str, revision: str, name: str, stop: Stop, first: int, count: int) -> Part:
        """At most `count` bytes of a file from `first` on, however much a server would send."""
        wanted = {"Range": f"bytes={first}-{first + count - 1}"}
        with self._answer("GET", self.file_address(repo, revision, name), stop, repo, headers=wanted) as response:
            if response.status_code == 206:
                match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
                if match is None or int(match[1]) != first:
                    raise unusable(repo, f"the hub sent another part of {name} than was asked for")
                return Part(_read(response, count, stop)[:count], int(match[3]))
            content = _read(response, first + count, stop)  # it ignored the range: it begins at the beginning
            announced = response.headers.get("content-length", "")
            whole = int(announced) if announced.isdecimal() and len(announced) < 19 else len(content)
            return Part(content[first : first + count], whole)

    def file(self, repo: str, revision: str, name: str, stop: Stop, most_bytes: int) -> bytes:
        """A whole small file; `HubError` if it is larger than `most_bytes`."""
        with self._answer("GET", self.file_address(repo, revision, name), stop, repo) as response:
            content = _read(response, most_bytes, stop)
        if len(content) > most_bytes:
            raise unusable(repo, f"its {name} is larger than {most_bytes >> 20} MB")
        return content

    def require_access(self, repo: str, revision: str, stop: Stop) -> None:
        """Raise `HubError`, saying which of four reasons it is, where files of the model would not be handed out."""
        with self._answer("HEAD", self.file_address(repo, revision, "config.json"), stop, repo):
            pass

    def file_address(self, repo: str, revision: str, name: str) -> str:
        """Where a file of a model lies on the hub."""
        return f"{self.endpoint}/{repo}/resolve/{quote(revision, safe='')}/{quote(name)}"

    @contextmanager
    def _answer(
        self,
        method: str,
        url: str,
        stop: Stop,
        repo: str,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator["httpx2.Response"]:
        """A response that has begun well; its body is read by whoever asked for it."""
        import httpx2  # noqa: PLC0415  # a tenth of a second, and only for whoever goes online

        stop.check()
        _require_online()
        secret = self._token_of()
        token = token_for(self.endpoint, secret)
        own = {"Authorization": f"Bearer {token}"} if token else {}
        # An encoded body could swell without end when it is unpacked.
        own |= {"User-Agent": f"coppice/{__version__}", "Accept-Encoding": "identity", **(headers or {})}
        try:
            with self._opened().stream(method, url, params=query, headers=own) as response:
                stop.check()
                if response.status_code == 416:
                    raise unusable(repo, "one of its files is shorter than such a file can be")
                if response.status_code not in (200, 206):
                    from_hub = _origin(str(response.url)) == _origin(self.endpoint)
                    if from_hub and (untold := withheld(response.status_code, self.endpoint, secret)):
                        raise in_trouble(untold)
                    raise refusal(response.status_code, response.headers, repo, self.endpoint, from_hub)
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            raise offline(_in_words(error)) from None
        except (ValueError, ImportError):
            raise offline("its address or the proxy's cannot be used; see HF_ENDPOINT and HTTPS_PROXY") from None

    def _opened(self) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415

        proxies = tuple(os.environ.get(name, "") for name in _PROXIES)
        with self._opening:
            if proxies not in self._sessions:
                for library in ("httpx2", "httpcore2"):  # they would log addresses that carry signatures
                    logging.getLogger(library).setLevel(logging.WARNING)
                limit = httpx2.Timeout(self._silent_seconds, connect=_CONNECT_SECONDS)
                self._sessions[proxies] = httpx2.Client(follow_redirects=True, timeout=limit, max_redirects=5)
            return self._sessions[proxies]


def is_offline() -> bool:
    """Whether the hub client was told to stay off the network, by `HF_HUB_OFFLINE` say."""
    from huggingface_hub import constants  # noqa: PLC0415

    return constants.HF_HUB_OFFLINE


def _require_online() -> None:
    if is_offline():
        raise HubError(
            Trouble.OFFLINE,
            "Coppice is set to stay offline, in Preferences or by HF_HUB_OFFLINE.",
            "Models on this computer can be used; change it to reach the hub.",
        )


def _read(response: "httpx2.Response", most_bytes: int, stop: Stop) -> bytes:
    """The body up to a little more than `most_bytes`, so that whoever asked can tell that there is more."""
    deadline = time.monotonic() + _WHOLE_SECONDS
    content = bytearray()
    for piece in response.iter_raw(1 << 16):
        stop.check()
        content += piece
        if len(content) > most_bytes:
            break
        if time.monotonic() > deadline:
            raise offline("it answers too slowly")
    return bytes(content[: most_bytes + 1])


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _in_words(error: Exception) -> str:
    """The library's own words lack a subject; the common cases get better ones, none gets an address."""
    name = type(error).__name__
    if "Timeout" in name:
        return "it does not answer"
    if "Proxy" in name:
        return "the proxy refuses"
    if name in ("ConnectError", "ConnectionRefusedError"):
        return "there is no connection"
    return "the connection broke"
