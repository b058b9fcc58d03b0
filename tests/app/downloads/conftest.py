"""What the tests of downloads share: a loopback hub, a tiny model on it, and dependencies that never waits long."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.downloads.control import Control
from app.downloads.dependencies import Dependencies, RetryPolicy
from app.downloads.disk import Disk
from app.downloads.download import Download
from app.downloads.progress import Progress, Request, State
from tests.app.downloads.models import REPO
from tests.hub.fixture import hub

__all__ = ["hub"]


class SmallDisk(Disk):
    """The real disk, which may be filled to the last byte."""

    reserve_bytes = 0


@dataclass
class Waits:
    """Stands in for waiting: keeps the seconds and what the download says of itself, and returns at once."""

    seconds: list[float] = field(default_factory=list)
    said: list[Progress] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)

    def __call__(self, control: Control, seconds: float) -> None:
        self.seconds.append(seconds)
        self.said.extend(download.progress for download in self.downloads)
        control.check()

    @property
    def states(self) -> list[State]:
        """What the download was doing at each wait."""
        return [progress.state for progress in self.said]


@pytest.fixture
def waits() -> Waits:
    """What downloads have waited for between attempts."""
    return Waits()


@pytest.fixture
def dependencies(waits: Waits) -> Dependencies:
    """No waiting, a stall after a quarter of a second, no jitter."""
    retry = RetryPolicy(random=lambda: 1.0)
    return Dependencies(disk=SmallDisk(), retry=retry, stall_seconds=0.25, wait=waits)


Start = Callable[..., Download]


@pytest.fixture
def start(dependencies: Dependencies, waits: Waits) -> Start:
    """Makes a download of the tiny model, not yet run; fields of `Request` can be given."""

    def make(to: Path | str = "", using: Dependencies | None = None, **asked: Any) -> Download:
        download = Download(1, Request(**{"repo_id": REPO, "to": str(to)} | asked), using or dependencies)
        waits.downloads = [download]
        return download

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The model's folder in the hub cache."""
    return tmp_path / "hf" / "hub" / f"models--{REPO.replace('/', '--')}"
