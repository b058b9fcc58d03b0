"""The wheels of a lock: from a folder that somebody gave, from what has arrived before, or from a package index."""

import re
import time
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies
from app.downloads.destinations import FolderDestination
from app.downloads.disk import Check
from app.downloads.progress import Tracker
from app.downloads.transfer import DamagedError, Retries, Transfer
from app.hub.failures import HubError, Reason, TransientError, retry_after_seconds
from app.hub.files import Plan, RemoteFile
from app.hub.transport import STALL_SECONDS, HttpClient, read_whole
from app.installation.runtime.lock import Lock, Wheel
from app.installation.runtime.progress import DamagedWheelError, MissingWheelsError, UncheckableError, names_text
from app.system import json_text as json
from app.system.background import Stop
from engine.errors import CoppiceError
from engine.protocol.sentences import say

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

    server = say("the package index")

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
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise TransientError(say("the package index's answer is not a list of files")) from error
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
            message = say("The package index does not tell the size of {file}.", file=wheel.file)
            raise HubError(Reason.UNUSABLE, message, say("Use a wheel folder."))
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
            message = say("The package index does not hand out {file} ({status}).", file=what, status=status)
            return MissingWheelsError(message, say("Check the index and the proxy, or use a folder of wheels."))
        words = say("{server} answered with an error ({status})", server=self.server, status=status)
        return TransientError(words, retry_after_seconds(response.headers, time.time()))


def _missing(file: str) -> MissingWheelsError:
    return MissingWheelsError(
        say("The package index does not have {file}.", file=file),
        say("Use a folder of wheels, choose another build of the engine, or update Coppice."),
    )


_PIECE_BYTES = 4 << 20


def find_in_folder(lock: Lock, folder: Path) -> list[Path]:
    """The lock's wheels in a folder, none of them read yet. Raises `MissingWheelsError` and `UncheckableError`."""
    unknown = [each.file for each in lock.wheels if not each.sha256]
    if unknown:
        message = say(
            "This Coppice knows no checksum of {names}, so files from a folder cannot be checked.",
            names=names_text(unknown),
        )
        raise UncheckableError(
            message,
            say("Install from the network, where the index names the checksum, or choose another build of the engine."),
        )
    if not folder.is_dir():
        raise MissingWheelsError(
            say("There is no folder {folder}.", folder=folder), say("Choose the folder that holds the wheels.")
        )
    missing = [each.file for each in lock.wheels if not (folder / each.file).is_file()]
    if missing:
        message = say(
            "{folder} lacks {missing} of the {count} wheels: {names}.",
            folder=folder,
            missing=len(missing),
            count=len(lock.wheels),
            names=names_text(missing),
        )
        raise MissingWheelsError(message, say("Put them there, or choose another folder, or install from the network."))
    return [folder / wheel.file for wheel in lock.wheels]


def copy_checked(wheel: Wheel, source: Path, folder: Path, check: Check) -> None:
    """Copy a wheel of somebody's folder, and check the bytes of the copy: others may write into that folder meanwhile.

    More bytes than the wheel has are not copied. Raises `DamagedWheelError`.
    """
    checksum, missing = wheel.remote().checksum(), wheel.bytes + 1
    with source.open("rb") as content, (folder / wheel.file).open("xb") as copy:
        while piece := content.read(min(_PIECE_BYTES, missing)):
            check()
            checksum.update(piece)
            copy.write(piece)
            missing -= len(piece)
    if checksum.hexdigest() != wheel.sha256:
        message = say(
            "{file} in {folder} is not the file that was meant: its checksum differs.",
            file=wheel.file,
            folder=source.parent,
        )
        raise DamagedWheelError(message, say("Copy it anew, or install from the network."))


def bytes_missing(lock: Lock, cache: Path) -> int:
    """About how much is still to be downloaded, by names and sizes alone."""
    return sum(max(0, wheel.bytes - _there(wheel, cache)) for wheel in lock.wheels)


def _there(wheel: Wheel, cache: Path) -> int:
    parts = (cache / wheel.file, cache / f"{wheel.file}.{wheel.sha256}.incomplete")
    return next((path.stat().st_size for path in parts if path.is_file()), 0)


class WheelDownload:
    """Brings the wheels of one lock into a folder, every byte once; what has arrived is kept whatever happens."""

    def __init__(
        self, lock: Lock, cache: Path, index: str, dependencies: Dependencies, control: Control, tracker: Tracker
    ):
        self._lock = lock
        self._destination = FolderDestination(cache, is_private=True)
        self._index = index
        self._dependencies = dependencies
        self._control = control
        self._tracker = tracker

    def run(self) -> list[Path]:
        """The wheels. Raises `Stopped`, a `CoppiceError` or `OSError`."""
        self._destination.prepare()
        with closing(IndexClient(self._index, stall_seconds=self._dependencies.stall_seconds)) as client:
            return self._run(client)

    def _run(self, client: IndexClient) -> list[Path]:
        wheels = list(self._lock.wheels)
        known = [each.remote() for each in wheels if each.sha256]
        self._tracker.expect(Plan("", "", tuple(known)))
        there = {each.name for each in known if self._destination.has(each, self._control.check)}
        for each in known:
            if each.name in there:
                self._tracker.found(each, each.bytes)
        files = [each.remote() if each.file in there else self._find(client, each) for each in wheels]
        plan = Plan(say("the engine"), "", tuple(files))
        self._tracker.expect(plan)

        def open_file(file: RemoteFile, first_byte: int) -> AbstractContextManager["httpx2.Response"]:
            return client.wheel(file.name, self._control, first_byte)

        name = plan.repo_id
        transfer = Transfer(name, open_file, self._destination, self._dependencies, self._control, self._tracker)
        for file in files:
            self._fetch(transfer, file)
        return [self._destination.folder / file.name for file in files]

    def _find(self, client: IndexClient, wheel: Wheel) -> RemoteFile:
        """Ask the index until it answers; what the lock leaves open is what the index says."""
        retries = Retries(self._dependencies, self._control, self._tracker)
        return retries.call(lambda: self._look_up(client, wheel))

    def _look_up(self, client: IndexClient, wheel: Wheel) -> RemoteFile:
        listed = client.find(wheel, self._control)
        if wheel.sha256 and listed.sha256 and listed.sha256 != wheel.sha256:
            raise _another(wheel)
        sha256 = wheel.sha256 or listed.sha256
        if not sha256:
            message = say("The package index names no checksum of {file}.", file=wheel.file)
            raise HubError(Reason.UNUSABLE, message, say("Choose another build of the engine."))
        exact = wheel.bytes if wheel.sha256 else listed.bytes or client.measure(wheel, self._control)
        return replace(wheel, sha256=sha256, bytes=exact).remote()

    def _fetch(self, transfer: Transfer, file: RemoteFile) -> None:
        try:
            transfer.fetch(file)
        except DamagedError as error:
            message = say("{file} arrived damaged twice: its checksum is not the one that was meant.", file=file.name)
            raise DamagedWheelError(
                message, say("Try again later, or use another network or a folder of wheels.")
            ) from error


def _another(wheel: Wheel) -> DamagedWheelError:
    message = say(
        "The package index has another {file} than this Coppice was tested with: its checksum differs.", file=wheel.file
    )
    return DamagedWheelError(message, say("Update Coppice, or use a folder of wheels."))
