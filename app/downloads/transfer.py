"""Fetches one file: as many connections as it takes, every byte once, checked before it counts."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies
from app.downloads.destinations import Destination
from app.downloads.disk import Disk, FileInUse, Partial, is_full, opened, out_of_space
from app.downloads.progress import State, Tracker
from app.hub.failures import TransientError
from app.hub.files import RemoteFile
from engine.errors import CoppiceError
from engine.protocol.sentences import say

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

_BUSY_SECONDS = 2.0
_CAN_RENAME_OPEN_FILES = os.name == "posix"


OpenFile = Callable[[RemoteFile, int], AbstractContextManager["httpx2.Response"]]
"""The answer that carries a file, from that byte on if the server knows how to; raises `HubError` and `Cancelled`."""


class DamagedError(CoppiceError):
    """A file arrived twice with another checksum than the hub names."""


class UnreachableError(CoppiceError):
    """So many attempts have failed that it makes no sense to go on without being asked; what has arrived is kept."""


class Retries:
    """Counts failures in a row for one step of a download, and waits between attempts."""

    def __init__(self, dependencies: Dependencies, control: Control, tracker: Tracker) -> None:
        self._dependencies = dependencies
        self._control = control
        self._tracker = tracker
        self._failures = 0

    def reset(self) -> None:
        """Something has been achieved."""
        self._failures = 0

    def call(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns as soon as it succeeds."""
        while True:
            self._control.check()
            try:
                return attempt()
            except TransientError as error:
                self.wait(error)

    def wait(self, error: TransientError) -> None:
        """Wait for the next attempt; a first stall is answered at once. Raises `UnreachableError` when it is enough."""
        self._control.check()  # it may have been our own hanging up
        self._failures += 1
        retry = self._dependencies.retry
        if retry.gives_up(self._failures):
            words = error.words[:1].upper() + error.words[1:]
            hint = say("Check the connection, then resume; what has arrived is kept.")
            raise UnreachableError(say("{reason}, {count} times in a row.", reason=words, count=self._failures), hint)
        at_once = error.stalled and self._failures == 1
        seconds = 0.0 if at_once else retry.seconds(self._failures, error.retry_after)
        self._tracker.wait(State.STALLED if error.stalled else State.WAITING, error.words, seconds)
        self._dependencies.wait(self._control, seconds)


class Transfer:
    """Brings files of the model `name` to one destination, one after the other."""

    def __init__(
        self,
        name: str,
        open_file: OpenFile,
        destination: Destination,
        dependencies: Dependencies,
        control: Control,
        tracker: Tracker,
    ) -> None:
        self._name = name
        self._open_file = open_file
        self._destination = destination
        self._dependencies = dependencies
        self._control = control
        self._tracker = tracker
        self._unchecked_bytes = 0

    @property
    def _disk(self) -> Disk:
        return self._dependencies.disk

    def fetch(self, file: RemoteFile) -> None:
        """Return when the file is at its destination.

        Raises `Stopped`, a `CoppiceError` or `OSError`; what has arrived then lies in the partial file.
        """
        while not self._destination.has(file, self._control.check):
            try:
                self._bring(file)
                break
            except FileInUse:
                self._tracker.wait(State.WAITING, say("another program is downloading this file"), _BUSY_SECONDS)
                self._dependencies.wait(self._control, _BUSY_SECONDS)
            except OSError as error:
                if is_full(error):
                    raise out_of_space(self._destination.folder, file.bytes) from error
                raise
        self._tracker.found(file, file.bytes)

    def _bring(self, file: RemoteFile) -> None:
        """Keep the file before another program can have it open; raises `FileInUse` where one was faster."""
        with opened(file, self._destination.partial(file), self._disk) as partial:
            self._complete(file, partial)
            if _CAN_RENAME_OPEN_FILES:
                self._keep(file)
        if not _CAN_RENAME_OPEN_FILES:
            self._keep(file)

    def _keep(self, file: RemoteFile) -> None:
        try:
            self._destination.keep(file)
        except FileNotFoundError as error:
            if self._destination.folder.is_dir():
                raise FileInUse from error  # another program has kept or removed it meanwhile: look again
            raise

    def _complete(self, file: RemoteFile, partial: Partial) -> None:
        """Fill the partial file with genuine bytes; a damaged file is fetched once more."""
        self._tracker.enter(State.VERIFYING)
        partial.take_up(self._control.check)
        self._tracker.found(file, partial.bytes)
        for _ in range(2):
            self._fill(file, partial)
            self._tracker.enter(State.VERIFYING)
            if partial.is_genuine:
                partial.sync()
                return
            partial.restart()
            self._tracker.found(file, 0)
        message = say(
            "{file} of {name} arrived damaged twice: its checksum is not the one the hub names.",
            file=file.name,
            name=self._name,
        )
        raise DamagedError(message, say("Try again later; if it happens again, tell the model's authors."))

    def _fill(self, file: RemoteFile, partial: Partial) -> None:
        """Connect until every byte is there; only bytes that no attempt had reached before reset the retries."""
        retries = Retries(self._dependencies, self._control, self._tracker)
        most = partial.bytes
        while not partial.is_complete:
            try:
                self._control.check()
                self._receive(file, partial)
            except TransientError as error:
                if partial.bytes > most:
                    retries.reset()
                most = max(most, partial.bytes)
                retries.wait(error)

    def _receive(self, file: RemoteFile, partial: Partial) -> None:
        """One answer of the server, from where we are; never more bytes than the file has."""
        with self._open_file(file, partial.bytes) as response:
            if partial.bytes and not _continues(response.headers.get("Content-Range", ""), partial.bytes, file.bytes):
                partial.restart()
                self._tracker.found(file, 0)
            if response.status_code != 200 and partial.bytes == 0:
                raise TransientError(say("the server sent another part than we asked for"))
            for piece in response.iter_bytes():
                self._control.check()
                self._watch_space(len(piece), file.bytes - partial.bytes)
                partial.write(piece)
                self._tracker.arrived(file, partial.bytes, len(piece))
                if partial.is_complete:
                    return
        raise TransientError(say("the connection ended early"))

    def _watch_space(self, count: int, missing: int) -> None:
        """Somebody else may be filling the disk meanwhile."""
        self._unchecked_bytes += count
        if self._unchecked_bytes >= self._disk.check_every_bytes:
            self._unchecked_bytes = 0
            self._disk.require(self._destination.folder, missing)


def _continues(content_range: str, first: int, total: int) -> bool:
    """Whether the answer begins with the byte we asked for, and is about a file of the size we know."""
    return content_range.replace(" ", "") == f"bytes{first}-{total - 1}/{total}"
