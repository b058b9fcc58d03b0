"""Gathers the wheels of a lock: from a folder that somebody gave, from what has arrived before, from the network."""

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from app.downloads.control import Control
from app.downloads.disk import Check
from app.downloads.equipment import Equipment
from app.downloads.patience import Patience
from app.downloads.plain_folder import FolderDestination
from app.downloads.tracker import Tracker
from app.downloads.transfer import Transfer
from app.hub.failures import DamagedError, Passing, UnsuitableError
from app.hub.plan import Plan, RemoteFile
from app.installation.runtime.failures import DamagedWheelError, MissingWheelsError, UncheckableError, names_text
from app.installation.runtime.index import IndexConnection
from app.installation.runtime.lock import Lock, Wheel
from engine.protocol.sentences import say

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


class Fetching:
    """Brings the wheels of one lock into a folder, every byte once; what has arrived is kept whatever happens."""

    def __init__(self, lock: Lock, cache: Path, index: str, equipment: Equipment, control: Control, tracker: Tracker):
        self._lock = lock
        self._destination = FolderDestination(cache, is_private=True)
        self._index = index
        self._equipment = equipment
        self._control = control
        self._tracker = tracker

    def run(self) -> list[Path]:
        """The wheels. Raises `Stopped`, a `CoppiceError` or `OSError`."""
        self._destination.prepare()
        with closing(IndexConnection(self._index, self._equipment.stall_seconds)) as connection:
            self._control.on_stop(connection.hang_up)
            try:
                return self._run(connection)
            finally:
                self._control.on_stop(None)

    def _run(self, connection: IndexConnection) -> list[Path]:
        wheels = list(self._lock.wheels)
        known = [each.remote() for each in wheels if each.sha256]
        self._tracker.expect(Plan("", "", tuple(known)))
        there = {each.name for each in known if self._destination.has(each, self._control.check)}
        for each in known:
            if each.name in there:
                self._tracker.found(each, each.bytes)
        files = [each.remote() if each.file in there else self._find(connection, each) for each in wheels]
        plan = Plan(say("the engine"), "", tuple(files))
        self._tracker.expect(plan)
        transfer = Transfer(plan, self._destination, connection, self._equipment, self._control, self._tracker)
        for file in files:
            self._fetch(transfer, file)
        return [self._destination.folder / file.name for file in files]

    def _find(self, connection: IndexConnection, wheel: Wheel) -> RemoteFile:
        """Ask the index until it answers; what the lock leaves open is what the index says."""
        patience = Patience(self._equipment, self._control, self._tracker)
        while True:
            try:
                self._control.check()
                listed = connection.find(wheel)
                if wheel.sha256 and listed.sha256 and listed.sha256 != wheel.sha256:
                    raise _another(wheel)
                sha256 = wheel.sha256 or listed.sha256
                if not sha256:
                    message = say("The package index names no checksum of {file}.", file=wheel.file)
                    raise UnsuitableError(message, say("Choose another build of the engine."))
                exact = wheel.bytes if wheel.sha256 else listed.bytes or connection.measure(wheel)
                return replace(wheel, sha256=sha256, bytes=exact).remote()
            except Passing as passing:
                self._control.check()  # it may have been our own hanging up
                patience.endure(passing)

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
