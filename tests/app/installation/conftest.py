"""What the tests of the runtime share: a package index, and what makes tiny runtimes without waiting."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies, RetryPolicy
from app.downloads.disk import Disk
from app.installation.runtime.installation import Installation
from app.installation.runtime.lock import Lock
from app.installation.runtime.place import RuntimePlace, Wanted
from app.installation.runtime.tools import INDEX_VARIABLE, InstallDependencies, Verification
from tests.app.downloads.conftest import SmallDisk, Waits
from tests.app.installation.packages import PackageIndex, lock_of, tiny_wheels
from tests.app.installation.tiny_tools import TinyTools

PATIENCE_SECONDS = 60.0
ANSWER = ("-c", "import json, torch; print(json.dumps({'text': torch.answer()}))")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """A package index with the tiny wheels; it is the one that is asked."""
    served = PackageIndex(tiny_wheels())
    monkeypatch.setenv(INDEX_VARIABLE, served.address)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    yield served
    served.close()


@pytest.fixture
def lock() -> Lock:
    """The tiny wheels' lock."""
    return lock_of(tiny_wheels())


@pytest.fixture
def waits() -> Waits:
    """What was waited for between attempts."""
    return Waits()


@pytest.fixture
def dependencies(tmp_path: Path, waits: Waits) -> InstallDependencies:
    """In a folder whose name has a space and letters that not every alphabet knows."""
    return make_dependencies(tmp_path / "Jürgen Müller 数据", waits)


def make_dependencies(folder: Path, wait: Callable[[Control, float], None] = Control.wait) -> InstallDependencies:
    """The real one but for its waits, its disk's reserve, and what the engine is asked."""
    place = RuntimePlace(folder / "runtime", sync=lambda: None)
    retry = RetryPolicy(random=lambda: 1.0)
    downloads = Dependencies(disk=SmallDisk(), retry=retry, stall_seconds=PATIENCE_SECONDS, wait=wait)
    verification = Verification(arguments=ANSWER, limits=())
    return InstallDependencies(place, folder / "wheels", TinyTools(), downloads, verification)


def install(dependencies: InstallDependencies, lock: Lock, wheels: Path | str = "") -> Installation:
    """Run an installation to its end, whichever that is."""
    installation = Installation(dependencies, lock, Wanted(lock.build, str(wheels)))
    installation.run()
    return installation


def with_disk(dependencies: InstallDependencies, disk: Disk) -> InstallDependencies:
    """The same on another disk."""
    return replace(dependencies, downloads=replace(dependencies.downloads, disk=disk))
