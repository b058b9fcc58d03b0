"""Gathers the wheels of a lock: from a folder that somebody gave, from what has arrived before, from the network."""

import hashlib
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies
from app.downloads.destinations import FolderDestination
from app.downloads.disk import Check
from app.downloads.progress import Tracker
from app.downloads.transfer import DamagedError, Retries, Transfer
from app.hub.failures import HubError, Reason
from app.hub.files import Plan, RemoteFile
from app.installation.runtime.failures import DamagedWheelError, MissingWheelsError, UncheckableError, names_text
from app.installation.runtime.index import IndexClient
from app.installation.runtime.lock import Lock, Wheel

if TYPE_CHECKING:
    import httpx2

_PIECE_BYTES = 4 << 20


def find_in_folder(lock: Lock, folder: Path) -> list[Path]:
    """The lock's wheels in a folder, none of them read yet. Raises `MissingWheelsError` and `UncheckableError`."""
    unknown = [each.file for each in lock.wheels if not each.sha256]
    if unknown:
        message = f"This Coppice knows no checksum of {names_text(unknown)}, so files from a folder cannot be checked."
        raise UncheckableError(
            message,
            "Install from the network, where the index names the checksum, or choose another build of the engine.",
        )
    if not folder.is_dir():
        raise MissingWheelsError(f"There is no folder {folder}.", "Choose the folder that holds the wheels.")
    missing = [each.file for each in lock.wheels if not (folder / each.file).is_file()]
    if missing:
        message = f"{folder} lacks {len(missing)} of the {len(lock.wheels)} wheels: {names_text(missing)}."
        raise MissingWheelsError(message, "Put them there, or choose another folder, or install from the network.")
    return [folder / wheel.file for wheel in lock.wheels]


def copy_checked(wheel: Wheel, source: Path, shelf: Path, check: Check) -> None:
    """Copy a wheel of somebody's folder, and check the bytes of the copy: others may write into that folder meanwhile.

    More bytes than the wheel has are not copied. Raises `DamagedWheelError`.
    """
    checksum, missing = hashlib.sha256(), wheel.bytes + 1
    with source.open("rb") as content, (shelf / wheel.file).open("xb") as copy:
        while piece := content.read(min(_PIECE_BYTES, missing)):
            check()
            checksum.update(piece)
            copy.write(piece)
            missing -= len(piece)
    if checksum.hexdigest() != wheel.sha256:
        message = f"{wheel.file} in {source.parent} is not the file that was meant: its checksum differs."
        raise DamagedWheelError(message, "Copy it anew, or install from the network.")


def bytes_missing(lock: Lock, cache: Path) -> int:
    """About how much is still to be downloaded, by names and sizes alone."""
    return sum(max(0, wheel.bytes - _there(wheel, cache)) for wheel in lock.wheels)


def _there(wheel: Wheel, cache: Path) -> int:
    parts = (cache / wheel.file, cache / f"{wheel.file}.{wheel.sha256}.incomplete")
    return next((path.stat().st_size for path in parts if path.is_file()), 0)


class Fetching:
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
        plan = Plan("the engine", "", tuple(files))
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
            message = f"The package index names no checksum of {wheel.file}."
            raise HubError(Reason.UNUSABLE, message, "Choose another build of the engine.")
        exact = wheel.bytes if wheel.sha256 else listed.bytes or client.measure(wheel, self._control)
        return replace(wheel, sha256=sha256, bytes=exact).remote()

    def _fetch(self, transfer: Transfer, file: RemoteFile) -> None:
        try:
            transfer.fetch(file)
        except DamagedError as error:
            message = f"{file.name} arrived damaged twice: its checksum is not the one that was meant."
            raise DamagedWheelError(
                message, "Try again later, or use another network or a folder of wheels."
            ) from error


def _another(wheel: Wheel) -> DamagedWheelError:
    message = f"The package index has another {wheel.file} than this Coppice was tested with: its checksum differs."
    return DamagedWheelError(message, "Update Coppice, or use a folder of wheels.")
