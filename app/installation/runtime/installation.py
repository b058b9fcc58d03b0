"""Makes a runtime from beginning to end, in the thread that runs it; it can be stopped from any other and run again."""

import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.downloads.control import Control, StopKind, Stopped
from app.downloads.destinations import remove_if_empty
from app.downloads.disk import OutOfSpaceError, is_full, out_of_space
from app.downloads.progress import Progress, Request, Tracker
from app.installation.runtime.lock import Lock
from app.installation.runtime.place import Installed, Wanted
from app.installation.runtime.progress import InstallProgress, Stage, UnpackError
from app.installation.runtime.tools import Ending, InstallDependencies, run_child
from app.installation.runtime.wheels import WheelDownload, bytes_missing, copy_checked, find_in_folder
from app.system.files import remove_folder
from engine.errors import CoppiceError, InputError
from engine.protocol.sentences import reason_of, say

_log = logging.getLogger(__name__)

_WHEELS = "wheels"  # below the staging folder
PYTHON_BYTES = 80 << 20  # the Python that is copied
_FULL_WORDS = ("no space left on device", "os error 28", "os error 112", "disk quota exceeded", "not enough space")


class Installation:
    """Makes what `wanted` asks for, as `lock` has it. Run it once more to go on after a pause or a failure."""

    def __init__(self, dependencies: InstallDependencies, lock: Lock, wanted: Wanted) -> None:
        self.wanted = wanted
        self._dependencies = dependencies
        self._lock = lock
        self._control = Control()
        self._tracker = Tracker(0, Request(lock.build), dependencies.downloads.clock)
        self._progress = InstallProgress(is_local=bool(wanted.wheels))
        self._guard = threading.Lock()
        self._leaving = False

    @property
    def progress(self) -> InstallProgress:
        """What it is doing now; for any thread."""
        with self._guard:
            progress = self._progress
        if progress.stage is Stage.DOWNLOADING:
            fetched = self._tracker.snapshot()
            return replace(progress, fetched=fetched, part=fetched.fraction)
        return progress

    def stop(self, kind: StopKind) -> None:
        """Pause it, keeping what has arrived, or cancel it, forgetting that it was wanted; for any thread."""
        self._control.stop(kind)

    def forget_stop(self) -> None:
        """Take back a stop that a failure overtook; only while no thread runs it."""
        self._control.clear()

    def leave(self) -> None:
        """Pause it because the program ends: the next start goes on by itself."""
        self._leaving = True
        self._control.stop(StopKind.PAUSE)

    def rest(self) -> None:
        """Stand where an earlier start has left it: paused, with what had arrived by then."""
        total = 0 if self.wanted.wheels else self._lock.bytes
        missing = bytes_missing(self._lock, self._dependencies.wheels) if total else 0
        kept = Progress(0, Request(self._lock.build), bytes_done=total - missing, bytes_total=total)
        with self._guard:
            self._progress = replace(self._progress, stage=Stage.PAUSED, fetched=kept)

    def run(self) -> None:
        """Go on until it is done, failed or stopped, as `progress` says; an error that nobody foresaw is raised too."""
        try:
            self._run()
        except BaseException:
            message = say("The installation has ended because of an error in this program.")
            self._enter(Stage.FAILED, CoppiceError(message, say("Try again; the log tells more.")))
            raise

    def _run(self) -> None:
        try:
            with self._dependencies.place.occupied():
                self._dependencies.place.want(replace(self.wanted, paused=False))
                self._make()
                self._dependencies.place.want(None)
        except Stopped as stopped:
            self._end_stopped(stopped.kind)
        except OutOfSpaceError as error:
            self._enter(Stage.PAUSED, error)
        except CoppiceError as error:
            self._enter(Stage.FAILED, error)
        except OSError as error:
            self._enter(*self._verdict(error))
        else:
            self._enter(Stage.DONE)

    def discard(self) -> None:
        """Cancel it while no thread runs it."""
        try:
            with self._dependencies.place.occupied():
                self._end_stopped(StopKind.CANCEL)
        except (CoppiceError, OSError) as error:
            _log.warning("What has arrived of the engine could not be removed: %s", error)

    def _end_stopped(self, kind: StopKind) -> None:
        place = self._dependencies.place
        place.want(None if kind is StopKind.CANCEL else replace(self.wanted, paused=not self._leaving))
        if kind is StopKind.CANCEL:
            self._forget_wheels()
        self._control.clear()
        self._enter(Stage.CANCELLED if kind is StopKind.CANCEL else Stage.PAUSED)

    def _make(self) -> Installed:
        place, control = self._dependencies.place, self._control
        self._enter(Stage.CHECKING)
        found = place.adopt(self._lock.fingerprint)
        if found is not None:
            self._forget_wheels()
            return found
        place.sweep()
        self._require_space()
        wheels = self._gather()
        staging = place.stage()
        try:
            self._place_wheels(staging / _WHEELS, wheels)
            self._enter(Stage.INSTALLING)
            python = self._unpack(staging, wheels)
            self._enter(Stage.VERIFYING)
            torch, sees_card = self._dependencies.verification.run(python, staging, control)
            control.check()
            lock = self._lock
            made = Installed(lock.build, lock.fingerprint, torch, python, staging, self.wanted.wheels, sees_card)
            done = place.commit(staging, made)
        finally:
            if staging.exists():
                place.sweep()
        self._forget_wheels()
        return done

    def _forget_wheels(self) -> None:
        """Ours alone, also partial ones; a folder that somebody gave is theirs."""
        for wheel in self._lock.wheels:
            for path in self._dependencies.wheels.glob(f"{wheel.file}*"):
                path.unlink(missing_ok=True)
        remove_if_empty(self._dependencies.wheels)

    def _require_space(self) -> None:
        """Where wheels and runtime lie on different disks, asking one for both is too careful by the smaller part."""
        missing = self._lock.bytes if self.wanted.wheels else bytes_missing(self._lock, self._dependencies.wheels)
        needed = missing + self._lock.installed_bytes + PYTHON_BYTES
        self._dependencies.downloads.disk.require(self._dependencies.place.folder, needed)

    def _gather(self) -> list[Path]:
        if self.wanted.wheels:
            return find_in_folder(self._lock, Path(self.wanted.wheels))
        index = self._dependencies.tools.default_index()
        self._tracker.begin()
        self._enter(Stage.DOWNLOADING)
        dependencies = self._dependencies
        return WheelDownload(
            self._lock, dependencies.wheels, index, dependencies.downloads, self._control, self._tracker
        ).run()

    def _place_wheels(self, folder: Path, paths: list[Path]) -> None:
        """Copies of a person's files, checked as copies; what was downloaded lies in our own folder and is checked."""
        folder.mkdir(mode=0o700)
        for wheel, path in zip(self._lock.wheels, paths, strict=True):
            if self.wanted.wheels:
                copy_checked(wheel, path, folder, self._control.check)
            else:
                _link(path, folder / path.name)

    def _unpack(self, staging: Path, wheels: list[Path]) -> Path:
        """The wheels go by short names below the working folder: what a path may hold does not matter then."""
        folder = staging / _WHEELS
        try:
            python = self._dependencies.tools.make_python(staging / "python", self._control.check)
        except subprocess.SubprocessError as error:
            message = say("The engine's Python could not be made ({reason}).", reason=error)
            raise UnpackError(message, say("Try again, or install Coppice again.")) from error
        tools = self._dependencies.tools
        environment = tools.install_environment(os.environ) | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(staging))
        command = tools.install_command(python, [f"./{_WHEELS}/{wheel.name}" for wheel in wheels])
        ending = run_child(command, staging, environment, self._control, self._unpacking_watch(staging))
        if ending.code:
            raise self._unpack_failure(ending)
        for rest in (folder, staging / "uv-cache"):
            remove_folder(rest)
        return python

    def _unpacking_watch(self, staging: Path) -> Callable[[], None]:
        """Follows by the disk's free space how far it is, and ends it before the disk is full."""
        disk = self._dependencies.downloads.disk
        free = disk.free_bytes(staging)

        def look() -> None:
            used = free - disk.free_bytes(staging)
            self._tell(part=max(0.0, min(1.0, used / self._lock.installed_bytes)))
            disk.require(self._dependencies.place.folder, 0)

        return look

    def _unpack_failure(self, ending: Ending) -> CoppiceError:
        _log.warning("Unpacking the wheels ended with %d: %s", ending.code, ending.printed)
        if any(words in ending.printed.casefold() for words in _FULL_WORDS):
            return out_of_space(self._dependencies.place.folder, self._lock.installed_bytes)
        reason = ending.reason([line for line in ending.printed.splitlines() if line.strip()])
        message = say("The engine's packages could not be unpacked: {reason}.", reason=reason)
        return UnpackError(message, say("Try again; the log tells more."))

    def _verdict(self, error: OSError) -> tuple[Stage, CoppiceError]:
        """What a failure of the operating system means."""
        if is_full(error):
            return Stage.PAUSED, out_of_space(self._dependencies.place.folder, self._lock.installed_bytes)
        where = error.filename or self._dependencies.place.folder
        hint = say("Check the folder and its permissions, then try again; --data-dir names another.")
        return Stage.FAILED, InputError(
            say("{place} cannot be written: {reason}.", place=where, reason=reason_of(error)), hint
        )

    def _enter(self, stage: Stage, error: CoppiceError | None = None) -> None:
        message, hint = (error.message, error.hint) if error else ("", "")
        kept = self._tracker.snapshot()
        with self._guard:
            self._progress = replace(
                self._progress, stage=stage, part=0.0, fetched=kept, message=message, hint=hint, error=error
            )

    def _tell(self, part: float) -> None:
        with self._guard:
            self._progress = replace(self._progress, part=part)


def _link(source: Path, target: Path) -> None:
    """Another name costs nothing; where the system has none to give, a copy."""
    for way in (os.link, os.symlink):
        try:
            way(source, target)
        except OSError:
            continue
        return
    shutil.copyfile(source, target)
