"""Several downloads, a few at a time, each on a thread of its own; those that are not over outlive the program."""

import logging
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.downloads.control import StopKind
from app.downloads.dependencies import Dependencies
from app.downloads.progress import Progress, Request, State
from app.hub.names import is_repo_id, is_revision, is_writable_path
from app.system import json_text as json
from app.system.background import attempt, start, still_running
from engine.files import write_atomically
from engine.protocol.variants import is_variant

if TYPE_CHECKING:  # a start of the window needs no hub; what talks to it is read with the first download
    from app.downloads.download import Download
    from app.hub.files import Plan

_log = logging.getLogger(__name__)

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One download: what was asked for and, once the hub has said it, what that consists of."""

    request: Request
    plan: "Plan | None" = None


class Journal:
    """The file and nothing else; one thread at a time. A file that cannot be read counts as empty, and is replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[Entry, ...]:
        """What was written last, less whatever in it makes no sense."""
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            entries = stored["downloads"] if stored["version"] == _VERSION else []
            return tuple(_entry(each) for each in entries)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning("The list of downloads in %s cannot be read: %s", self._path, error)
            return ()

    def write(self, entries: Iterable[Entry]) -> None:
        """Replace it; where that fails, downloads go on all the same."""
        stored = {"version": _VERSION, "downloads": [asdict(each) for each in entries]}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, json.dumps(stored, indent=1).encode())
        except OSError as error:
            _log.warning("The list of downloads cannot be written to %s: %s", self._path, error)


def _entry(stored: Any) -> Entry:
    """Checked as if it came from outside: names in it become paths. Raises `ValueError`, `KeyError`, `TypeError`."""
    from app.hub.files import Plan, RemoteFile  # noqa: PLC0415

    variant = _text(stored["request"].get("variant", ""))
    repo, revision, to = (_text(stored["request"][name]) for name in ("repo_id", "revision", "to"))
    request = Request(repo, revision, to, variant)
    _require(is_repo_id(request.repo_id) and is_revision(request.revision) and (not variant or is_variant(variant)))
    described = stored["plan"]
    if described is None:
        return Entry(request)
    files = tuple(
        RemoteFile(_text(each["name"]), int(each["bytes"]), _text(each["etag"])) for each in described["files"]
    )
    commit = _text(described["commit"])
    _require(all(is_writable_path(each.name) and _is_hex(each.etag) and each.bytes >= 0 for each in files))
    _require(_is_hex(commit))
    return Entry(request, Plan(request.repo_id, commit, files))


def _text(value: Any) -> str:
    _require(isinstance(value, str))
    return str(value)


def _is_hex(value: str) -> bool:
    return bool(value) and set(value) <= set("0123456789abcdef")


def _require(sane: bool) -> None:
    if not sane:
        raise ValueError("it holds something that is not a download")


SIMULTANEOUS = 2
_SECONDS_TO_PART = 5.0


class DownloadQueue:
    """Every method may be called from any thread, and returns at once unless it says otherwise.

    A finished, failed or cancelled download stays listed until it is forgotten, or resumed.
    """

    def __init__(
        self, journal: Journal, dependencies: Dependencies | None = None, simultaneous: int = SIMULTANEOUS
    ) -> None:
        self._journal = journal
        self._dependencies = dependencies or Dependencies()
        self._simultaneous = simultaneous
        self._ids = count(1)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._downloads: dict[int, Download] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._again: set[int] = set()
        self._former: tuple[Entry, ...] | None = None  # of earlier sessions, not restored yet; None: not read yet
        self._closing = False

    def restore(self) -> None:
        """List what earlier sessions have not finished, paused; reads the disk, so not for the window's thread."""
        restored, former = [], self._journal.read()
        with self._lock:
            self._former = former = former if self._former is None else self._former
        for entry in former:
            download = self._make(next(self._ids), entry.request, entry.plan)
            download.rest(State.PAUSED)
            attempt(partial(_measure, download), lambda _error: None)  # one that fails keeps no other from the list
            restored.append(download)
        with self._lock:
            asked = {each.request for each in self._downloads.values()}
            earlier = {each.progress.id: each for each in restored if each.request not in asked}
            self._downloads = earlier | self._downloads
            self._former = ()

    def add(self, request: Request) -> int:
        """Queue a download and return its id; one for the same is taken up again, unless it is done or cancelled."""
        with self._lock:
            same = next((each for each, download in self._downloads.items() if download.request == request), None)
            if same is not None and self._downloads[same].progress.state not in (State.DONE, State.CANCELLED):
                self.resume(same)
                return same
            self._downloads.pop(same or 0, None)
            number = next(self._ids)
            self._downloads[number] = self._make(number, request)
            self._save()
            self._start_waiting()
            return number

    def pause(self, number: int) -> None:
        """Stop it and keep what has arrived."""
        with self._lock:
            download = self._downloads[number]
            self._again.discard(number)
            if number in self._threads:
                download.stop(StopKind.PAUSE)
            elif download.progress.state is State.QUEUED:
                download.rest(State.PAUSED)

    def resume(self, number: int) -> None:
        """Go on, in turn; also after a failure or a cancel. One that is just stopping goes on when it has stopped."""
        with self._lock:
            download = self._downloads[number]
            if number in self._threads:
                self._again.add(number)
            elif download.progress.state not in (State.QUEUED, State.DONE):
                download.rest(State.QUEUED)
                self._save()
                self._start_waiting()

    def cancel(self, number: int) -> None:
        """Stop it and remove what is partial, nothing else."""
        with self._lock:
            download = self._downloads[number]
            self._again.discard(number)
            if number in self._threads:
                download.stop(StopKind.CANCEL)
            elif download.progress.state is not State.DONE:
                download.discard()
                self._save()

    def forget(self, number: int) -> None:
        """Take one that is over off the list; files stay. Of a failed one, cancel first to remove what is partial."""
        with self._lock:
            if self._downloads[number].progress.state.is_over and number not in self._threads:
                del self._downloads[number]
                self._save()

    def snapshot(self) -> tuple[Progress, ...]:
        """Every listed download, the oldest first."""
        with self._lock:
            return tuple(download.progress for download in self._downloads.values())

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no thread is at work; whether that came to pass in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._threads, seconds)

    def close(self) -> None:
        """Stop everything, keeping what has arrived; returns when all threads are gone or only wait for the hub.

        Or after seconds.
        """
        with self._lock:
            self._closing = True
            if self._former is not None:  # else nothing has changed
                self._save()
            for number in self._threads:
                self._downloads[number].stop(StopKind.PAUSE)
            threads = list(self._threads.values())
        still_running(_SECONDS_TO_PART, threads)

    def _make(self, number: int, request: Request, plan: "Plan | None" = None) -> "Download":
        from app.downloads.download import Download  # noqa: PLC0415

        return Download(number, request, self._dependencies, plan)

    def _start_waiting(self) -> None:
        """Give free places to those who wait, the oldest first. The lock is held."""
        for number, download in self._downloads.items():
            if self._closing or len(self._threads) >= self._simultaneous:
                return
            if number not in self._threads and download.progress.state is State.QUEUED:
                self._threads[number] = start("downloads", partial(self._work, number, download))

    def _work(self, number: int, download: "Download") -> None:
        try:
            attempt(partial(download.run, self._save), lambda _error: download.fail())
        finally:
            self._leave(number, download)

    def _leave(self, number: int, download: "Download") -> None:
        """The end of its thread; whatever goes wrong here, those that wait have their turn."""
        with self._changed:
            del self._threads[number]
            try:
                if number in self._again:
                    self._again.discard(number)
                    if download.progress.state is not State.DONE:
                        download.rest(State.QUEUED)
                self._save()
            finally:
                self._start_waiting()
                self._changed.notify_all()

    def _save(self) -> None:
        """Write what is to be done, and first what earlier sessions have left, as long as it is not restored."""
        over = (State.DONE, State.CANCELLED)
        with self._lock:
            if self._former is None:
                self._former = self._journal.read()
            asked = {each.request for each in self._downloads.values()}
            former = [each for each in self._former if each.request not in asked]
            going = [each for each in self._downloads.values() if each.progress.state not in over]
            self._journal.write([*former, *(Entry(each.request, each.plan) for each in going)])


def _measure(download: "Download") -> None:
    try:
        download.measure()
    except OSError as error:
        _log.warning("What was downloaded of %s cannot be looked at: %s", download.request.source, error)
