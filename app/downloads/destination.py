"""Where the files of a download go: what every kind of place can do."""

from pathlib import Path
from typing import Protocol

from app.downloads.disk import Check
from app.hub.plan import RemoteFile


class Destination(Protocol):
    """The hub cache, or a plain folder. `folder` is the model's own when all is there."""

    folder: Path

    def has(self, file: RemoteFile, check: Check) -> bool:
        """Whether the complete file is there already."""
        ...

    def prepare(self) -> None:
        """Make the folders."""
        ...

    def partial(self, file: RemoteFile) -> Path:
        """Where the file lies while it arrives; the same in every session."""
        ...

    def keep(self, file: RemoteFile) -> None:
        """Make a partial file, which is complete and checked, one of the model's."""
        ...

    def finish(self) -> None:
        """Everything is there: make it known."""
        ...

    def clear(self, files: tuple[RemoteFile, ...]) -> None:
        """Remove what is partial of these files, and folders that are empty; nothing else."""
        ...


def remove_if_empty(*folders: Path) -> None:
    """Remove folders in this order, as far as they are there and empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            continue
