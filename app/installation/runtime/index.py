"""Package indexes: the simple protocol (PEP 503 and 691), asked for files whose names are known already."""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from app.hub.failures import HubError, Reason, TransientError, retry_after_seconds
from app.hub.transport import STALL_SECONDS, HttpClient, read_whole
from app.installation.runtime.failures import MissingWheelsError
from app.installation.runtime.lock import Wheel
from app.system import json_text as json
from app.system.stop import Stop
from engine.errors import CoppiceError

if TYPE_CHECKING:
    import httpx2

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_MAX_PAGE_BYTES = 64 << 20
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Listed:
    """One file as an index lists it; `sha256` and `bytes` are empty and 0 where it does not tell."""

    file: str
    address: str
    sha256: str = ""
    bytes: int = 0


def parse_page(text: str, address: str, is_json: bool) -> list[Listed]:
    """The files on a project's page. Raises `ValueError` for what is none."""
    if is_json:
        files = json.loads(text)["files"]
        if not isinstance(files, list):
            raise ValueError("no files")
        return [_from_json(each, address) for each in files]
    links = _Links()
    links.feed(text)
    return [_from_link(link, address) for link in links.found]


def _from_json(entry: dict[str, Any], page: str) -> Listed:
    sha256, size = entry.get("hashes", {}).get("sha256", ""), entry.get("size", 0)
    return Listed(str(entry["filename"]), urljoin(page, entry["url"]), str(sha256), size if type(size) is int else 0)


def _from_link(link: str, page: str) -> Listed:
    address, fragment = urldefrag(urljoin(page, link))
    match = _SHA256.search(fragment)
    return Listed(unquote(urlsplit(address).path.rpartition("/")[2]), address, match[1] if match else "")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Every link is a file."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


class IndexClient(HttpClient):
    """One client for all indexes. Where a wheel lies is found first; then it can be opened."""

    server = "the package index"

    def __init__(self, default_index: str, stall_seconds: float = STALL_SECONDS) -> None:
        super().__init__(default_index, stall_seconds=stall_seconds)
        self._default = default_index
        self._addresses: dict[str, str] = {}

    def find(self, wheel: Wheel, stop: Stop) -> Listed:
        """Where a wheel lies. Raises `MissingWheelsError` where its index does not have it, and `HubError`."""
        page = f"{(wheel.index or self._default).rstrip('/')}/{wheel.project}/"
        with self.request("GET", page, stop, wheel.file, headers={"Accept": _ACCEPT}) as response:
            text = read_whole(response, wheel.project, _MAX_PAGE_BYTES, stop).decode("utf-8", "replace")
            is_json = "json" in response.headers.get("Content-Type", "")
            try:
                listed = parse_page(text, str(response.url), is_json)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise TransientError("the package index's answer is not a list of files") from error
        found = next((each for each in listed if each.file == wheel.file), None)
        if found is None:
            raise _missing(wheel.file)
        self._addresses[wheel.file] = found.address
        return found

    def measure(self, wheel: Wheel, stop: Stop) -> int:
        """The size of a wheel of which the index does not tell it."""
        with self.request("GET", self._addresses[wheel.file], stop, wheel.file) as response:
            length = response.headers.get("Content-Length", "")
        if not length.isdecimal():
            message = f"The package index does not tell the size of {wheel.file}."
            raise HubError(Reason.UNUSABLE, message, "Use a wheel folder.")
        return int(length)

    def wheel(self, name: str, stop: Stop, first_byte: int) -> AbstractContextManager["httpx2.Response"]:
        """The answer that carries a wheel, from `first_byte` on if the server knows how to."""
        headers = {"Range": f"bytes={first_byte}-"} if first_byte else {}
        return self.request("GET", self._addresses[name], stop, name, headers=headers)

    def _failure(self, response: "httpx2.Response", what: str, from_server: bool) -> CoppiceError:  # noqa: ARG002
        status = response.status_code
        if status in (404, 410):
            return _missing(what)
        if status in (401, 403, 451):
            message = f"The package index does not hand out {what} ({status})."
            return MissingWheelsError(message, "Check the index and the proxy, or use a folder of wheels.")
        return TransientError(
            f"{self.server} answered with an error ({status})", retry_after_seconds(response.headers, 0.0)
        )


def _missing(file: str) -> MissingWheelsError:
    return MissingWheelsError(
        f"The package index does not have {file}.",
        "Use a folder of wheels, choose another build of the engine, or update Coppice.",
    )
