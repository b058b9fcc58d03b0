"""Package indexes: the simple protocol (PEP 503 and 691), asked for files whose names are known already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from app.hub.connection import STALL_SECONDS, Connection, read_whole
from app.hub.failures import Passing, UnsuitableError
from app.hub.responses import retry_after_seconds
from app.installation.runtime.failures import MissingWheelsError
from app.installation.runtime.lock import Wheel
from app.system import json_text as json
from engine.protocol.sentences import say

if TYPE_CHECKING:
    import httpx2

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
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


class IndexConnection(Connection):
    """One client for all indexes. As with a hub, `file` brings the wheels; where they lie is found first."""

    server = say("the package index")

    def __init__(self, default_index: str, stall_seconds: float = STALL_SECONDS) -> None:
        super().__init__(default_index, lambda: None, stall_seconds)
        self._default = default_index
        self._addresses: dict[str, str] = {}

    def find(self, wheel: Wheel) -> Listed:
        """Where a wheel lies. Raises `MissingWheelsError` where its index does not have it, and `Passing`."""
        page = f"{(wheel.index or self._default).rstrip('/')}/{wheel.project}/"
        with self._get(page, wheel.file, {"Accept": _ACCEPT}) as response:
            text = read_whole(response, wheel.project).decode("utf-8", "replace")
            is_json = "json" in response.headers.get("Content-Type", "")
            try:
                listed = parse_page(text, str(response.url), is_json)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Passing(say("the package index's answer is not a list of files")) from error
        found = next((each for each in listed if each.file == wheel.file), None)
        if found is None:
            raise _missing(wheel.file)
        self._addresses[wheel.file] = found.address
        return found

    def measure(self, wheel: Wheel) -> int:
        """The size of a wheel of which the index does not tell it."""
        with self._get(self._addresses[wheel.file], wheel.file) as response:
            length = response.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise UnsuitableError(
                say("The package index does not tell the size of {file}.", file=wheel.file), say("Use a wheel folder.")
            )
        return int(length)

    @contextmanager
    def file(self, repo_id: str, commit: str, name: str, first_byte: int) -> Iterator["httpx2.Response"]:  # noqa: ARG002
        """The answer that carries a wheel, from `first_byte` on if the server knows how to."""
        headers = {"Range": f"bytes={first_byte}-"} if first_byte else {}
        with self._get(self._addresses[name], name, headers) as response:
            yield response

    def _failure(self, response: "httpx2.Response", repo_id: str, from_hub: bool) -> Exception:  # noqa: ARG002
        status = response.status_code
        if status in (404, 410):
            return _missing(repo_id)
        if status in (401, 403, 451):
            message = say("The package index does not hand out {file} ({status}).", file=repo_id, status=status)
            return MissingWheelsError(message, say("Check the index and the proxy, or use a folder of wheels."))
        return Passing(
            say("{server} answered with an error ({status})", server=self.server, status=status),
            retry_after_seconds(response.headers, 0.0),
        )


def _missing(file: str) -> MissingWheelsError:
    return MissingWheelsError(
        say("The package index does not have {file}.", file=file),
        say("Use a folder of wheels, choose another build of the engine, or update Coppice."),
    )
