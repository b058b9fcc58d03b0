"""Where the runtime lies, and the one rule of it: what `active.json` names is whole and verified, all else is rubbish.

runtime/active.json          names the runtime that is used, written last, by one atomic swap
runtime/wanted.json          what somebody asked for and is not done yet; the next start goes on with it
runtime/BUILD-LOCK-XXXX/     a runtime; `runtime.json` in it was written after it was verified, and goes with its use
runtime/.staging-XXXX/       one that is being made; nobody trusts it
"""

import logging
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.system import json_text as json
from app.system.files import remove_folder, write_private
from engine.errors import CoppiceError
from engine.files import remove, retried, sync_folder
from engine.protocol.sentences import say

_log = logging.getLogger(__name__)

_STAGING = ".staging-"
_MARKER = "runtime.json"
_FORMAT = 1
_FOR_CARDS = ("cuda", "rocm")


class OccupiedError(CoppiceError):
    """Another Coppice of the same person is making the runtime."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asked for. `wheels` is a folder of wheels, or empty for the network; `paused` by that person."""

    build: str
    wheels: str = ""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Installed:
    """A runtime that was verified. `python` is the path of its program, `torch` the version that it holds.

    `wheels` is the folder that it was made from; empty for the network. `sees_card`: torch found one that it can
    compute on, when the runtime was made.
    """

    build: str
    fingerprint: str
    torch: str
    python: Path
    folder: Path
    wheels: str = ""
    sees_card: bool = False

    @property
    def misses_card(self) -> bool:
        """Whether it was made for a card and does not find it: then the processor computes."""
        return self.build in _FOR_CARDS and not self.sees_card


class RuntimePlace:
    """Reads and writes the folder; every method may raise `OSError`."""

    def __init__(self, folder: Path, sync: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self._sync = sync or _sync_everything

    # ---- what is there ----------------------------------------------------------------------------------------------

    def installed(self) -> Installed | None:
        """The runtime to use; None where there is none, or where it has been taken apart."""
        named = _read(self.folder / "active.json").get("folder")
        if not isinstance(named, str) or not named or Path(named).name != named:
            return None
        return self._marked(self.folder / named)

    def _marked(self, folder: Path) -> Installed | None:
        about = _read(folder / _MARKER)
        texts = [about.get(name) for name in ("build", "fingerprint", "torch", "python")]
        if about.get("format") != _FORMAT or not all(isinstance(each, str) for each in texts):
            return None
        build, fingerprint, torch, python = map(str, texts)
        program = folder / python
        wheels = str(about.get("wheels") or "")
        if not program.is_file():
            return None
        return Installed(build, fingerprint, torch, program, folder, wheels, about.get("sees_card") is True)

    # ---- what is wanted ---------------------------------------------------------------------------------------------

    def wanted(self) -> Wanted | None:
        """What was asked for and is not done."""
        about = _read(self.folder / "wanted.json")
        build, wheels, paused = about.get("build"), about.get("wheels"), about.get("paused")
        if not isinstance(build, str) or not isinstance(wheels, str):
            return None
        return Wanted(build, wheels, paused is True)

    def want(self, wanted: Wanted | None) -> None:
        """Remember it for the next start; None when it is done, or given up."""
        if wanted is None:
            remove(self.folder / "wanted.json")
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_private(self.folder / "wanted.json", json.dumps(asdict(wanted)).encode())

    # ---- making one -------------------------------------------------------------------------------------------------

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Only one program at a time makes or removes a runtime; raises `OccupiedError`."""
        from filelock import FileLock, Timeout  # noqa: PLC0415  # the window is opened without

        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            message = say("Another Coppice is installing the engine just now.")
            raise OccupiedError(message, say("Wait until it is done, or close it.")) from error
        try:
            yield
        finally:
            lock.release()

    def stage(self) -> Path:
        """A new empty folder to make a runtime in."""
        folder = self.folder / f"{_STAGING}{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    def commit(self, staging: Path, made: Installed) -> Installed:
        """Make a verified runtime, as it lies in `staging`, the one that is used.

        Everything is on the disk before the marker is, and the marker before `active.json`: whenever this ends too
        early, even by a power cut, the former state holds, or the next start finds the marker and only has to swap.
        """
        about = {"format": _FORMAT, "build": made.build, "fingerprint": made.fingerprint, "torch": made.torch}
        about |= {"python": made.python.relative_to(staging).as_posix(), "wheels": made.wheels}
        about["sees_card"] = made.sees_card
        self._sync()
        write_private(staging / _MARKER, json.dumps(about).encode())
        target = self.folder / f"{made.build}-{made.fingerprint}-{staging.name.removeprefix(_STAGING)}"
        retried(lambda: staging.rename(target), patiently=True)
        sync_folder(self.folder)
        return self._activate(target)

    def adopt(self, fingerprint: str) -> Installed | None:
        """Use one that was verified and not yet swapped in when an earlier start ended."""
        for folder in self._runtimes():
            found = self._marked(folder)
            if found is not None and found.fingerprint == fingerprint and not self._is_active(folder):
                return self._activate(folder)
        return None

    def _activate(self, folder: Path) -> Installed:
        write_private(self.folder / "active.json", json.dumps({"folder": folder.name}).encode())
        sync_folder(self.folder)
        for other in self._runtimes():
            if other != folder:  # what was replaced is not adopted again, whatever was wrong with it
                (other / _MARKER).unlink(missing_ok=True)
        found = self.installed()
        assert found is not None
        return found

    def sweep(self) -> None:
        """Take away what earlier starts left unfinished, and runtimes that are no longer used, as far as that goes."""
        for folder in [*self.folder.glob(f"{_STAGING}*"), *self._runtimes()]:
            if not self._is_active(folder):
                _discard(folder)

    def remove(self) -> None:
        """Take the runtime away, and what was asked for; chats and models are elsewhere."""
        self.want(None)
        (self.folder / "active.json").unlink(missing_ok=True)
        self.sweep()

    def _runtimes(self) -> list[Path]:
        return [each for each in self.folder.glob("*-*-*") if each.is_dir() and not each.name.startswith(".")]

    def _is_active(self, folder: Path) -> bool:
        return _read(self.folder / "active.json").get("folder") == folder.name


def _discard(folder: Path) -> None:
    """First by name, so that it never counts again; files that a running engine holds open on Windows stay a while."""
    (folder / _MARKER).unlink(missing_ok=True)
    remove_folder(folder)
    if folder.exists():
        _log.info("%s could not be removed completely; the next start tries again", folder)


def _sync_everything() -> None:
    """Windows has no such thing; a volume there is written through soon enough."""
    if sys.platform != "win32":
        os.sync()


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stored if isinstance(stored, dict) else {}
