"""Requests to the hub: the token for its own host alone, redirects followed with care, every failure put into words."""

import functools
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from app.hub.failures import Passing, UnsuitableError
from app.hub.responses import failure, proxy_refusal
from app.hub.token_trust import token_for, withheld
from app.system.json_text import parse_json
from engine.errors import InputError

if TYPE_CHECKING:  # importing it takes a tenth of a second, and only who goes online needs it
    import ssl

    import httpx2

Token = Callable[[], str | None]
"""Finds the token of the moment, or None."""

STALL_SECONDS = 20.0
_CONNECT_SECONDS = 15.0
_MOST_REDIRECTS = 5
_MAX_JSON_BYTES = 64 << 20
_MAX_LISTING_BYTES = 16 << 20
_CHECK_ADDRESS = "Check the hub's address (HF_ENDPOINT)."
_REDIRECTS = (301, 302, 303, 307, 308)


class Connection:
    """One client of one hub, for one thread; `hang_up` is for any other. Proxies are those of environment and system.

    Where nothing arrives for `stall_seconds`, the connection counts as stalled. `server` is what messages call the
    other side.
    """

    server = "the hub"

    def __init__(self, endpoint: str, token: Token, stall_seconds: float = STALL_SECONDS) -> None:
        import httpx2  # noqa: PLC0415

        for name in ("httpx2", "httpcore2"):  # they log addresses, and signed ones let anybody in
            logging.getLogger(name).setLevel(logging.WARNING)
        self._endpoint = endpoint
        self._token = token
        timeout = httpx2.Timeout(stall_seconds, connect=_CONNECT_SECONDS)
        try:
            self._origin = _origin(httpx2.URL(endpoint))
            self._client = httpx2.Client(verify=_trust(), timeout=timeout, follow_redirects=False)
        except (httpx2.InvalidURL, ValueError, ImportError) as error:
            hint = "Check HF_ENDPOINT, HTTPS_PROXY and HTTP_PROXY."
            raise InputError(f"The address of the hub or of the proxy cannot be used: {error}.", hint) from error
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End every connection."""
        self._client.close()

    def hang_up(self) -> None:
        """Cut the connection that is being read, so that its thread wakes up; may be called from any thread."""
        with self._lock:
            if self._socket is None:
                return
            try:
                # A copy of the descriptor reaches below TLS, whose state belongs to the thread that reads.
                with socket.fromfd(self._socket.fileno(), self._socket.family, self._socket.type) as copy:
                    copy.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def listing(self, repo_id: str, revision: str) -> Any:
        """What the hub's API says of a model at a revision, with sizes and checksums of its files."""
        address = f"{self._endpoint}/api/models/{repo_id}/revision/{quote(revision, safe='')}?blobs=true"
        with self._get(address, repo_id) as response:
            body = read_whole(response, repo_id, _MAX_LISTING_BYTES)
        try:
            return parse_json(body)
        except ValueError as error:
            raise Passing("the hub's answer is not the listing of a model") from error

    @contextmanager
    def file(self, repo_id: str, commit: str, name: str, first_byte: int) -> Iterator["httpx2.Response"]:
        """The answer that carries a file, from `first_byte` on if the server knows how to."""
        headers = {"Range": f"bytes={first_byte}-"} if first_byte else {}
        with self._get(f"{self._endpoint}/{repo_id}/resolve/{commit}/{quote(name)}", repo_id, headers) as response:
            yield response

    @contextmanager
    def _get(self, address: str, repo_id: str, headers: dict[str, str] | None = None) -> Iterator["httpx2.Response"]:
        """Raises `Passing` for what may work later, else a `CoppiceError`; also for what happens while it is read."""
        import httpx2  # noqa: PLC0415

        try:
            response, url = self._follow(address, {"Accept-Encoding": "identity"} | (headers or {}))
            try:
                self._hold(response.extensions["network_stream"].get_extra_info("socket"))
                if response.status_code not in (200, 206, 416):
                    raise self._failure(response, repo_id, _origin(url) == self._origin)
                yield response
            finally:
                self._hold(None)
                response.close()
        except httpx2.InvalidURL as error:
            raise Passing(f"{self.server} sent an address that cannot be used") from error
        except httpx2.ReadTimeout as error:
            raise Passing("the connection has stalled", stalled=True) from error
        except httpx2.ProxyError as error:
            if "407" in str(error):
                raise proxy_refusal() from error
            raise Passing(f"the proxy does not let us through ({error})") from error
        except httpx2.HTTPError as error:
            raise Passing(self._words(error)) from error

    def _failure(self, response: "httpx2.Response", repo_id: str, from_hub: bool) -> Exception:
        """What to raise for an answer without content."""
        refused = withheld(response.status_code, self._endpoint, self._token()) if from_hub else None
        return refused or failure(response.status_code, response.headers, self._endpoint, repo_id, from_hub)

    def _words(self, error: "httpx2.HTTPError") -> str:
        """What went wrong, without addresses: they can be signed."""
        import httpx2  # noqa: PLC0415

        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            return f"{self.server} cannot be reached ({error or 'no answer'})"
        return "the connection was lost"

    def _hold(self, current: socket.socket | None) -> None:
        with self._lock:
            self._socket = current

    def _follow(self, address: str, headers: dict[str, str]) -> "tuple[httpx2.Response, httpx2.URL]":
        import httpx2  # noqa: PLC0415

        url, trusted = httpx2.URL(address), True
        for _ in range(_MOST_REDIRECTS):
            trusted = trusted and _origin(url) == self._origin
            token = token_for(str(url), self._token()) if trusted else None
            request = self._client.build_request("GET", url, headers=headers)
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            response = self._client.send(request, stream=True)
            if response.status_code not in _REDIRECTS:
                return response, url
            response.close()
            target = url.join(response.headers.get("Location", ""))
            if target.scheme not in ("https", url.scheme) or not target.host:
                raise UnsuitableError("The hub sends us to an address that is not safe.", _CHECK_ADDRESS)
            url = target
        raise UnsuitableError("The hub sends us from one address to the next without an end.", _CHECK_ADDRESS)


@functools.cache
def _trust() -> "ssl.SSLContext":
    """The certificates of environment and system; reading them takes a while, so once is enough."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context()


def _origin(url: "httpx2.URL") -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


def read_whole(response: "httpx2.Response", what: str, most_bytes: int = _MAX_JSON_BYTES) -> bytes:
    """The body of an answer that is no file; raises `UnsuitableError` where it has no end."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > most_bytes:
            raise UnsuitableError(f"{what} cannot be downloaded: its listing has no end.", "Do not use it.")
    return bytes(body)
