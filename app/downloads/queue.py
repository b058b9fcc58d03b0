"""Several downloads, a few at a time, each on a thread of its own; those that are not over outlive the program."""

import logging
import threading
from functools import partial
from itertools import count

from app.downloads.control import Wish
from app.downloads.download import Download
from app.downloads.equipment import Equipment
from app.downloads.journal import Entry, Journal
from app.downloads.progress import Progress, Request, State
from app.system.background import attempt, start

_log = logging.getLogger(__name__)

SIMULTANEOUS = 2
_SECONDS_TO_PART = 5.0


class DownloadQueue:
    """Every method may be called from any thread, and returns at once unless it says otherwise.

    A finished, failed or cancelled download stays listed until it is forgotten, or resumed.
    """

    def __init__(self, journal: Journal, equipment: Equipment | None = None, simultaneous: int = SIMULTANEOUS) -> None:
        self._journal = journal
        self._equipment = equipment or Equipment()
        self._simultaneous = simultaneous
        self._ids = count(1)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._downloads: dict[int, Download] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._again: set[int] = set()
        self._closing = False

    def restore(self) -> None:
        """List what earlier sessions have not finished, paused; reads the disk, so not for the window's thread."""
        restored = []
        for entry in self._journal.read():
            download = Download(next(self._ids), entry.request, self._equipment, entry.plan)
            download.rest(State.PAUSED)
            attempt(partial(_measure, download), lambda _error: None)  # one that fails keeps no other from the list
            restored.append(download)
        with self._lock:
            asked = {each.request for each in self._downloads.values()}
            earlier = {each.progress.id: each for each in restored if each.request not in asked}
            self._downloads = earlier | self._downloads

    def add(self, request: Request) -> int:
        """Queue a download and return its id; one for the same that is not done is taken up again instead."""
        with self._lock:
            same = next((each for each, download in self._downloads.items() if download.request == request), None)
            if same is not None and self._downloads[same].progress.state is not State.DONE:
                self.resume(same)
                return same
            self._downloads.pop(same or 0, None)
            number = next(self._ids)
            self._downloads[number] = Download(number, request, self._equipment)
            self._save()
            self._start_waiting()
            return number

    def pause(self, number: int) -> None:
        """Stop it and keep what has arrived."""
        with self._lock:
            download = self._downloads[number]
            self._again.discard(number)
            if number in self._threads:
                download.stop(Wish.PAUSE)
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
                download.stop(Wish.CANCEL)
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
        """Stop everything, keeping what has arrived; returns when all threads are gone, or after seconds."""
        with self._lock:
            self._closing = True
            self._save()
            for number in self._threads:
                self._downloads[number].stop(Wish.PAUSE)
        self.wait_idle(_SECONDS_TO_PART)

    def _start_waiting(self) -> None:
        """Give free places to those who wait, the oldest first. The lock is held."""
        for number, download in self._downloads.items():
            if self._closing or len(self._threads) >= self._simultaneous:
                return
            if number not in self._threads and download.progress.state is State.QUEUED:
                self._threads[number] = start("downloads", partial(self._work, number, download))

    def _work(self, number: int, download: Download) -> None:
        try:
            attempt(partial(download.run, self._save), lambda _error: download.fail())
        finally:
            self._leave(number, download)

    def _leave(self, number: int, download: Download) -> None:
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
        with self._lock:
            over = (State.DONE, State.CANCELLED)
            going = [each for each in self._downloads.values() if each.progress.state not in over]
            self._journal.write(Entry(each.request, each.plan) for each in going)


def _measure(download: Download) -> None:
    try:
        download.measure()
    except OSError as error:
        _log.warning("What was downloaded of %s cannot be looked at: %s", download.request.repo_id, error)
