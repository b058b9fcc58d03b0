"""HTTP as the hub needs it: bounded, stoppable, the token for one host alone, redirects followed with care."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from app.hub.failures import HubError, Reason, TransientError, failure, offline, proxy_refusal
from app.hub.tokens import token_for, withheld
from app.system.background import Stop, can_be_left
from app.system.http import hang_up, keep_addresses_out_of_log, trust
from engine import __version__
from engine.errors import CoppiceError, InputError
from engine.protocol.sentences import say, sentence_of

if TYPE_CHECKING:  # importing it takes a tenth of a second, and only who goes online needs it
    import httpx2

TokenOf = Callable[[], str | None]
"""Finds the token of the moment, or nothing."""

STALL_SECONDS = 20.0
CONNECT_SECONDS = 15.0
_WHOLE_SECONDS = 60.0
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CHECK_ADDRESS = say("Check the hub's address (HF_ENDPOINT).")
_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


class HttpClient:
    """One server, from any number of threads. Requests raise `HubError`, and `Cancelled` when they are stopped.

    The token travels to the server's own host, encrypted or within this computer; after a redirect to another host it
    does not come back. Proxies are those of environment and system, as they are at each request. Where nothing
    arrives for `stall_seconds`, the connection counts as stalled.
    """

    server = say("the hub")  # as messages call it

    def __init__(
        self,
        endpoint: str,
        token_of: TokenOf = str,
        stall_seconds: float = STALL_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        """`token_of` is called in the thread of each request, as it may block."""
        self._endpoint = endpoint
        self._token_of = token_of
        self._seconds = (stall_seconds, connect_seconds)
        self._opening = threading.Lock()
        self._sessions: dict[tuple[str, ...], httpx2.Client] = {}  # by the proxies of the time

    @property
    def endpoint(self) -> str:
        """The server's address; the token goes nowhere else."""
        return self._endpoint

    def close(self) -> None:
        """Close idle connections; requests under way end with an error."""
        for session in self._sessions.values():
            session.close()

    @contextmanager
    def request(
        self,
        method: str,
        address: str,
        stop: Stop,
        what: str,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator["httpx2.Response"]:
        """A response that has begun well, about `what`; errors while its body is read are put into words too.

        A request for a range of bytes may be answered with 416: there are no such bytes.
        """
        import httpx2  # noqa: PLC0415

        stop.check()
        accepted = (200, 206, 416) if headers and "Range" in headers else (200, 206)
        try:
            response, url = self._follow(method, address, query, headers or {})
            with closing(response), stop.interrupting(lambda: hang_up(response.extensions.get("network_stream"))):
                if response.status_code not in accepted:
                    raise self._failure(response, what, _origin(url) == _origin(httpx2.URL(self.endpoint)))
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            stop.check()  # it may have been our own hanging up
            raise self._in_words(error) from error

    def _follow(
        self, method: str, address: str, query: Mapping[str, Any] | None, headers: Mapping[str, str]
    ) -> "tuple[httpx2.Response, httpx2.URL]":
        """The first answer that is no redirect, not read yet, and where it came from."""
        session, home, url = self._opened(address, query)
        # An encoded body could swell without end when it is unpacked.
        own = {"User-Agent": f"coppice/{__version__}", "Accept-Encoding": "identity", **headers}
        trusted = True
        for _ in range(_MOST_REDIRECTS):
            trusted = trusted and _origin(url) == home
            token = token_for(str(url), self._token_of()) if trusted else None
            request = session.build_request(method, url, headers=own)
            if token:
                request.headers["Authorization"] = f"Bearer {token}"
            try:
                with can_be_left():
                    response = session.send(request, stream=True)
            except (ValueError, OSError) as error:  # a host that no system can look up
                raise _bad_address(error) from error
            except RuntimeError as error:  # closed meanwhile
                raise TransientError(
                    say("the connection was lost"), shown=offline(say("the connection broke"))
                ) from error
            if response.status_code not in _REDIRECTS:
                return response, url
            response.close()
            target = url.join(response.headers.get("Location", ""))
            if target.scheme not in ("https", url.scheme) or not target.host:
                raise HubError(Reason.UNUSABLE, say("The hub sends us to an address that is not safe."), _CHECK_ADDRESS)
            url = target
        raise HubError(
            Reason.UNUSABLE, say("The hub sends us from one address to the next without an end."), _CHECK_ADDRESS
        )

    def _opened(
        self, address: str, query: Mapping[str, Any] | None = None
    ) -> "tuple[httpx2.Client, tuple[str, str, int], httpx2.URL]":
        """A session with the proxies of now, the origin of this server, and the address. Raises `HubError`."""
        import httpx2  # noqa: PLC0415

        proxies = tuple(os.environ.get(name, "") for name in _PROXIES)
        try:
            home, url = _origin(httpx2.URL(self.endpoint)), httpx2.URL(address)
            with self._opening:
                if proxies not in self._sessions:
                    self._sessions[proxies] = self._session()
                return self._sessions[proxies], home, url.copy_merge_params(query) if query else url
        except InputError as error:
            raise HubError(Reason.OFFLINE, error.message, error.hint) from error
        except (httpx2.InvalidURL, ValueError, ImportError, OSError) as error:
            raise _bad_address(error) from error

    def _session(self) -> "httpx2.Client":
        import httpx2  # noqa: PLC0415

        keep_addresses_out_of_log()
        stall, connect = self._seconds
        timeout = httpx2.Timeout(stall, connect=connect)
        return httpx2.Client(verify=trust(), timeout=timeout, follow_redirects=False)

    def _failure(self, response: "httpx2.Response", what: str, from_server: bool) -> CoppiceError:
        """What to raise for an answer without content."""
        refused = withheld(response.status_code, self.endpoint, self._token_of()) if from_server else None
        return refused or failure(response.status_code, response.headers, self.endpoint, what, from_server)

    def _in_words(self, error: Exception) -> HubError:
        """What went wrong, without addresses: they can be signed."""
        import httpx2  # noqa: PLC0415

        stalled, words, shown = False, say("the connection was lost"), say("the connection broke")
        match error:
            case httpx2.InvalidURL():
                words = say("{server} sent an address that cannot be used", server=self.server)
            case httpx2.ProxyError():
                if "407" in str(error):
                    return proxy_refusal()
                words = say("the proxy does not let us through ({reason})", reason=error)
                shown = say("the proxy refuses")
            case httpx2.ReadTimeout():
                stalled, words = True, say("the connection has stalled")
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                reason = _said(error) or say("no answer")
                words = say("{server} cannot be reached ({reason})", server=self.server, reason=reason)
                shown = say("there is no connection")
        if isinstance(error, httpx2.TimeoutException):
            shown = say("it does not answer")
        return TransientError(words, stalled=stalled, shown=offline(shown))


def _said(error: Exception) -> str:
    """The system's words without the number before them, which says nothing to a person."""
    return sentence_of(re.sub(r"^\[(?:Errno|WinError) -?\d+\] ", "", str(error)))


def read_some(response: "httpx2.Response", most_bytes: int, stop: Stop) -> bytes:
    """The body up to `most_bytes`, and a byte more where there is more. Raises `HubError` if it takes too long."""
    deadline = time.monotonic() + _WHOLE_SECONDS
    content = bytearray()
    for piece in response.iter_raw(1 << 16):
        stop.check()
        content += piece
        if len(content) > most_bytes:
            break
        if time.monotonic() > deadline:
            raise TransientError(
                say("the connection has stalled"), stalled=True, shown=offline(say("it answers too slowly"))
            )
    return bytes(content[: most_bytes + 1])


def read_whole(response: "httpx2.Response", what: str, most_bytes: int, stop: Stop) -> bytes:
    """The body of an answer that is no file; raises `HubError` where it has no end."""
    body = read_some(response, most_bytes, stop)
    if len(body) > most_bytes:
        words = say("{name} cannot be downloaded: its listing has no end.", name=what)
        raise HubError(Reason.UNUSABLE, words, say("Do not use it."))
    return body


def _bad_address(error: Exception) -> HubError:
    hint = say("Check HF_ENDPOINT, HTTPS_PROXY and HTTP_PROXY.")
    return HubError(
        Reason.OFFLINE, say("The address of the hub or of the proxy cannot be used: {reason}.", reason=error), hint
    )


def _origin(url: "httpx2.URL") -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
