"""Fetches one file: as many connections as it takes, every byte once, checked before it counts."""

import os

from app.downloads.control import Control
from app.downloads.destination import Destination
from app.downloads.disk import Disk, is_full, out_of_space
from app.downloads.equipment import Equipment
from app.downloads.partial import Partial, opened
from app.downloads.patience import Patience
from app.downloads.progress import State
from app.downloads.tracker import Tracker
from app.hub.connection import Connection
from app.hub.failures import Busy, DamagedError, Passing
from app.hub.plan import Plan, RemoteFile
from engine.protocol.sentences import say

_BUSY_SECONDS = 2.0
_CAN_RENAME_OPEN_FILES = os.name == "posix"


class Transfer:
    """Brings files of one plan to one destination, one after the other."""

    def __init__(
        self,
        plan: Plan,
        destination: Destination,
        connection: Connection,
        equipment: Equipment,
        control: Control,
        tracker: Tracker,
    ) -> None:
        self._plan = plan
        self._destination = destination
        self._connection = connection
        self._equipment = equipment
        self._control = control
        self._tracker = tracker
        self._unchecked_bytes = 0

    @property
    def _disk(self) -> Disk:
        return self._equipment.disk

    def fetch(self, file: RemoteFile) -> None:
        """Return when the file is at its destination.

        Raises `Stopped`, a `CoppiceError` or `OSError`; what has arrived then lies in the partial file.
        """
        while not self._destination.has(file, self._control.check):
            try:
                self._bring(file)
                break
            except Busy:
                self._tracker.wait(State.WAITING, say("another program is downloading this file"), _BUSY_SECONDS)
                self._equipment.wait(self._control, _BUSY_SECONDS)
            except OSError as error:
                if is_full(error):
                    raise out_of_space(self._destination.folder, file.bytes) from error
                raise
        self._tracker.found(file, file.bytes)

    def _bring(self, file: RemoteFile) -> None:
        """Keep the file before another program can have it open; raises `Busy` where one was faster."""
        with opened(file, self._destination.partial(file), self._disk) as partial:
            self._complete(file, partial)
            if _CAN_RENAME_OPEN_FILES:
                self._destination.keep(file)
        if _CAN_RENAME_OPEN_FILES:
            return
        try:
            self._destination.keep(file)
        except FileNotFoundError as error:
            if self._destination.folder.is_dir():
                raise Busy from error  # another program has kept it meanwhile: look again
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
            name=self._plan.repo_id,
        )
        raise DamagedError(message, say("Try again later; if it happens again, tell the model's authors."))

    def _fill(self, file: RemoteFile, partial: Partial) -> None:
        """Connect until every byte is there; patience is renewed only by bytes that no attempt had reached before."""
        patience = Patience(self._equipment, self._control, self._tracker)
        most = partial.bytes
        while not partial.is_complete:
            try:
                self._control.check()
                self._receive(file, partial)
            except Passing as passing:
                self._control.check()  # it may have been our own hanging up
                if partial.bytes > most:
                    patience.renew()
                most = max(most, partial.bytes)
                patience.endure(passing)

    def _receive(self, file: RemoteFile, partial: Partial) -> None:
        """One answer of the server, from where we are; never more bytes than the file has."""
        with self._connection.file(self._plan.repo_id, self._plan.commit, file.name, partial.bytes) as response:
            if partial.bytes and not _continues(response.headers.get("Content-Range", ""), partial.bytes, file.bytes):
                partial.restart()
                self._tracker.found(file, 0)
            if response.status_code != 200 and partial.bytes == 0:
                raise Passing(say("the server sent another part than we asked for"))
            for piece in response.iter_bytes():
                self._control.check()
                self._watch_space(len(piece), file.bytes - partial.bytes)
                partial.write(piece)
                self._tracker.arrived(file, partial.bytes, len(piece))
                if partial.is_complete:
                    return
        raise Passing(say("the connection ended early"))

    def _watch_space(self, count: int, missing: int) -> None:
        """Somebody else may be filling the disk meanwhile."""
        self._unchecked_bytes += count
        if self._unchecked_bytes >= self._disk.check_every_bytes:
            self._unchecked_bytes = 0
            self._disk.require(self._destination.folder, missing)


def _continues(content_range: str, first: int, total: int) -> bool:
    """Whether the answer begins with the byte we asked for, and is about a file of the size we know."""
    return content_range.replace(" ", "") == f"bytes{first}-{total - 1}/{total}"
