"""Everything about the runtime of one person in one place: what is there, what can be installed, and doing it."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from app.installation.runtime.environment import engine_environment
from app.installation.runtime.place import Installed, RuntimePlace, Wanted
from app.system.background import attempt
from app.system.bundle import RuntimeParts, runtime_parts
from app.system.paths import Folders, expanded, is_folder
from engine.errors import CoppiceError
from engine.protocol.sentences import say

if TYPE_CHECKING:  # what making a runtime takes is read when one is made: most starts only use theirs
    from app.installation.runtime.builds import Build, Proposal
    from app.installation.runtime.hardware import Hardware
    from app.installation.runtime.installation import Installation
    from app.installation.runtime.lock import Lock
    from app.installation.runtime.tools import InstallDependencies

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """How an engine of the runtime is started: its Python, and the whole environment it sees."""

    python: Path
    environment: Mapping[str, str]


class MissingRuntimeError(CoppiceError):
    """There is no engine yet; the window offers to install one."""


class RuntimeManager:
    """Made where a Coppice provisions its engine; where it runs from a checkout with torch, there is none."""

    def __init__(self, parts: RuntimeParts, place: RuntimePlace, make: "Callable[[], InstallDependencies]") -> None:
        """`place`: where runtimes lie. `make` is called when something is first installed or removed."""
        self._parts = parts
        self.place = place
        self._make = make

    @cached_property
    def _dependencies(self) -> "InstallDependencies":
        return self._make()

    @property
    def locks(self) -> "dict[Build, Lock]":
        """What this Coppice can install."""
        from app.installation.runtime.builds import Build  # noqa: PLC0415
        from app.installation.runtime.lock import LockError, read_lock  # noqa: PLC0415

        found = {}
        for build in Build:
            try:
                found[build] = read_lock(self._parts.lock(build.value))
            except LockError as error:
                if self._parts.lock(build.value).is_file():
                    _log.warning("%s", error)
        return found

    def propose(self, hardware: "Hardware | None" = None) -> "Proposal":
        """Ask the computer what suits it; takes up to seconds. Where that fails, its system alone decides."""
        from app.installation.runtime.builds import propose  # noqa: PLC0415
        from app.installation.runtime.hardware import known_without_asking, look  # noqa: PLC0415

        return propose(hardware or attempt(look, lambda _error: known_without_asking()), self.locks)

    def installed(self) -> Installed | None:
        """The runtime that engines are started from."""
        return self.place.installed()

    def is_outdated(self) -> bool:
        """Whether this Coppice brings another lock for the build that is installed."""
        from app.installation.runtime.builds import Build  # noqa: PLC0415

        here = self.installed()
        lock = self.locks.get(Build(here.build)) if here and here.build in set(Build) else None
        return here is not None and lock is not None and lock.fingerprint != here.fingerprint

    def start(self) -> Start:
        """How to start an engine now; raises `MissingRuntimeError`."""
        here = self.installed()
        if here is None:
            raise MissingRuntimeError(
                say("The engine is not installed yet."), say("Chats can be read, and models downloaded.")
            )
        return Start(here.python, engine_environment(os.environ))

    def to_resume(self) -> Wanted | None:
        """What an earlier start has not finished."""
        return self.place.wanted()

    def tidy(self) -> None:
        """Take away what earlier starts have left: runtimes that were replaced, or never finished."""
        try:
            with self.place.occupied():
                self.place.sweep()
        except (CoppiceError, OSError) as error:
            _log.info("What is left of earlier engines stays for now: %s", error)

    def install(self, wanted: Wanted) -> "Installation":
        """An installation that is not yet run; raises `LockError` where there is no such build."""
        from app.installation.runtime.installation import Installation  # noqa: PLC0415
        from app.installation.runtime.lock import read_lock  # noqa: PLC0415

        lock = read_lock(self._parts.lock(wanted.build))
        dependencies = self._dependencies
        if not wanted.wheels:
            return Installation(dependencies, lock, wanted)
        return Installation(dependencies, lock, replace(wanted, wheels=str(expanded(wanted.wheels).absolute())))

    def repair(self, wheels: str = "") -> "Installation":
        """The same build made anew beside the old one, which is used until the new one is verified."""
        from app.installation.runtime.builds import Build  # noqa: PLC0415

        here, wanted = self.installed(), self.to_resume()
        build = here.build if here else wanted.build if wanted else Build.CPU.value
        if not wheels and here is not None and here.wheels and is_folder(Path(here.wheels)):
            wheels = here.wheels
        return self.install(Wanted(build, wheels))

    def remove(self) -> None:
        """Take the runtime away; raises `OccupiedError` and `OSError`."""
        with self.place.occupied():
            self.place.remove()
            for path in self._dependencies.wheels.glob("*.whl*"):
                path.unlink(missing_ok=True)


def runtime_manager(folders: Folders) -> RuntimeManager | None:
    """None where the engine is that of this very Python."""
    parts = runtime_parts()
    if parts is None:
        return None
    place = RuntimePlace(folders.data / "runtime")

    def make() -> "InstallDependencies":
        from app.installation.runtime.tools import InstallDependencies, tools_of  # noqa: PLC0415

        return InstallDependencies(place, folders.cache / "engine-wheels", tools_of(parts))

    return RuntimeManager(parts, place, make)
